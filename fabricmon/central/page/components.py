"""Readings of one node or component, for its page. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.central.page.markup import component_link, e, named_link, node_link
from fabricmon.central.page.named import OF_WORD, Surroundings, find_named
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.row_state import Numbers
from fabricmon.fleet.utilisation import Utilisation
from fabricmon.fleet.view import View
from fabricmon.forms.cables import cables_of
from fabricmon.forms.natural import natural
from fabricmon.model import ComponentId, Kind

MAX_COMPONENTS = 256  # of a node, per kind
PLACES = ("rail", "leaf", "link", "nic", "power")


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port in the table of its node. rate in bytes/s, receive and transmit as ratios; NaN and None: unknown."""

    id: ComponentId
    labels: dict[str, str]
    places: dict[str, str]
    up: bool | None
    fresh: bool
    rate: float
    receive: float
    transmit: float


@dataclass(frozen=True, slots=True)
class Value:
    """A counter's newest reading. NaN: unknown; `age` seconds since it came; `word`: the name of a state's number."""

    name: str
    value: float
    unit: str
    category: Category | None
    help: str
    age: float
    fresh: bool
    word: str = ""


def link_of(around: Surroundings, word: str) -> str:
    """A link to what a text names: "host-007", "host-007/mlx5_3/1", "leaf(su1/rail2)", "link(host-007/mlx5_3/1,
    leaf-3/12)", or the name of a switch; one to each of several cables."""
    if len(cables := cables_of(word)) > 1:
        return " or ".join(link_of(around, f"link({cable})") for cable in cables)
    kind, inside = "", word
    if word.endswith(")"):
        kind, _, inside = word[:-1].partition("(")
    thing = find_named(OF_WORD.get(kind, ""), inside, around)
    if thing is not None:
        return named_link(thing.kind, thing.name, word)
    inside = inside.partition(",")[0].strip()
    found = around.fleet.find(inside)
    if found is None:
        switch = find_named("switch", inside.partition("/")[0], around)
        return f"<code>{e(word)}</code>" if switch is None else named_link("switch", switch.name, word)
    return component_link(found, word) if found.name else node_link(found.node) if inside == word else _to(found, word)


def _to(found: ComponentId, word: str) -> str:
    return node_link(found.node).replace(f"<code>{e(found.node)}</code>", f"<code>{e(word)}</code>")


def ports_of(of: Utilisation, fleet: Fleet, node: str) -> list[PortRow]:
    """A node's ports, in the order of their names."""
    known = fleet.nodes.get(node)
    rows = sorted(known.rows.get(Kind.PORT, {}).items()) if known else []
    return port_rows(of, fleet, [row for _, row in rows[:MAX_COMPONENTS]])


def port_rows(of: Utilisation, fleet: Fleet, rows: Iterable[int]) -> list[PortRow]:
    """These PORT rows, in their order."""
    view = View(fleet.tables[Kind.PORT], of.view.now)
    groups = {place: view.group(place) for place in PLACES}
    state, carrier = view.value("state"), view.value("carrier")
    fresh = fresh_ports(view)
    lines = []
    for row in rows:
        up = None
        if fresh[row] and not (math.isnan(state[row]) and math.isnan(carrier[row])):
            up = bool(state[row] == ACTIVE or (math.isnan(state[row]) and carrier[row] == 1))
        lines.append(
            PortRow(
                view.table.ids[row],
                view.table.labels[row],
                {place: view.group_name(place, int(ids[row])) for place, ids in groups.items()},
                up,
                bool(fresh[row]),
                float(of.rate[row]) if row < len(of.rate) else math.nan,
                float(of.receive[row]) if row < len(of.receive) else math.nan,
                float(of.transmit[row]) if row < len(of.transmit) else math.nan,
            )
        )
    return lines


class Tally(NamedTuple):
    """Number of ports by state; bytes of those with known load by the sum of their line rates, NaN without."""

    up: int
    down: int
    unknown: int
    receive: float
    transmit: float
    known: int


def tally_of(of: Utilisation, fleet: Fleet, rows: Numbers, most: int) -> tuple[Tally, list[int]]:
    """The ports of these rows together, and `most` of the rows: down first, then unknown, then the busiest."""
    view = View(fleet.tables[Kind.PORT], of.view.now)
    rows = rows[rows < len(of.rate)]
    state, carrier = view.value("state")[rows], view.value("carrier")[rows]
    seen = fresh_ports(view)[rows] & ~(np.isnan(state) & np.isnan(carrier))
    up = seen & ((state == ACTIVE) | (np.isnan(state) & (carrier == 1)))
    rate, receive, transmit = of.rate[rows], of.receive[rows], of.transmit[rows]
    known = np.isfinite(rate + receive + transmit)
    line = float(rate[known].sum())
    loads = [float((one * rate)[known].sum()) / line if line else math.nan for one in (receive, transmit)]
    order = np.lexsort((-np.nan_to_num(np.fmax(receive, transmit), nan=-1.0), np.where(up, 2, np.where(seen, 0, 1))))
    tally = Tally(int(up.sum()), int((seen & ~up).sum()), int((~seen).sum()), loads[0], loads[1], int(known.sum()))
    return tally, rows[order[:most]].tolist()


ABBREVIATIONS = {
    "rcv": "Rx", "rx": "Rx", "received": "Rx", "receive": "Rx", "xmit": "Tx", "tx": "Tx", "sent": "Tx",
    "transmit": "Tx", "ber": "BER", "cnp": "CNP", "crc": "CRC", "ecn": "ECN", "fec": "FEC", "gpu": "GPU", "lid": "LID",
    "nak": "NAK", "nvlink": "NVLink", "pcie": "PCIe", "pfc": "PFC", "rdma": "RDMA", "rnr": "RNR", "roce": "RoCE",
    "sm": "SM",
}  # fmt: skip
DARK = 1e-7  # watts: -40 dBm, what modules report without light


SHARES = ("pcie_path_width", "pcie_path_speed")
"""Columns that are ratios without the unit in their names."""


def column_title(name: str) -> str:
    """A column's name in words: "Module Rx power lane 0" for module_rx_power_lane0."""
    words = re.sub(r"([a-z])(\d+)$", r"\1 \2", name).split("_")
    text = " ".join(ABBREVIATIONS.get(word, word) for word in words)
    return text[:1].upper() + text[1:]


def as_shown(name: str, unit: str, value: float) -> tuple[float, str]:
    """Value and unit of a reading as people read it: optical power in dBm instead of watts, shares in percent."""
    if name in SHARES:
        return value, "ratio"
    if unit == "watts" and name.startswith("module_"):
        return round(10 * math.log10(1000 * max(value, DARK)), 2), "dBm"
    return value, unit


ACTIVE = 4.0  # IBTA port state "Active"
STATES = ("state", "carrier", "phys_state", "rate", "netdev_rate")
"""A fresh reading of any of these means that the port was read."""


def fresh_ports(view: View) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of ports with a fresh state reading."""
    seen = np.zeros(view.n, np.bool_)
    for column in STATES:
        if view.table.read_times(column) is not None:
            seen |= view.fresh(column) & np.isfinite(view.value(column))
    return seen & view.present


def others_of(fleet: Fleet, node: str, kind: Kind) -> list[tuple[ComponentId, dict[str, str]]]:
    """A node's components of another kind with their labels."""
    known, table = fleet.nodes.get(node), fleet.tables[kind]
    rows = sorted(known.rows.get(kind, {}).items()) if known else []
    return [(ComponentId(kind, node, name), table.labels[row]) for name, row in rows[:MAX_COMPONENTS]]


def values_of(fleet: Fleet, component: ComponentId, now: float) -> list[Value]:
    """Every supplied column of the component, in the order of the names."""
    table = fleet.tables[component.kind]
    row = table.row(component)
    if row is None:
        return []
    view, found = View(table, now), []
    for column, at in table.columns.items():
        times = table.read_times(column)
        if times is None:
            continue
        age = now - float(table.received(times)[row])
        if math.isnan(age):
            continue
        counter, value = CATALOGUE.get(column), float(table.cells[at, row])
        found.append(
            Value(
                column,
                *as_shown(column, counter.unit if counter else "", value),
                counter.category if counter else None,
                counter.text if counter else "",
                age,
                bool(view.fresh(column)[row]),
                counter.states.get(int(value), "") if counter and math.isfinite(value) else "",
            )
        )
    return sorted(found, key=lambda one: natural(one.name))


def places_of(fleet: Fleet, component: ComponentId, now: float) -> dict[str, str]:
    """Fault domain (PLACES) -> its name; those it has."""
    table = fleet.tables[component.kind]
    row = table.row(component)
    if row is None or component.kind is not Kind.PORT:
        return {}
    view = View(table, now)
    named = {place: view.group_name(place, int(view.group(place)[row])) for place in PLACES}
    return {place: name for place, name in named.items() if name}
