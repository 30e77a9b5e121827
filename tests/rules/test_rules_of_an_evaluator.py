"""Rules whose alerts a rule evaluator gives: what counts of the nodes that it covers and of those that it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Kind, Severity
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import (
    EvaluatorAlerts,
    EvaluatorReport,
    FiringAlert,
    evaluated_rows,
    evaluator_rules,
)
from tests.rules.bench_of_ports import POLL, Ports

LINK_DOWN = next(rule for rule in RULES if rule.name == "link_down")
PARAMS = LINK_DOWN.params()


def port(host: int, nic: int) -> ComponentId:
    return ComponentId(Kind.PORT, f"host-{host:03d}", f"mlx5_{nic}/1")


def alert(at: ComponentId, severity: Severity = Severity.CRITICAL, since: float = 90.0, case: str = "") -> FiringAlert:
    return FiringAlert("link_down", at, severity, since, case)


def site(*alerts: FiringAlert) -> tuple[Ports, EvaluatorAlerts]:
    """Three hosts with two ports; the evaluator covers the first two. Ports 0 of hosts 1 and 2 are down."""
    ports, evaluator = Ports(hosts=3, nics=2), EvaluatorAlerts()
    ports.polls(14)
    for host in (1, 2):
        ports.down(host, 0)
    ports.polls(3)
    evaluator.update(EvaluatorReport(100.0, alerts, True, frozenset({"link_down"}), frozenset()))
    evaluator.nodes = np.array([True, True])
    return ports, evaluator


def test_rows_are_covered_with_their_node_and_a_node_that_came_later_is_not() -> None:
    ports, evaluator = site()
    covered = evaluated_rows(ports.view(), evaluator)
    assert [bool(covered[ports.row(host, nic)]) for host in range(3) for nic in range(2)] == [True] * 4 + [False] * 2
    ports.fleet.forget("host-000")
    assert not evaluated_rows(ports.view(), evaluator)[: ports.view().n][ports.view().node < 0].any()


@pytest.mark.parametrize("own", [False, True])
def test_the_alerts_count_where_the_evaluator_covers_and_own_readings_elsewhere(own: bool) -> None:
    ports, evaluator = site(alert(port(0, 1)), alert(port(2, 1)))
    (rule,) = evaluator_rules([LINK_DOWN], evaluator, own)
    view = ports.view()
    found, ours = rule.test(view, PARAMS), LINK_DOWN.test(view, PARAMS)
    at = {(host, nic): ports.row(host, nic) for host in range(3) for nic in range(2)}
    for (host, nic), row in at.items():
        if host < 2:
            fires = (host, nic) == (0, 1)  # although host 1 reads that its port is down
            assert (found.fire[row], found.clear[row], found.known[row]) == (fires, not fires, True)
            assert found.value[row] == float(fires)
        elif own:
            assert (found.fire[row], found.clear[row]) == (ours.fire[row], ours.clear[row])
            assert (found.known[row], found.value[row]) == (ours.known[row], ours.value[row])
        else:
            assert not found.known[row]
    assert found.severity is not None
    assert found.since is not None
    assert (found.severity[at[0, 1]], found.since[at[0, 1]]) == (Severity.CRITICAL.rank, 90.0)
    assert found.severity[at[1, 0]] == LINK_DOWN.severity.rank
    assert math.isnan(found.since[at[1, 0]])
    if own:
        assert ours.since is not None
        assert found.since[at[2, 0]] == ours.since[at[2, 0]]
        assert found.severity[at[2, 0]] == LINK_DOWN.severity.rank


def test_a_covered_port_without_an_alert_is_healthy_only_while_its_node_reports() -> None:
    ports, evaluator = site(alert(port(0, 0)))
    (rule,) = evaluator_rules([LINK_DOWN], evaluator, own=False)
    later = View(ports.view().table, ports.now + 10 * POLL)
    known = rule.test(later, PARAMS).known
    assert [bool(known[ports.row(*at)]) for at in ((0, 0), (0, 1), (1, 0))] == [True, False, False]
    ports.nics[0].remove(1)
    ports.enter(0)
    ports.poll()
    assert not rule.test(ports.view(), PARAMS).known[ports.row(0, 1)]


def test_evidence_is_the_alert_where_it_decides_and_the_reading_where_we_do() -> None:
    ports, evaluator = site(alert(port(0, 0), case="never_up"), alert(port(0, 1)))
    view, row = ports.view(), ports.row
    (both,), (theirs,) = (evaluator_rules([LINK_DOWN], evaluator, own) for own in (True, False))
    for rule in (both, theirs):
        texts = [rule.evidence(view, row(0, nic), PARAMS)[0].text for nic in (0, 1)]
        assert texts == ["alert of the rule evaluator: Link down (critical, never_up)",
                         "alert of the rule evaluator: Link down (critical)"]  # fmt: skip
        (over,) = rule.evidence(view, row(1, 0), PARAMS)
        assert (over.text, over.for_it) == ("the alert of the rule evaluator has ended", False)
        infos = [rule.info(view, row(*at), PARAMS) for at in ((0, 0), (0, 1), (1, 0))]
        plain = {"evaluated_by": "rule evaluator"}
        assert infos == [plain | {"never_up": "true"}, plain, plain]
    elsewhere = row(2, 0)
    assert both.evidence(view, elsewhere, PARAMS) == LINK_DOWN.evidence(view, elsewhere, PARAMS)
    assert both.info(view, elsewhere, PARAMS) == LINK_DOWN.info(view, elsewhere, PARAMS)
    assert theirs.evidence(view, elsewhere, PARAMS)[0].text == "the alert of the rule evaluator has ended"
    assert theirs.info(view, elsewhere, PARAMS) == {"evaluated_by": "rule evaluator"}


def test_a_node_that_is_forgotten_takes_its_alerts_along() -> None:
    evaluator = EvaluatorAlerts()
    every = (alert(port(0, 0)), alert(port(0, 1)), alert(port(1, 0)))
    evaluator.update(EvaluatorReport(100.0, every, True, frozenset(), frozenset()))
    evaluator.update(EvaluatorReport(110.0, (), True, frozenset({"link_down"}), frozenset({"host-000", "host-001"})))
    assert evaluator.waiting
    evaluator.forget("host-000")
    assert set(evaluator.components()) == {port(1, 0)}
    evaluator.confirm({component.component for component in every}, 120.0)
    assert set(evaluator.components()) == set()
    assert not evaluator.waiting
    known, unknown = alert(port(0, 0), Severity.INFO, 80.0, "a"), alert(port(0, 0), Severity.WARNING, math.nan, "b")
    for order in ((known, unknown), (unknown, known)):
        evaluator.update(EvaluatorReport(120.0, order, True, frozenset(), frozenset()))
        assert evaluator.firing["link_down"] == {port(0, 0): alert(port(0, 0), Severity.WARNING, 80.0, "b")}
