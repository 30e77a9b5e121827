"""Conditions of all rows at a tick besides their symptoms. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import PortHealth, unwell
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.domains.groups import Floats, Mask
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.fleet import PRESENCES
from fabricmon.fleet.table import Table
from fabricmon.fleet.view import View
from fabricmon.model import Kind, Presence

GRACE = 120.0  # seconds after a boot or driver load in which symptoms do not count (docs/methods.md#boot-grace)
TRAFFIC_SINCE = 60.0  # seconds before its last frame in which a host had traffic
ANSWERS = frozenset({Presence.REFUSED, Presence.CLONED, Presence.INCOMPATIBLE})
"""The node answered and only its agent is silent: no evidence about its power or its host."""


def set_aside(table: Table, now: float) -> Mask:
    """Rows under maintenance, or soon after a boot or driver load; of nodes also those that answer although their agent
    is silent."""
    quiet = table.quiet[: table.n]
    if table.kind is Kind.NODE:
        presence = View(table, now).value("presence")
        return np.asarray(quiet | np.isin(presence, [PRESENCES.index(p) for p in ANSWERS]))
    with np.errstate(invalid="ignore"):
        return np.asarray(quiet | (now - table.begun[: table.n] < GRACE))


def had_traffic(domains: RowDomains, tables: Mapping[Kind, Table], now: float) -> Mask:
    """NODE rows of which a port carried traffic in the minute before their last frame."""
    hosts, of_nodes = domains.port.ids["host"], domains.by_table[Kind.NODE].ids["host"]
    moved = View(tables[Kind.PORT], now).tracks.moved[: len(hosts)]
    newest = np.full(int(max(hosts.max(initial=-1), of_nodes.max(initial=-1))) + 1, -np.inf)
    known = (hosts >= 0) & np.isfinite(moved)
    np.maximum.at(newest, hosts[known], moved[known])
    last = View(tables[Kind.NODE], now).value("last_frame")[: len(of_nodes)]
    with np.errstate(invalid="ignore"):
        return np.asarray((of_nodes >= 0) & (last - newest[of_nodes] <= TRAFFIC_SINCE))


def port_health(domains: RowDomains, observations: Observations, ports: View) -> PortHealth:
    """Input of the diagnosis of losses."""
    ratio = np.full(len(domains.hosts), np.nan)
    if (lossy := observations.get(SymptomType.PACKET_LOSS)) is not None:
        ratio[lossy.rows] = ports.tracks.losses.ratio(lossy.rows)
    fell = ports.tracks.downs.last[: len(ratio)]
    return PortHealth(domains.port, unwell(observations, domains.port, fell, ports.now), ratio, domains.near)


def link_state_read_at(ports: View) -> Floats:
    """Per PORT row `now` at which its newest link state arrived, NaN unknown."""
    return np.asarray(ports.now - np.fmin(ports.age("state"), ports.age("carrier")))
