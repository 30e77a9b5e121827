"""How long a source that fails waits before it tries again: twice as long each time, up to its limit, and as at first
once it answered. Pauses are drawn from the upper half, so that many servers do not ask at the same time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from fabricmon.central.jobs.feed import RETRY, JobFeed
from fabricmon.central.jobs.settings import JobsConfig
from fabricmon.central.jobs.source import JobsError
from fabricmon.central.prometheus.api import RuleApiError
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.prometheus.source import PrometheusSource
from fabricmon.engine import Engine
from fabricmon.jobs.model import Listing
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, evaluator_rules
from fabricmon.rules.rule import Scope
from fabricmon.units import Duration
from tests.jobs.test_job_sources import Told

PERIOD, LONGEST = 7.0, 20.0


class OverError(Exception):
    """All attempts were made."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What was waited for, at most: `asyncio.sleep` does not wait."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    def uniform(low: float, high: float) -> float:
        assert (low, high) == (0.5, 1.0)
        return high

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        patched.setattr(random, "uniform", uniform)
        yield made


class PlayedSource:
    """Does what is in the list, one entry an attempt: the errors are raised, answers are passed on before."""

    def __init__(self, attempts: Sequence[tuple[bool, Exception | None]]) -> None:
        self.name, self.period, self._attempts = "plays", PERIOD, list(attempts)

    def close(self) -> None:
        """Nothing to release."""

    async def follow(self, answered: Callable[[Listing], None]) -> None:
        if not self._attempts:
            raise asyncio.CancelledError
        answers, error = self._attempts.pop(0)
        if answers:
            answered(Listing(()))
        if error is not None:
            raise error


FAILS, FAULT = JobsError("no"), OverError("a fault")


@pytest.mark.parametrize(
    ("attempts", "waits"),
    [
        ([(True, None)] * 2, [PERIOD] * 2),
        ([(False, FAILS)] * 5, [RETRY * 2.0**n for n in range(1, 6)]),
        (
            [(False, FAILS)] * 3 + [(True, FAILS)] * 2 + [(False, FAILS)],
            [2 * RETRY, 4 * RETRY, 8 * RETRY, RETRY, RETRY, 2 * RETRY],
        ),
        ([(False, FAILS)] * 2 + [(True, None), (False, FAILS)], [2 * RETRY, 4 * RETRY, PERIOD, 2 * RETRY]),
        ([(False, FAULT), (True, None)], [LONGEST, PERIOD]),
    ],
)
async def test_a_source_of_jobs(
    pauses: list[float], attempts: list[tuple[bool, Exception | None]], waits: list[float]
) -> None:
    feed = JobFeed(JobsConfig(retry_max=Duration(LONGEST)), Told(), time.time)
    source = PlayedSource(attempts)
    feed._adopt([source])
    with pytest.raises(asyncio.CancelledError):
        await feed._follow(source)
    assert pauses == pytest.approx([min(one, LONGEST) for one in waits])


async def test_a_rule_evaluator(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    alerts = EvaluatorAlerts()
    engine = Engine(Scope.FLEET, rules=evaluator_rules(RULES, alerts, own=False))
    config = PrometheusConfig(url="http://127.0.0.1:1", interval=Duration(2), retry_max=Duration(LONGEST))
    source = PrometheusSource(config, engine, alerts, RULES, lambda: 50.0)
    outcomes: list[Exception | None] = [None, *[RuleApiError("no")] * 4, None, RuleApiError("no"), OverError()]

    async def poll(session: object) -> None:
        if (error := outcomes.pop(0)) is not None:
            raise error

    monkeypatch.setattr(source, "poll", poll)
    with pytest.raises(OverError):
        await source.run()
    assert pauses == [2.0, 4.0, 8.0, 16.0, LONGEST, 2.0, 4.0]
    assert source.warnings() == ["Rule evaluator cannot be queried, its last alerts are in use: no"]
