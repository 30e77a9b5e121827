"""What a ruler says and what it leaves unsaid: alerts stand until it could know that they have ended."""

from __future__ import annotations

import math

import msgspec
import pytest

from fabricmon.catalogue.series import component
from fabricmon.central.prometheus.answers import alerts, listed_components, node_of
from fabricmon.central.prometheus.api import RuleApiError, VectorSample, vector
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.settings import CentralConfig
from fabricmon.model import ComponentId, Kind, Severity
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, EvaluatorReport, FiringAlert

PORT = ComponentId(Kind.PORT, "n1", "mlx5_0/1")
DOWN = FiringAlert("link_down", PORT, Severity.WARNING, 100.0)
BY_NAME = {rule.name: rule for rule in RULES}


def said(
    at: float, *alerts: FiringAlert, whole: bool = True, fresh: str = "link_down", up: str = "n1"
) -> EvaluatorReport:
    return EvaluatorReport(at, alerts, whole, frozenset({fresh}), frozenset({up}))


def told() -> EvaluatorAlerts:
    found = EvaluatorAlerts()
    found.update(said(110.0, DOWN))
    assert set(found.components()) == {PORT}
    return found


def test_ends_when_the_ruler_says_so_and_the_port_is_there_afterwards():
    found = told()
    found.update(said(120.0))
    assert set(found.components()) == {PORT}
    found.confirm({PORT}, 119.0)  # an older look proves nothing
    assert set(found.components()) == {PORT}
    found.confirm({PORT}, 121.0)
    assert set(found.components()) == set()
    assert not found.waiting


@pytest.mark.parametrize("silence", [{"whole": False}, {"fresh": "link_errors"}, {"up": "n2"}])
def test_stands_while_the_ruler_cannot_know(silence):
    found = told()
    found.update(said(120.0, **silence))
    found.confirm({PORT}, 130.0)
    assert set(found.components()) == {PORT}


def test_stands_while_the_port_is_gone():
    found = told()
    found.update(said(120.0))
    found.confirm(set(), 130.0)
    assert set(found.components()) == {PORT}
    assert found.waiting


def test_that_fires_again_does_not_end():
    found = told()
    found.update(said(120.0))
    found.update(said(130.0, DOWN))
    found.confirm({PORT}, 140.0)
    assert set(found.components()) == {PORT}


def test_of_two_alerts_of_a_component_the_graver_and_the_earlier_onset():
    found = EvaluatorAlerts()
    found.update(said(110.0, DOWN, FiringAlert("link_down", PORT, Severity.CRITICAL, 105.0)))
    (alert,) = found.firing["link_down"].values()
    assert (alert.severity, alert.since) == (Severity.CRITICAL, 100.0)


LABELS = {"alertname": "FabricmonLinkDown", "rule": "link_down", "severity": "warning", "instance": "n1:9790",
          "device": "mlx5_0", "port": "1", "alertstate": "firing", "__name__": "ALERTS"}  # fmt: skip


def test_alerts_of_known_rules_and_components():
    since = {k: v for k, v in LABELS.items() if k not in ("alertstate", "__name__")}
    found, strange = alerts([VectorSample(LABELS)], [VectorSample(since, (0.0, "95.5"))], BY_NAME, "instance")
    assert (found, strange) == ([FiringAlert("link_down", PORT, Severity.WARNING, 95.5)], 0)


@pytest.mark.parametrize("wrong", [{"rule": "other"}, {"severity": "page"}, {"device": ""}, {"instance": ""}])
def test_an_alert_that_names_nothing_known_costs_itself(wrong):
    found, strange = alerts([VectorSample(LABELS | wrong), VectorSample(LABELS)], [], BY_NAME, "instance")
    assert strange == 1
    assert [alert.component for alert in found] == [PORT]
    assert math.isnan(found[0].since)


@pytest.mark.parametrize(
    ("value", "node"), [("n1", "n1"), ("n1:9790", "n1"), ("[fd00::1]:9790", "fd00::1"), ("a:b", "a:b"), ("", "")]
)
def test_node_of_a_label(value, node):
    assert node_of({"instance": value}, "instance") == node


def test_components_of_info_metrics():
    found = listed_components(
        {Kind.PORT: [VectorSample(LABELS), VectorSample({"instance": "n1", "device": "eth0"}), VectorSample({})]},
        "instance",
    )
    assert {str(id) for id in found.ids()} == {"n1/mlx5_0/1", "n1/eth0"}


def test_names_of_components_by_labels():
    assert component(Kind.GPU, "n1", {"gpu": "3"}) == ComponentId(Kind.GPU, "n1", "gpu3")
    assert component(Kind.NVLINK, "n1", {"gpu": "3", "link": "7"}) == ComponentId(Kind.NVLINK, "n1", "gpu3/link7")
    assert component(Kind.FLOW, "n1", {"port": "a/1", "peer": "n2/a/1"}) == ComponentId(Kind.FLOW, "n1", "a/1>n2/a/1")
    assert component(Kind.PORT, "n1", {"port": "1"}) is None


def answer(**fields: object) -> bytes:
    return msgspec.json.encode(fields)


def test_a_part_of_an_answer_is_reported_as_a_part():
    data = {"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [1.5, "7"]}]}
    assert vector(200, answer(status="success", data=data)).whole
    assert not vector(200, answer(status="success", data=data, warnings=["store is away"])).whole
    assert not vector(200, answer(status="success", data=data, isPartial=True)).whole


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"\xff", answer(status="error", error="parse error"), answer(status="success"),
     answer(status="success", data={"resultType": "scalar", "result": [1.0, "2"]}),
     answer(status="success", data={"resultType": "matrix", "result": []})],
)  # fmt: skip
def test_what_is_no_vector_is_an_error_that_says_so(body):
    with pytest.raises(RuleApiError, match=r"HTTP 502|vector"):
        vector(502, body)


@pytest.mark.parametrize(
    "fields", [{"url": "prometheus:9090"}, {"interval": 0.1}, {"timeout": 0}, {"key_file": "k"}, {"stale": 0}]
)
def test_settings_that_cannot_be_used(fields):
    with pytest.raises((ValueError, msgspec.ValidationError)):
        PrometheusConfig(**fields)


def test_a_ruler_needs_an_address():
    with pytest.raises(ValueError, match=r"prometheus\.url"):
        CentralConfig(source="prometheus")
