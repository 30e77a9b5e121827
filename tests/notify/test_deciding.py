"""What a message says first: the reading that decides with its limit in its unit, the next best cause, the place."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.forms.readable import first_step
from fabricmon.model import Evidence, Members, RuledOut
from fabricmon.notify.deciding import next_cause, reading, where
from fabricmon.rules.rule import reading as made
from tests.notify.made import incident

PORT = "host-007/mlx5_3/1"


@pytest.mark.parametrize(("text", "value", "limit", "measure", "words"), [
    ("down for 400 s, state 1 (down)", 400.0, 5.0, "link_down.time", "down for 400 s, state 1 (down) (limit 5 s)"),
    ("5 downs, weighted by age 3.7", 3.7, 2.0, "link_flapping.penalty", "5 downs, weighted by age 3.7 (limit 2)"),
    ("has 25% of its width", 0.25, 1.0, "pcie_degraded.width", "has 25% of its width (limit 100 %)"),
    ("BER 2.8e-14 to 1.5e-13", 2.777e-14, 1e-14, "link_errors.ber", "BER 2.8e-14 to 1.5e-13 (limit 1e-14)"),
    ("runs at 200 Gb/s", 25e9, 50e9, "link_degraded.rate", "runs at 200 Gb/s (limit 400 Gb/s)"),
    ("round trip 900 us", 9e-4, 2.5e-4, "latency.rtt", "round trip 900 us (limit 250 us)"),
    ("2 probes lost", 2.0, 2.0, "unreachable.probes", "2 probes lost"),
    ("link down on 16 members", 16.0, 32.0, "", "link down on 16 members"),
    ("no answer", None, None, "", "no answer"),
    ("too much of it", 7.0, 3.0, "link_flapping.penalty", "too much of it (limit 3)"),
])  # fmt: skip
def test_a_reading_has_its_limit_in_its_unit(
    text: str, value: float | None, limit: float | None, measure: str, words: str
) -> None:
    found = made(text, "", value, limit, measure=measure)
    assert reading(incident(component="x", evidence=(replace(found, component="x"),))) == words
    assert reading(incident(component="y", evidence=(replace(found, component=PORT),))) == f"{PORT}: {words}"


def test_the_reading_that_was_compared_decides_and_neither_a_gain_nor_what_speaks_against_it() -> None:
    against, gain = Evidence("x", "up", "", 9.0, 1.0, for_it=False), Evidence("x", "gain 5.7 nats", "", 5.7, 0.0)
    found = (against, gain, Evidence("x", "down for 8 s", "", 8.0, 5.0, True, "seconds", "link_down.time"))
    assert reading(incident(component="x", evidence=found)) == "down for 8 s (limit 5 s)"
    assert reading(incident(component="x", evidence=found[:2])) == "gain 5.7 nats"
    assert reading(incident(evidence=found[:1])) == ""


@given(st.text(max_size=200), st.floats(), st.floats())
def test_any_reading_is_a_text(text: str, value: float, limit: float) -> None:
    evidence = Evidence("x", text, "", value, limit, unit="ratio", measure="incast.marked")
    words = reading(incident(component="x", evidence=(evidence,)))
    assert words.startswith(text)
    assert math.isfinite(value + limit) or words == text


def test_the_next_best_cause_is_one_not_told_apart_else_the_nearest() -> None:
    other = (RuledOut("16 faults", "unlikely", 110.0), RuledOut("leaf(a)", "15 are up", 4.0), RuledOut("b", "up"))
    assert next_cause(incident(ruled_out=other)) == "leaf(a), 55 times less likely"
    assert next_cause(incident(ruled_out=other, candidates=("nic(n/a)",))) == "nic(n/a), not ruled out"
    assert next_cause(incident(ruled_out=other[:1])) == "16 faults, over a million times less likely"
    limited = incident(ruled_out=other[:1], confidence=0.66)
    assert next_cause(limited) == "normal work that shows the same, not ruled out"
    assert next_cause(incident(ruled_out=other[1:], confidence=0.85)) == "leaf(a), 55 times less likely"
    assert next_cause(incident(ruled_out=other[2:])) == next_cause(incident()) == ""


def test_of_a_group_one_of_its_members_is_read_as_the_title_has_their_number() -> None:
    counted = Evidence("leaf(a)", "loss on 9 members", "", 9.0, 11.0)
    member = Evidence(PORT, "1% lost", "", 0.01, 1e-5, unit="ratio", measure="packet_loss.share")
    of_leaf = incident(component="leaf(a)", members=Members(9, 11), evidence=(counted, member))
    assert reading(of_leaf) == f"{PORT} (1 of 9): 1% lost (limit 0.001 %)"
    assert reading(replace(of_leaf, evidence=(Evidence("leaf(a)", "9 of them"),))) == "9 of them"


def test_the_only_member_is_not_named_again() -> None:
    down = Evidence(PORT, "down for 8 s")
    assert reading(incident(component=f"link({PORT}, leaf/3)", parts=(PORT,), evidence=(down,))) == "down for 8 s"
    assert reading(incident(component="link(x, leaf/3)", parts=("x",), evidence=(down,))) == f"{PORT}: down for 8 s"


def test_where_it_is() -> None:
    assert where(incident(labels={"rail": "su0/1", "node": "n1", "mode": "x"})) == "node n1, rail su0/1"
    assert where(incident(component="power(r2)", labels={})) == "power(r2)"
    assert where(incident(labels={"leaf": "su0/rail1", "switch": "sw-7"})) == "switch sw-7, leaf su0/rail1"


@given(st.lists(st.sampled_from(("Drain it.", "Read the log at 10.0.0.1.", "x" * 170 + ".")), min_size=1, max_size=5))
def test_the_first_step_is_whole_sentences(sentences: list[str]) -> None:
    text = " ".join(sentences)
    first = first_step(text)
    assert text.startswith(first)
    assert first.endswith(".")
    assert len(first) <= 160 or len(first) >= len(sentences[0])
