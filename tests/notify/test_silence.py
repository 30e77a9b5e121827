"""Silences and maintenance windows: what is accepted and what they cover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.notify.silence import (
    LONGEST,
    MAX_NAMES,
    Silence,
    SilenceError,
    SilenceMatches,
    maintenance,
    silence,
    silenced_by,
)
from tests.notify.made import T0, incident


def test_a_silence_covers_what_matches_within_its_period() -> None:
    s = silence("s-1", ["kind=link_flapping", "node=host-007"], T0, T0 + 60, "me", "cable is being replaced")
    assert silenced_by(incident(), [s], T0) is s
    assert silenced_by(incident(), [s], T0 + 59.9) is s
    assert silenced_by(incident(), [s], T0 + 60) is None
    assert silenced_by(incident(), [s], T0 - 1) is None
    assert silenced_by(incident(kind="link_down"), [s], T0) is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"matchers": []}, "matchers"),
        ({"matchers": ["kind=x"] * 17}, "matchers"),
        ({"ends": T0}, "ends"),
        ({"ends": T0 + LONGEST + 1}, "ends"),
        ({"ends": float("nan")}, "ends"),
        ({"author": "x" * 2000}, "author"),
        ({"comment": "x" * 2000}, "comment"),
    ],
)
def test_a_bad_silence_is_refused_by_the_name_of_its_field(change: dict[str, object], word: str) -> None:
    good: dict[str, object] = {"id": "s", "matchers": ["kind=x"], "starts": T0, "ends": T0 + 9, "author": "me"}
    with pytest.raises(SilenceError, match=word):
        silence(**{**good, **change})  # type: ignore[arg-type]


def test_a_maintenance_window_names_something() -> None:
    made = maintenance("m", T0, T0 + 60, hosts=["host-04*"], comment="new firmware")
    assert (made.hosts, made.components, made.comment) == (("host-04*",), (), "new firmware")
    many = [f"host-{number}" for number in range(MAX_NAMES + 1)]
    assert maintenance("m", T0, T0 + 60, many[1:]).hosts == tuple(many[1:])
    with pytest.raises(SilenceError, match=f"at most {MAX_NAMES} names, got {MAX_NAMES + 1}"):
        maintenance("m", T0, T0 + 60, many[:9], many[9:])
    for hosts in ([], ["*"], [" "]):
        with pytest.raises(SilenceError, match="hosts"):
            maintenance("m", T0, T0 + 60, hosts=hosts)


@given(st.lists(st.tuples(st.lists(st.integers(0, 5), unique=True), st.lists(st.integers(0, 5), unique=True),
                          st.integers(0, 5))))  # fmt: skip
def test_what_is_kept_from_plan_to_plan_is_what_matching_everything_anew_finds(steps):
    made = [silence(str(n), [f"kind=k{n % 3}"], T0, T0 + 60 + n, "someone") for n in range(6)]
    incidents = {n: incident(id=str(n), kind=f"k{n % 3}") for n in range(6)}
    kept = SilenceMatches()
    for silences, present, changed in steps:
        incidents[changed] = replace(incidents[changed], kind=f"k{(changed + len(silences)) % 3}")
        shown = [incidents[n] for n in present]
        kept.know([made[n] for n in silences], shown)
        for each in shown:
            assert kept.of(each) == tuple(made[n] for n in silences if made[n].covers(each))


def test_a_plan_without_a_change_matches_no_silence_again(monkeypatch):
    many, everything = [silence(str(n), ["kind=k1"], T0, T0 + 60, "someone") for n in range(5)], [incident(id="1")]
    kept = SilenceMatches()
    kept.know(many, everything)
    monkeypatch.setattr(Silence, "covers", None)
    kept.know(list(many), everything)
    assert kept.silenced_by(everything[0], T0) is None
