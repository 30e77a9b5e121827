"""Templates: what a person may write, what becomes of it, and what is refused with its place."""

from __future__ import annotations

import contextlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.model import Evidence, Impact, JobImpact, JobVerdict
from fabricmon.notify import message_fields
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.notify.message_fields import past
from fabricmon.notify.template import BODY, TITLE, TemplateError, one_line, parse, plain_text, values
from tests.notify.made import T0, incident, note

LINKS = IncidentLinks("https://page")


def rendered(template: str, links: IncidentLinks = LINKS, **changes: object) -> str:
    made = incident(**changes)
    return plain_text(parse(template).render(values(made, note("k", made), links)))


def test_every_field_has_a_value_and_only_those_are_known():
    made = incident()
    assert set(message_fields.field_values(made, note("k", made), LINKS)) == set(message_fields.FIELDS)
    parse("".join(f"{{{name}}}" for name in message_fields.FIELDS))


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ("{tittle}", "line 1, column 1: unknown field 'tittle', did you mean 'title'?"),
        ("ok {id}\nand {why.__class__}", "line 2, column 5: {why.__class__} is no field"),
        ("{0}", "line 1, column 1: unknown field '0'"),
        ("{why!r}", "only a name may stand in braces"),
        ("{why:>9999999}", "only a name may stand in braces"),
        ("{}", "line 1, column 1: unknown field ''"),
        ("a { b", "line 1, column 3: a single '{'"),
        ("a } b", "line 1, column 3: a single '}'"),
        ("x" * 8193, "at most 8192 characters"),
        ("\n" * 101 + "x", "at most 100 lines"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_with_its_place(template, place):
    with pytest.raises(TemplateError) as refused:
        parse(template)
    assert place in str(refused.value)


def test_braces_and_labels():
    assert rendered("{{{label.rack}}} {label.none}.") == "{r7} ."


def test_a_line_whose_fields_are_all_empty_is_left_out():
    assert rendered("Ended: {resolved}\nid {id}\nplain") == "id i-1\nplain"
    assert rendered("{resolved} {id}") == "i-1"


def test_values_of_several_lines_stand_below_their_heading():
    evidence = (Evidence("a", "one"), Evidence("b", "two"), Evidence("c", "no", for_it=False))
    assert rendered("Evidence: {evidence}", evidence=evidence) == "Evidence:\n  - a: one\n  - b: two"
    assert rendered("Against: {against}", evidence=evidence) == "Against: c: no"


def test_the_defaults_say_what_a_person_needs():
    said = rendered(BODY)
    for part in ("link(host-007/mlx5_3/i-1)", "3 downs, weighted by age 2.9", "93 %", "Reseat the cable",
                 "https://page/#i-1", "https://page/runbooks/link_flapping", "new incident"):  # fmt: skip
        assert part in said
    assert "Incident:" not in rendered(BODY, NO_LINKS)
    made = incident(status="resolved", resolved=T0 + 90)
    assert one_line(parse(TITLE).render(values(made, note("k", made), LINKS))) == "[RESOLVED] Link flaps"


def test_jobs_nobody_knows_are_not_none():
    assert rendered("{jobs}", impact=Impact("unknown", "slurm", None)) == ("unknown: no answer of slurm for too long")
    assert rendered("{jobs}", impact=Impact("known", "slurm", T0)) == "none"
    assert rendered("Jobs: {jobs}", impact=None) == ""
    job = JobImpact("4711", "train", "mara", "slurm", JobVerdict.CRASH, "out for 40 s", ("a",), 1, 64, T0)
    assert rendered("{jobs}", impact=Impact("known", "slurm", T0, (job,), 3)) == (
        "train (4711, mara) crashes, 1 of 64 nodes\nand 2 more"
    )


def test_names_from_the_fabric_stay_text():
    nasty = "leaf\r\nBcc: x@y\x1b[31m\u202e\u2066 {why} <b>\ud800"
    said = rendered("{component} {title}", component=nasty, title=nasty)
    assert "\n" not in said
    assert "\r" not in said
    assert not any(c in said for c in "\x1b\u202e\u2066\ud800")
    assert "{why}" in said  # what a value holds is not read as a template
    said.encode()


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_value_makes_lines_that_can_be_sent(title, component):
    for row in rendered(BODY, title=title, component=component, why=title, parts=(component,)).split("\n"):
        assert not {unicodedata.category(c) for c in row} & message_fields.UNSEEN
        row.encode()


@given(st.text(alphabet="{}ab.!:{}why\n ", max_size=60))
def test_any_text_is_a_template_or_refused(template):
    with contextlib.suppress(TemplateError):
        plain_text(parse(template).render(lambda name: "v"))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (12000, "3 h 20 min"),
     (187200, "2 d 4 h"), (-1, ""), (float("nan"), "")],
)  # fmt: skip
def test_a_length_of_time(seconds, said):
    assert message_fields.duration(seconds) == said


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(1.0, "over 99 %"), (0.9949, "99 %"), (0.96, "96 %"),
     (0.55, "55 %"), (0.2, "20 %"), (float("nan"), "")],
)  # fmt: skip
def test_how_sure(confidence, said):
    assert message_fields.percent(confidence) == said


@pytest.mark.parametrize(("title", "words"), [
    ("Suspected: Rail su0/6 is congested: 22 of 32 ports", "Suspected: Rail su0/6 was congested: 22 of 32 ports"),
    ("NVLinks of 7 of 8 GPUs of is-1 have errors", "NVLinks of 7 of 8 GPUs of is-1 had errors"),
    ("Link flapping: host-007/mlx5_3/1", "Link flapping: host-007/mlx5_3/1"),
])  # fmt: skip
def test_the_title_of_what_is_over(title: str, words: str) -> None:
    assert past(title) == words
