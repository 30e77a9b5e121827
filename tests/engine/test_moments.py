"""Hosts that fall silent at one moment, and hosts that fall silent some seconds before or after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fabricmon.engine.diagnosis.moments import UNHEARD, of_one_moment


def kept(onsets: list[float], places: list[int] | None = None) -> list[bool]:
    onset = np.array(onsets)
    place = None if places is None else np.array(places)
    return of_one_moment(onset, np.zeros(len(onset), np.int64), place).tolist()


def test_what_stops_with_most_is_of_their_moment() -> None:
    assert kept([100.0, 100.0, 101.0, 99.0, 100.0 + UNHEARD]) == [True] * 5


@pytest.mark.parametrize("other", [90.0, 94.0, 106.0, 110.0])
def test_what_stops_seconds_before_or_after_most_is_not(other: float) -> None:
    assert kept([100.0, 100.0, 100.5, 100.0, other]) == [True] * 4 + [False]


def test_hosts_that_stop_one_after_the_other_have_no_moment() -> None:
    assert kept([100.0, 106.0, 112.0, 118.0]) == [True] * 4
    assert kept([100.0, 100.0, 106.0]) == [True] * 3, "two at one moment may be chance"


def test_a_host_between_or_beside_those_of_the_moment_is_one_of_them() -> None:
    """Of which a frame was lost or late."""
    onsets = [100.0] * 6 + [107.0]
    assert kept(onsets, [10, 11, 12, 14, 15, 16, 13])[-1]
    assert kept(onsets, [10, 11, 12, 13, 14, 15, 16])[-1]
    assert not kept(onsets, [10, 11, 12, 13, 14, 15, 17])[-1]
    assert not kept(onsets, [10, 11, 12, 13, 14, 15, -1])[-1], "its place is not known"
    assert not kept(onsets, [10, 30, 50, 70, 90, 110, 60])[-1], "these are next to nothing"


@pytest.mark.parametrize("seconds", [7.0, 9.0])
def test_a_host_that_dies_seconds_after_a_segment_was_cut_is_notified_by_its_name(world: Any, seconds: float) -> None:
    w = world(hosts=64)
    w.silence([f"host-{at:03d}" for at in range(20, 32)])
    w.run(seconds)
    w.silence(["host-034"])
    w.run(60)
    told = {i.component.partition(" ")[0] for i in w.firing("warning")}
    assert "host(host-034)" in told
    assert len(told) == 2
