"""The centre's time: it follows wall time, but neither jumps nor goes back."""

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.clock import SLEW, Clock


class Machine:
    def __init__(self):
        self.wall, self.monotonic = 1.8e9, 100.0

    def pass_time(self, seconds, step=0.0):
        self.wall += seconds + step
        self.monotonic += seconds


def clock_of(machine):
    return Clock(lambda: machine.wall, lambda: machine.monotonic)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=50))
def test_it_never_goes_back_and_drifts_by_a_tenth_at_most(moves):
    machine = Machine()
    clock = clock_of(machine)
    before = clock.now()
    for seconds, step in moves:
        machine.pass_time(seconds, step)
        now = clock.now()
        assert before <= now
        assert abs(now - before - seconds) <= SLEW * seconds + 1e-6
        before = now


def test_after_a_step_it_finds_back_to_wall_time():
    machine = Machine()
    clock = clock_of(machine)
    machine.pass_time(0.0, 60.0)
    assert machine.wall - clock.now() == 60.0
    assert clock.offset == 60.0
    for _ in range(700):
        machine.pass_time(1.0)
        clock.now()
    assert abs(machine.wall - clock.now()) < 1e-6
