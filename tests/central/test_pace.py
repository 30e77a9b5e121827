"""When ticks are due: soon after an event, never more than their share, never so that nothing else has its turn."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.evaluation.pace import CREDIT, GATHER, LOAD, RETRY, USUAL, TickPace

PERIOD = 0.25
WORK = st.floats(1e-4, 0.4)
EVENTS = st.lists(st.floats(0.0, 2.0), max_size=4)
STEPS = st.lists(st.tuples(WORK, st.floats(0.0, 0.3), EVENTS), min_size=1, max_size=40)
"""Each tick's work, the seconds that its commit takes beside, and when events come after it began."""


class Run:
    """Ticks as the server has them. `ticks`: begin, end and work of each; `asked`: events, the last tick before each,
    and when the next one began."""

    def __init__(self, steps):
        self.ticks, self.asked, now, pace = [], [], 0.0, TickPace()
        for work, waited, events in steps:
            pace.begin(now)
            begin, end = now, now + work + waited
            events = sorted(begin + each for each in events)
            taken = []
            for at in [each for each in events if each <= end]:
                pace.ask(at)
                taken.append(at)
            pace.end(end, work)
            for at in [each for each in events if each > end]:
                if at >= pace.due(PERIOD):
                    break
                pace.ask(at)
                taken.append(at)
            now = max(end, pace.due(PERIOD))
            self.ticks.append((begin, end, work))
            self.asked += [(at, len(self.ticks) - 1, now) for at in taken]
            self.next = now


@given(STEPS)
def test_no_event_waits_longer_than_stated(steps):
    run = Run(steps)
    for at, during, then in run.asked:
        begin, end, work = run.ticks[during]
        assert then <= max(at + GATHER, end + work, begin + LOAD * work) + 1e-9


@given(STEPS)
def test_ticks_take_their_share_and_a_credit_at_most(steps):
    run = Run(steps)
    for first in range(len(run.ticks)):
        total = 0.0
        for begin, _, work in run.ticks[first:]:
            assert total <= (begin - run.ticks[first][0] + CREDIT) / LOAD + 1e-9
            total += work


@given(STEPS)
def test_others_have_as_long_as_each_tick_worked_and_no_tick_comes_late(steps):
    run = Run(steps)
    begins = [begin for begin, _, _ in run.ticks[1:]] + [run.next]
    for (begin, end, work), then in zip(run.ticks, begins, strict=True):
        assert then - end >= work - 1e-9
        assert then <= max(begin + max(PERIOD, USUAL * work), end + work) + 1e-9


@given(st.lists(WORK, min_size=2, max_size=20))
def test_without_events_the_period_or_the_share_decides(works):
    run = Run([(work, 0.0, []) for work in works])
    for (begin, _, work), (then, _, _) in zip(run.ticks, run.ticks[1:], strict=False):
        assert math.isclose(then, begin + max(PERIOD, USUAL * work), rel_tol=1e-9)


def test_a_failed_tick_is_not_tried_at_once_whatever_comes():
    pace = TickPace()
    pace.begin(10.0)
    pace.fail(10.1)
    pace.ask(10.2)
    assert pace.due(PERIOD) == 10.1 + RETRY


def test_only_the_first_event_since_a_tick_began_is_news():
    pace = TickPace()
    pace.begin(1.0)
    assert pace.ask(1.1)
    assert not pace.ask(1.2)
    pace.begin(1.3)
    assert pace.ask(1.3)
