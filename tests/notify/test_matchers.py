"""Matchers as people write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.model import Impact, JobImpact, JobVerdict, Severity
from fabricmon.notify.matchers import Matcher, MatcherError, Op, covers, matches, nodes_of, parse
from fabricmon.notify.silence import Silence
from tests.notify.made import T0, incident

LINK = incident(component="link(host-007/mlx5_3/1, leaf-3/12)", severity=Severity.WARNING)
LEAF = incident(component="leaf(su1/rail2)", kind="fault_domain", labels={})


@pytest.mark.parametrize(
    ("text", "link", "leaf"),
    [
        ("kind=link_flapping", True, False),
        ("kind != link_flapping", False, True),
        ('component=~"link\\(host-00.*"', True, False),
        ("component=~host-007", False, False),  # anchored at both ends
        ("node=host-007", True, False),
        ("node=leaf-3", True, False),
        ("node!=host-007", False, True),
        ("node=~host-0[0-9]+", True, False),
        ("node!~host-0[0-9]+", False, True),
        ("severity=warning", True, True),
        ("rack=r7", True, False),
        ("label.rack=r7", True, False),
        ("rack!=r7", False, True),
        ("rack=", False, True),  # a label that is not there is empty
        ("id=i-1", True, True),
        ("status='firing'", True, True),
    ],
)
def test_a_matcher_holds_for_what_it_says(text: str, link: bool, leaf: bool) -> None:
    assert (matches([parse(text)], LINK), matches([parse(text)], LEAF)) == (link, leaf)


def test_all_matchers_must_hold() -> None:
    assert matches([parse("kind=link_flapping"), parse("rack=r7")], LINK)
    assert not matches([parse("kind=link_flapping"), parse("rack=r8")], LINK)


def test_nodes_are_those_that_the_component_names() -> None:
    assert nodes_of(LINK) == ("host-007", "leaf-3")
    assert nodes_of(LEAF) == ()
    assert nodes_of(incident(component="host(h1)", labels={"node": "h1", "host": "h2"})) == ("h1", "h2")


@pytest.mark.parametrize(
    "text",
    [
        "kind",
        "=x",
        "",
        "kind=~(",
        "kind=~[",
        "kind=~*",
        "kind=~(a)\\1",
        "kind=~(?=a)b",
        "kind=" + "x" * 300,
        "kind=~" + "(" * 200 + ")" * 200 + "*{99999999999999999999}",
    ],
)
def test_what_is_no_matcher_or_not_linear_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(MatcherError, match=r"\S"):
        parse(text)


@pytest.mark.parametrize("text", ["host-0(1|2|3)", "(a|b)c", "host-0.*|host-1.*|host-2.*|host-3.*", "[)(*+]+x", "a\\*"])
def test_usual_expressions_are_taken(text: str) -> None:
    assert parse(f"node=~{text}").op is Op.LIKE


@given(st.text(max_size=40))
def test_any_text_is_a_matcher_or_a_matcher_error(text: str) -> None:
    try:
        made = parse(text)
    except MatcherError:
        return
    assert isinstance(made, Matcher)
    assert isinstance(matches([made], LINK), bool)


SLOW = [".?" * 60, ".*" * 60 + "x", "(a+)+", "(a|a)*b", "((a*))*b", "(?:a?){20}a{20}", "(.*,){40}!"]
"""Expressions that take a backtracking matcher from seconds to for ever on a component of 10,000 letters."""


@pytest.mark.parametrize("text", SLOW)
@pytest.mark.timeout(10)
def test_an_expression_costs_what_its_subject_is_long(text: str) -> None:
    matches([parse(f"component=~{text}")] * 100, incident(component="a," * 5000))


@settings(max_examples=300)
@given(st.text(alphabet="ab|*+?.", max_size=16), st.text(alphabet="ab", max_size=6))
def test_what_is_taken_matches_as_in_python(text: str, subject: str) -> None:
    try:
        found = matches([parse(f"component=~{text}")], incident(component=subject))
        expected = re.fullmatch(text, subject) is not None
    except (MatcherError, re.error):
        return
    assert found is expected


def test_text_that_is_not_unicode_is_compared_all_the_same() -> None:
    assert matches([parse("component=~a.*")], incident(component="a\ud800"))


@pytest.mark.parametrize("op", [Op.LIKE, Op.UNLIKE])
def test_a_stored_silence_that_cannot_be_evaluated_covers_nothing_and_says_why(op: Op) -> None:
    good, bad = parse("kind=link_flapping"), Matcher("component", op, "(a)\\1")
    stored = Silence("s-1", (good, bad), T0 - 1, T0 + 1, "mara")
    assert stored.disabled.startswith("component: ")
    assert "RE2" in stored.disabled
    assert not stored.covers(LINK)
    assert Silence("s-2", (good,), T0 - 1, T0 + 1, "mara").covers(LINK)


def test_jobs_and_their_users():
    job = JobImpact("4711", "train-70b", "mara", "slurm", JobVerdict.STALL, "", (), 1, 8, T0)
    hit = incident(impact=Impact("known", "slurm", T0, (job,), 1))
    for text in ("job=train-70b", "job=4711", "user=mara", "user=~ma.*", "job!=eval"):
        assert matches([parse(text)], hit), text
    for text in ("job=eval", "user=jon"):
        assert not matches([parse(text)], hit), text
    assert not matches([parse("job=~.+")], incident())
    assert matches([parse("user!=mara")], incident())


def test_a_silence_for_one_job_or_user_does_not_cover_an_incident_that_hits_another():
    def job(id: str, name: str, user: str) -> JobImpact:
        return JobImpact(id, name, user, "slurm", JobVerdict.STALL, "", (), 1, 8, T0)

    def hits(*jobs: JobImpact, total: int = 0):
        return incident(impact=Impact("known", "slurm", T0, jobs, total or len(jobs)))

    train, other, foreign = job("1", "train", "mara"), job("2", "eval", "mara"), job("3", "train", "jon")
    assert covers([parse("user=mara"), parse("kind=link_flapping")], hits(train, other))
    assert covers([parse("job=train")], hits(train, foreign))
    assert not covers([parse("user=mara")], hits(train, foreign))
    assert matches([parse("user=mara")], hits(train, foreign))  # what a receiver asks
    assert not covers([parse("job=1")], hits(train, other))
    assert covers([parse("user!=jon")], hits(train, other))
    assert not covers([parse("user!=jon")], hits(train, foreign))
    for text in ("user=mara", "user!=jon", "job=~.*"):  # of the 40th job nothing is known
        assert not covers([parse(text)], hits(train, other, total=40))
    assert covers([parse("kind=link_flapping")], hits(train, other, total=40))
    assert covers([parse("user!=mara")], incident())
    assert not covers([parse("user=mara")], incident())
