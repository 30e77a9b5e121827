"""Settings of a site, and common parts of queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fabricmon.catalogue import CATALOGUE
from fabricmon.dashboards.board import choice, filter_text
from fabricmon.dashboards.panel import RED, YELLOW, Json, PanelColumn, link, steps
from fabricmon.model import Severity
from fabricmon.rules import RULES

NODE_UID, INCIDENTS_UID, RAIL_UID = "fabricmon-node", "fabricmon-incidents", "fabricmon-rail"

_RULES = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Site:
    """node: label with the node name. rules: limits of the thresholds, defaults if missing."""

    node: str = "instance"
    rules: Mapping[str, Any] = field(default_factory=dict)

    def limits(self, rule: str) -> Any:
        """The params of a rule."""
        own = self.rules.get(rule)
        return _RULES[rule].params() if own is None else own

    @property
    def waiting_limits(self) -> Json:
        """Thresholds of the Tx wait of a port."""
        limits = self.limits("congestion")
        return steps((limits.medium, YELLOW), (limits.high, RED))

    @property
    def pausing_limits(self) -> Json:
        """Thresholds of the share of time with PFC pause sent."""
        return steps((self.limits("slow_receiver").pausing, YELLOW), (self.limits("pfc_storm").pausing, RED))

    @property
    def among(self) -> str:
        """Matcher of the filtered nodes."""
        return f'{self.node}=~"$nodes"'

    @property
    def of_node(self) -> str:
        """Matcher of the chosen node, with or without the port of its address."""
        return f'{self.node}=~"$node(:[0-9]+)?"'

    @property
    def port(self) -> str:
        """Legend of a port with its node."""
        return f"{{{{{self.node}}}}} {{{{device}}}}"

    @property
    def to_node(self) -> Json:
        """Link from a series to the dashboard of its node."""
        return _to_node("${__field.labels." + self.node + "}")

    @property
    def to_port(self) -> Json:
        """Link from a series to its port on the dashboard of its node."""
        return _to_node("${__field.labels." + self.node + "}", "${__field.labels.device}")

    @property
    def row_to_port(self) -> Json:
        """Link from a table row to its port."""
        return _to_node("${__data.fields.Node}", "${__data.fields.Device}")

    @property
    def row_to_node(self) -> Json:
        """Link from a table row to the dashboard of its node."""
        return _to_node("${__data.fields.Node}")

    def columns(self, label: str, title: str, width: int) -> list[PanelColumn]:
        """The first two columns of a table: the node, and the label of its part."""
        to_part = (self.row_to_port,) if title == "Device" else ()
        return [PanelColumn(self.node, "Node", links=(self.row_to_node,)), PanelColumn(label, title, width=width, links=to_part)]

    def nodes(self) -> Json:
        return filter_text("nodes", "Nodes (regular expression)", ".*")

    def node_list(self) -> Json:
        query = f'label_values(fabricmon_build_info{{component="agent"}}, {self.node})'
        return choice("node", "Node", query, regex=r"/^(.+?)(?::\d+)?$/")


_KEPT = "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
"""What a link keeps of the dashboard it is on."""


def _to_node(node: str, device: str = "") -> Json:
    what, more = ("Readings of this port", f"&var-device={device}") if device else ("Readings of this node", "")
    return link(what, f"/d/{NODE_UID}?var-node={node}{more}&{_KEPT}")


def to_incidents() -> Json:
    return link("Open incidents", f"/d/{INCIDENTS_UID}?{_KEPT}")


def to_rail() -> Json:
    """Link from a series of a rail to its dashboard."""
    return link("This rail", f"/d/{RAIL_UID}?var-rail=${{__field.labels.rail}}&{_KEPT}")


def greatest(series: str, count: int = 10) -> str:
    """The series with the greatest maximum in the time range, the same ones for all of it."""
    return f"{series} and topk({count}, max_over_time({series}[$__range] @ end()))"


def smallest(series: str, count: int = 10) -> str:
    """The series with the smallest minimum in the time range."""
    return f"{series} and bottomk({count}, min_over_time({series}[$__range] @ end()))"


def compute(metric: str, matchers: str = "") -> str:
    """A metric by rail, without storage and management rails."""
    return f'{metric}{{rail!~"(storage|management)/.*"{f", {matchers}" if matchers else ""}}}'


def by_rail_index(metric: str, operation: str, matchers: str = "") -> str:
    """The rails of all units aggregated by rail number: eight lines for any size of the fabric."""
    series = compute(metric, matchers)
    return f'{operation} by (index) (label_replace({series}, "index", "$1", "rail", "(?:.*[^0-9])?([0-9]+)"))'


SEVERITIES = {Severity.CRITICAL: "red", Severity.WARNING: "orange", Severity.INFO: "blue"}


def _coloured(column: str, colours: Mapping[int, str]) -> dict[float, tuple[str, str]]:
    """Names of the states of a column with the colour of each; grey where none is given."""
    return {float(number): (name, colours.get(number, "text")) for number, name in CATALOGUE[column].states.items()}


PORT_STATES = _coloured("state", {1: "red", 2: "orange", 3: "yellow", 4: "green", 5: "yellow"})
FABRIC_STATES = _coloured("gpu_fabric_state", {1: "orange", 2: "yellow", 3: "green"})
HEALTH = _coloured("gpu_fabric_health_verdict", {1: "green", 2: "red", 3: "orange"})
RECOVERY = _coloured("gpu_recovery_action", {0: "green", 1: "red", 2: "red", 3: "orange", 4: "red", 5: "red"})
NVLINK_STATES = _coloured("nvlink_state", {0: "red", 1: "green", 2: "blue", 3: "blue"})
