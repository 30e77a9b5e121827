"""The clock of evaluations: it follows wall time, but never goes back, and does not jump with each step of it."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.runtime.clock import LASTS, LEAP, SLEW, Clock, since_boot

SET = 1.8e9  # wall time of a clock that is set


class Machine:
    """wall time, and seconds since boot as the kernel counts them: suspended ones too"""

    def __init__(self, wall: float = SET) -> None:
        self.wall, self.steady = wall, 100.0

    def pass_time(self, seconds: float, step: float = 0.0) -> None:
        self.wall += seconds + step
        self.steady += seconds


def clock_of(machine: Machine) -> Clock:
    return Clock(lambda: machine.wall, lambda: machine.steady)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=50))
def test_it_never_goes_back_and_drifts_by_a_tenth_unless_the_wall_clock_is_far_ahead(
    moves: list[tuple[float, float]],
) -> None:
    machine = Machine()
    clock = clock_of(machine)
    before = clock.now()
    for seconds, step in moves:
        machine.pass_time(seconds, step)
        now = clock.now()
        assert before <= now
        if clock.offset <= LEAP:
            assert abs(now - before - seconds) <= SLEW * seconds + 1e-6
        else:
            assert now <= machine.wall + 1e-6
        before = now


@given(st.floats(-1e6, LEAP), st.floats(0.0, LASTS - 1.0))
def test_a_step_that_is_short_or_taken_back_at_once_moves_it_by_a_tenth_of_its_time(step: float, lasts: float) -> None:
    machine = Machine()
    clock = clock_of(machine)
    for moved in (step, 1e5):
        began = clock.now()
        machine.pass_time(0.0, moved)
        clock.now()
        machine.pass_time(lasts)
        assert abs(clock.now() - began - lasts) <= SLEW * lasts + 1e-6
        machine.pass_time(0.0, -moved)
        clock.now()


def test_after_a_step_it_finds_back_to_wall_time() -> None:
    machine = Machine()
    clock = clock_of(machine)
    machine.pass_time(0.0, 60.0)
    assert machine.wall - clock.now() == 60.0
    assert clock.offset == 60.0
    for _ in range(700):
        machine.pass_time(1.0)
        clock.now()
    assert abs(machine.wall - clock.now()) < 1e-6


@given(st.floats(0.0, 1e8), st.floats(1e3, 2e9))
def test_a_clock_that_was_set_after_the_start_is_followed_within_a_minute(booted: float, behind: float) -> None:
    machine = Machine(booted)
    clock = clock_of(machine)
    machine.pass_time(5.0)
    clock.now()
    machine.pass_time(0.0, behind)
    for _ in range(60):
        machine.pass_time(1.0)
        clock.now()
    assert abs(machine.wall - clock.now()) < 1e-3


def test_time_in_which_the_machine_was_suspended_counts_at_once() -> None:
    machine = Machine()
    clock = clock_of(machine)
    machine.pass_time(8 * 3600.0)
    assert clock.now() == machine.wall


def test_the_time_since_boot_is_not_the_monotonic_time_that_stands_still_while_suspended() -> None:
    assert abs(since_boot() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1.0
    assert since_boot() >= time.monotonic() - 1.0
