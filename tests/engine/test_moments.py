"""Hosts that fall silent at one moment, and hosts that fall silent some seconds before or after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fabricmon.engine.diagnosis.moments import UNHEARD, down_with_others, of_one_moment


def kept(onsets: list[float], places: list[int] | None = None) -> list[bool]:
    onset = np.array(onsets)
    place = None if places is None else np.array([[-1] * len(onsets), places])
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
    names = np.array([[10, 30, 50, 70, 90, 110, 130], [4, 5, 6, 7, 8, 9, 10]])
    assert of_one_moment(np.array(onsets), np.zeros(7, np.int64), names).all(), "a3, b3, c3, ...: by the last part"


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


def with_others(onsets: list[float], elsewhere: list[float], before: float = 10.0, at: float = 0.0) -> list[bool]:
    """Of links of one leaf that went down, each read every `before` seconds, and of links of other leaves."""
    onset = np.array(onsets) + at
    every = np.sort(np.concatenate([onset, np.array(elsewhere) + at]))
    return down_with_others(onset, onset - before, np.zeros(len(onset), np.int64), every).tolist()


@pytest.mark.parametrize("at", [0.0, 1.8e9])
@pytest.mark.parametrize("apart", [-60.0, -25.0, 25.0, 60.0])
def test_links_that_went_down_with_others_are_not_of_a_leaf_of_another_moment(apart: float, at: float) -> None:
    onsets = [100.0, 100.0, 103.0, 100.0 + apart, 101.0 + apart]
    assert with_others(onsets, [100.0 + apart] * 3, at=at) == [False] * 3 + [True] * 2
    assert with_others(onsets, [100.0 + apart], at=at) == [False] * 5, "one elsewhere is no other cause"
    assert with_others(onsets, [], at=at) == [False] * 5, "they were read late"
    assert with_others(onsets, [100.0] * 9, at=at) == [False] * 5, "the others fell with most of the leaf"


def test_links_that_may_have_gone_down_with_most_of_their_leaf_are_its() -> None:
    onsets = [100.0] * 4 + [125.0]
    assert with_others(onsets, [125.0] * 5)[-1]
    assert not with_others(onsets, [125.0] * 5, before=30.0)[-1], "a sweep reads them every half minute"


BUNDLE = [(20, 1), (20, 3), (20, 2), (21, 0), (21, 3), (22, 2), (22, 0), (23, 3), (23, 1), (24, 1), (24, 3), (25, 2)]


@pytest.mark.parametrize("seconds", [25.0, 40.0])
def test_a_part_of_a_leaf_and_a_bundle_cut_before_it_are_two(world: Any, seconds: float) -> None:
    w = world(hosts=64)
    bundle = [(f"host-{host:03d}", rail) for host, rail in BUNDLE]
    part = {(f"host-{host:03d}", 3) for host in range(8)}
    w.break_links(bundle)
    w.run(seconds)
    w.break_links(part)
    w.run(60)
    members = sorted((i.component.partition("(")[0], i.members.bad) for i in w.firing("warning"))
    assert members == [("common", len(bundle)), ("part", len(part))]
