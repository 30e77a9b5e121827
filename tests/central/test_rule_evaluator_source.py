"""Nodes of a rule evaluator are expected from its first answer on; before, nothing is known of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fabricmon.central.prometheus import source
from fabricmon.central.prometheus.api import RuleApiError, Vector
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.engine import Engine
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, evaluator_rules
from fabricmon.rules.rule import Scope


async def test_the_nodes_are_listed_with_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    alerts, failing = EvaluatorAlerts(), True

    async def answer(*_: Any) -> Vector:
        if failing:
            raise RuleApiError("connection refused")
        return Vector([], True)

    monkeypatch.setattr(source, "query", answer)
    engine = Engine(Scope.FLEET, rules=evaluator_rules(RULES, alerts, own=False))
    evaluator = source.PrometheusSource(PrometheusConfig(url="http://127.0.0.1:1"), engine, alerts, RULES, lambda: 50.0)
    with pytest.raises(RuleApiError):
        await evaluator.poll(None)  # type: ignore[arg-type]
    assert math.isinf(engine.fleet.expected_from)
    assert engine.fleet.exists("host-1", "mlx5_0/1", 0.0, 1e9)
    failing = False
    await evaluator.poll(None)  # type: ignore[arg-type]
    assert engine.fleet.expected_from == 50.0
    assert not engine.fleet.exists("host-1", "mlx5_0/1", 0.0, 1e9)
