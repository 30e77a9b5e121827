"""Pages of named things and drawings of what is around a node or port: from the present fleet and topology."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.page import components as known
from fabricmon.central.page.around import Trunks, leaf_switches, neighbourhood
from fabricmon.central.page.components import PortRow, Value
from fabricmon.central.page.named import NamedThing, Surroundings, find_named, swept_ends
from fabricmon.central.page.named_page import named_detail
from fabricmon.jobs.model import Jobs
from fabricmon.model import Kind
from fabricmon.topology.graph import End

MAX_PORTS = 128  # rows of the table of ports: those that are down or unknown first, then the busiest


class NamedPages:
    """`jobs` is the last answer of every job source."""

    def __init__(self, evaluator: Evaluator, jobs: Callable[[], Sequence[Jobs]]) -> None:
        self._evaluator, self._jobs = evaluator, jobs
        self._trunks = Trunks(None)
        self._swept: dict[End, int] = {}
        self._swept_of = (-1, 0)

    def surroundings(self) -> Surroundings:
        """What names are looked up in."""
        engine = self._evaluator.engine
        return Surroundings(engine.fleet, engine.topology(), self._jobs())

    def link(self, word: str) -> str:
        """A link to what a text names."""
        return known.link_of(self.surroundings(), word)

    async def html(self, kind: str, name: str) -> tuple[str, str] | None:
        """Title and main part of the page of a named thing; None where there is none."""
        thing = find_named(kind, name, self.surroundings())
        if thing is None:
            return None
        engine, current = self._evaluator.engine, self._evaluator.current()
        of, fleet = engine.utilisation(), engine.fleet
        tally, some = known.tally_of(of, fleet, thing.rows if len(thing.rows) else thing.swept, MAX_PORTS)
        ports, rows = known.port_rows(of, fleet, some), frozenset(thing.rows.tolist())
        incidents = [i for i in current.incidents if thing.concerns(i, rows, fleet)]
        nodes = {node.node: node for node in current.nodes}
        html = named_detail(thing, tally, ports, self._ends(thing), incidents, nodes, await self.around(ports, thing))
        return f"{kind} {thing.name}", html

    async def around(self, ports: Sequence[PortRow], thing: NamedThing | None = None) -> str:
        """The drawing of what is around a thing, or around these ports of a node."""
        engine, current = self._evaluator.engine, self._evaluator.current()
        graph, domains = engine.topology(), engine.fleet.tables[Kind.PORT].domains
        if graph is not self._trunks.graph:
            self._trunks = await asyncio.to_thread(Trunks, graph)  # of a large fabric it takes long
        leaves = leaf_switches(domains.names, domains.about.get("leaf", [])) if domains is not None else {}
        nodes = {node.node: node for node in current.nodes}
        label = f"Neighbourhood of {thing.name}" if thing is not None else "Neighbourhood"
        return neighbourhood(thing, ports, self._trunks, leaves, nodes, current.incidents, label, self._ends_read)

    def _ends_read(self, ends: Iterable[End]) -> dict[End, PortRow]:
        """Of these ports of switches those that a sweep or a switch's exporter reads."""
        engine = self._evaluator.engine
        table = engine.fleet.tables[Kind.PORT]
        if self._swept_of != (table.changes, id(table.domains)):
            self._swept, self._swept_of = swept_ends(table), (table.changes, id(table.domains))
        rows = {end: self._swept[end] for end in ends if end in self._swept}
        return dict(zip(rows, known.port_rows(engine.utilisation(), engine.fleet, rows.values()), strict=True))

    def _ends(self, thing: NamedThing) -> list[tuple[str, list[Value]]]:
        """Name and readings of both ends of a cable; an end that nothing reads has none."""
        if thing.kind != "cable":
            return []
        fleet, now = self._evaluator.engine.fleet, self._evaluator.now()
        ids = fleet.tables[Kind.PORT].ids
        names = [name.strip() for name in thing.name.split(", ")]
        rows = {self._label(row): row for row in thing.swept.tolist()}
        rows |= {str(ids[row]): row for row in thing.rows.tolist()}
        other = iter([row for name, row in rows.items() if name not in names])  # a sweep may have another name for it
        ends = [(name, rows[name] if name in rows else next(other, None)) for name in names]
        return [(name, known.values_of(fleet, ids[row], now) if row is not None else []) for name, row in ends]

    def _label(self, row: int) -> str:
        """The end that a swept row reads, as a cable names it."""
        labels = self._evaluator.engine.fleet.tables[Kind.PORT].labels[row]
        return f"{labels.get('device', '')}/{labels.get('port', '')}"
