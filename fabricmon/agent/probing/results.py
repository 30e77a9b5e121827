"""Windows of probes as a reading of FLOW and PORT rows, as metrics, and as replies."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fabricmon.catalogue import flow as catalogue
from fabricmon.model import Component, Kind, Part, Reading, Snapshot
from fabricmon.probe.assignment import FlowResult, ProbeTarget, Reply
from fabricmon.probe.packet import Offer
from fabricmon.probe.plan import OFFER
from fabricmon.probe.windows import WINDOW, ClosedFlow, ClosedWindow, known
from fabricmon.runtime.exposition import Family

NAME = "flow"
_FLOW, _PORT = (tuple(c.name for c in catalogue.COUNTERS if c.kind is kind) for kind in (Kind.FLOW, Kind.PORT))
_PAUSES = frozenset(f"pfc_rx_frames_prio{priority}" for priority in range(8))


@dataclass(slots=True)
class FlowTotals:
    """Counts of one flow since it began, and its newest window; a void one has no times. packet: bytes of a question
    with its headers."""

    port: str
    target: ProbeTarget
    packet: int = 0
    sent: int = 0
    lost: int = 0
    late: int = 0
    newest: ClosedFlow | None = None

    def add(self, found: ClosedFlow | None) -> None:
        """None: a void window, or one without a probe of the flow."""
        self.newest = found
        if found is not None:
            self.sent, self.lost, self.late = self.sent + found.sent, self.lost + found.lost, self.late + found.late

    @property
    def name(self) -> str:
        return f"{self.port}>{self.target.peer}:{self.target.source}"

    @property
    def component(self) -> Component:
        labels = {"port": self.port, "peer": self.target.peer, "source_port": str(self.target.source)}
        return Component(self.name, labels)

    @property
    def values(self) -> tuple[float, ...]:
        """In the order of the catalogue."""
        newest = self.newest
        # a round trip by the program's clock grows with busy hosts: it is no evidence on the network
        if newest is None or newest.clock == "program":
            return (self.sent, self.lost, self.late, *(math.nan,) * 5)
        times = (*newest.rtt, newest.own, newest.peer)
        return (self.sent, self.lost, self.late, *times)


@dataclass(slots=True)
class PortTotals:
    """Counts of one port since the agent began, in the order of the catalogue."""

    sent: int = 0
    lost: int = 0
    answered: int = 0
    void: int = 0
    held_back: int = 0

    @property
    def values(self) -> tuple[float, ...]:
        return (self.sent, self.lost, self.answered, self.void, self.held_back)


class ProbeReport:
    """The newest parts are kept while they do not change."""

    def __init__(self) -> None:
        self._parts: tuple[Part, ...] = ()

    def reading(
        self, offers: Mapping[str, Offer], ports: Mapping[str, PortTotals], flows: Iterable[FlowTotals], now: float
    ) -> Reading:
        """A PORT row for each that can probe, with its offer as label `probe_address`, and a FLOW row for each flow.

        now  the node's monotonic seconds
        """
        rows = [(name, ports.get(name, PortTotals())) for name in sorted(offers)]
        listed = sorted(flows, key=lambda flow: flow.name)
        offered = tuple(Component(name, {OFFER: str(offers[name])}) for name, _ in rows)
        every = (
            Part(NAME, Kind.PORT, _PORT, offered, WINDOW),
            Part(NAME, Kind.FLOW, _FLOW, tuple(flow.component for flow in listed), WINDOW),
        )
        parts = tuple(part for part in every if part.components)
        if parts != self._parts:
            self._parts = parts
        values = [value for _, totals in rows for value in totals.values]
        values += [value for flow in listed for value in flow.values]
        return Reading(self._parts, array("d", values), now)

    def reply(self, version: int, window: ClosedWindow, flows: Mapping[int, FlowTotals]) -> Reply:
        found = [
            FlowResult(
                flows[number].port, flows[number].target, one.sent, one.lost, one.late,
                tuple(map(known, one.rtt)), known(one.own), known(one.peer),  # type: ignore[arg-type]
                one.dscp if one.dscp >= 0 else None, one.clock, window.void, flows[number].packet,
            )
            for number, one in sorted(window.flows.items())
            if number in flows
        ]  # fmt: skip
        return Reply(version, tuple(found))

    @staticmethod
    def pauses(snapshot: Snapshot) -> dict[str, float]:
        """PORT row -> pause frames that it received, of the rows that count them."""
        found: dict[str, float] = defaultdict(float)
        base = 0
        for part in snapshot.inventory.parts:
            at = [n for n, column in enumerate(part.columns) if column in _PAUSES] if part.kind is Kind.PORT else []
            for row, component in enumerate(part.components if at else ()):
                values = [snapshot.values[base + row * len(part.columns) + n] for n in at]
                found[component.name] += sum(value for value in values if value == value)
            base += part.size
        return dict(found)

    @staticmethod
    def families(
        offers: Mapping[str, Offer], refused: Iterable[str], flows: Iterable[FlowTotals], owners: int
    ) -> list[Family]:
        """By port and leaf of the peers, so that their number does not grow with that of the peers."""
        groups: dict[tuple[str, str], list[FlowTotals]] = defaultdict(list)
        for flow in flows:
            groups[flow.port, flow.target.group].append(flow)
        rows = [({"port": port, "peer_leaf": leaf}, mine) for (port, leaf), mine in groups.items()]
        rtts = [
            ({**labels, "quantile": word}, max(known))
            for labels, mine in rows
            for at, word in enumerate(("0.5", "0.99", "1"))
            if (known := [f.newest.rtt[at] for f in mine if f.newest is not None and not math.isnan(f.newest.rtt[at])])
        ]
        counted = (
            ("fabricmon_probe_packets_total", "Probes sent to a leaf", "sent"),
            ("fabricmon_probe_lost_total", "Probes to a leaf without an answer", "lost"),
            ("fabricmon_probe_late_total", "Probes to a leaf that were answered after more than a second", "late"),
        )
        able = [({"port": row, "backend": offer.backend}, 1.0) for row, offer in sorted(offers.items())]
        able += [({"port": row, "backend": "verbs"}, 0.0) for row in sorted(refused)]
        return [
            Family("fabricmon_probe_ready", "gauge", "1 where a port can probe and answer, by what; 0 where it cannot",
                   able),
            Family("fabricmon_probe_assignments", "gauge", "Readers of the stream whose probes are in force",
                   [({}, float(owners))]),
            Family("fabricmon_probe_rtt_seconds", "gauge",
                   "Round trip on the network in the last window: the largest value of the flows to a leaf", rtts,
                   "seconds"),
            *(Family(name, "counter", help,
                     [(labels, float(sum(getattr(flow, of) for flow in mine))) for labels, mine in rows])
              for name, help, of in counted),
        ]  # fmt: skip
