"""Silences and maintenance windows: what is accepted and what they cover."""

from __future__ import annotations

import pytest

from fabricmon.notify.silence import LONGEST, SilenceError, maintenance, silence, silenced_by
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
    for hosts in ([], ["*"], [" "]):
        with pytest.raises(SilenceError, match="hosts"):
            maintenance("m", T0, T0 + 60, hosts=hosts)
