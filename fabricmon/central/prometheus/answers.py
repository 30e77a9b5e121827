"""Nodes, components and alerts from answers of a rule evaluator. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.series import component
from fabricmon.central.prometheus.api import VectorSample
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Severity
from fabricmon.rules.prometheus.evaluator_alerts import FiringAlert
from fabricmon.rules.rule import Rule

AGENT = "rule evaluator"
"""The agent version of nodes without a stream."""

COLUMN: dict[Kind, str] = {
    Kind.PORT: "state",
    Kind.GPU: "gpu_nvlinks",
    Kind.NVLINK: "nvlink_state",
    Kind.PCIE: "pcie_path_width",
    Kind.FLOW: "flow_packets",
}
"""The column whose reads mark a row as fresh; its values stay unknown."""

Components = dict[Kind, dict[str, dict[str, str]]]


@dataclass(slots=True)
class ListedComponents:
    """Components from the info metrics: node -> kind -> component -> labels."""

    nodes: dict[str, Components] = field(default_factory=dict)

    def ids(self) -> set[ComponentId]:
        return {
            ComponentId(kind, node, name)
            for node, kinds in self.nodes.items()
            for kind, names in kinds.items()
            for name in names
        }


def node_of(labels: Mapping[str, str], label: str) -> str:
    """The node of a series: the value of the label, without a port; "" without the label."""
    value = labels.get(label, "")
    host, _, port = value.rpartition(":")
    return host.strip("[]") if host and port.isdigit() else value


def listed_components(answers: Mapping[Kind, Iterable[VectorSample]], node_label: str) -> ListedComponents:
    """Components from the info metrics of each kind; series without one are left out."""
    found = ListedComponents()
    for kind, samples in answers.items():
        for sample in samples:
            labels = sample.metric
            node = node_of(labels, node_label)
            its = component(kind, node, labels) if node else None
            if its is not None:
                own = {k: v for k, v in labels.items() if k not in ("__name__", "job", "instance")}
                found.nodes.setdefault(node, {}).setdefault(kind, {})[its.name] = own
    return found


def add(found: ListedComponents, components: Iterable[ComponentId]) -> None:
    """Add components of firing alerts, which may be gone."""
    for kind, node, name in components:
        if kind is not Kind.NODE:
            device, _, port = name.partition("/")
            labels = {"device": device, "port": port} if kind is Kind.PORT else {}
            found.nodes.setdefault(node, {}).setdefault(kind, {}).setdefault(name, labels)


def inventory(node: str, kinds: Components, number: int, period: float) -> Inventory:
    """The inventory of a node without a stream."""
    parts = tuple(
        Part("evaluator", kind, (COLUMN[kind],), tuple(Component(n, labels) for n, labels in names.items()), period)
        for kind, names in kinds.items()
    )
    return Inventory(number, Identity(node, "", AGENT, "", 0.0), parts)


def alerts(
    firing: Sequence[VectorSample], active: Sequence[VectorSample], rules: Mapping[str, Rule], node_label: str
) -> tuple[list[FiringAlert], int]:
    """Firing alerts of known rules, and the number of series with an unknown rule, severity or component.

    active  ALERTS_FOR_STATE: start time of each condition
    """
    since = {_identity(sample.metric): _number(sample.value[1]) for sample in active}
    found, unknown = [], 0
    for sample in firing:
        labels = sample.metric
        rule, node = rules.get(labels.get("rule", "")), node_of(labels, node_label)
        its = component(rule.table, node, labels) if rule is not None and node else None
        severity = labels.get("severity", "")
        if rule is None or its is None or severity not in _SEVERITIES:
            unknown += 1
            continue
        begun = since.get(_identity(labels), math.nan)
        found.append(FiringAlert(rule.name, its, Severity(severity), begun, labels.get("case", "")))
    return found, unknown


def values(samples: Iterable[VectorSample], label: str) -> dict[str, float]:
    """Label value -> the greatest value of its series."""
    found: dict[str, float] = {}
    for sample in samples:
        key, value = sample.metric.get(label, ""), _number(sample.value[1])
        if key and not value <= found.get(key, -math.inf):
            found[key] = value
    return found


def numbers(nodes: Iterable[int]) -> NDArray[np.bool_]:
    """Row numbers as a mask."""
    those = np.fromiter(nodes, np.intp)
    mask = np.zeros(int(those.max(initial=-1)) + 1, np.bool_)
    mask[those] = True
    return mask


_SEVERITIES = frozenset(severity.value for severity in Severity)


def _identity(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((k, v) for k, v in labels.items() if k not in ("__name__", "alertstate"))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
