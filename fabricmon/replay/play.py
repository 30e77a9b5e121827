"""An engine that is told what a recording says. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fabricmon.engine.engine import Engine
from fabricmon.model import Change
from fabricmon.replay.records import Item, Mark, Opening, Start
from fabricmon.rules import RULES
from fabricmon.rules.rule import Rule, Scope
from fabricmon.topology.graph import Graph

KNOWN = frozenset(
    {
        Mark.KNOWN_INCIDENTS, Mark.KNOWN_MAINTENANCE, Mark.KNOWN_INVENTORY, Mark.KNOWN_FRAME, Mark.KNOWN_PRESENCE,
        Mark.KNOWN_JOBS, Mark.KNOWN_NODES,
    }
)  # fmt: skip


class Player:
    """Plays one recording to engines, a new one for each run.

    params  parameters of rules in place of the recorded ones; None: the recorded
    graph   the topology in place of the recorded one; None: the recorded
    notes   recorded parameters that today's rules have not, and that are left out
    exact   whether the engine was told everything that the recording centre's was
    """

    def __init__(
        self, params: Mapping[str, Any] | None = None, graph: Graph | None = None, rules: Sequence[Rule] = RULES
    ) -> None:
        self.engine: Engine | None = None
        self.exact = True
        self.notes: list[str] = []
        self._params, self._own_graph, self._rules = params, graph, rules
        self._graph: Graph | None = None
        self._start: Start | None = None
        self._fresh = False
        self._known = False  # what is only repeated is news to this engine

    def take(self, item: Item) -> Change | None:
        """One record; what a TICK changed. ParamsError for parameters that today's rules do not understand."""
        mark = item.mark
        if mark is Mark.START:
            self._open(item.thing)
            return None
        if mark is Mark.GRAPH:
            self._graph = item.thing
            return None
        if self._start is not None:
            self._begin(self._start, item.now)
        engine = self.engine
        if engine is None:
            return None
        if mark is Mark.TICK:
            return engine.tick(item.now)
        if mark is Mark.FRAME or (mark is Mark.KNOWN_FRAME and self._known):
            with contextlib.suppress(ValueError):  # the recording engine refused it in the same way
                engine.frame(item.node, item.thing, item.now)
            return None
        if mark in KNOWN:
            if self._known:
                self._take_known(engine, item)
            return None
        self._tell(engine, item)
        return None

    def _open(self, opening: Opening) -> None:
        if opening.fresh:
            self.exact = opening.start.index == 0
            self._known = not self.exact
        elif opening.missing:
            self.exact, self._known = False, True
        else:
            return
        self._start, self._fresh = opening.start, opening.fresh
        self._graph = None

    def _begin(self, start: Start, now: float) -> None:
        self._start = None
        params = self._fitting(start.params) if self._params is None else self._params
        graph = self._own_graph or (self._graph if start.has_graph else None)
        if self._fresh or self.engine is None:
            self.engine = Engine(Scope.FLEET, graph, params, start.fabric, self._rules)
        else:
            self.engine.reconfigure(params, graph, now)

    def _fitting(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """What of the parameters of another version today's rules understand."""
        rules = {rule.name: rule for rule in self._rules}
        found: dict[str, Any] = {}
        for name, given in recorded.items():
            if name not in rules:
                self._note(f"rules.{name}: there is no such rule any more")
                continue
            fields = {field.encode_name for field in msgspec.structs.fields(rules[name].params)}
            for key in given.keys() - fields:
                self._note(f"rules.{name}.{key}: the rule has no such parameter any more")
            found[name] = {key: value for key, value in given.items() if key in fields}
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _tell(self, engine: Engine, item: Item) -> None:
        mark, now, node, thing = item
        if mark is Mark.EVENT:
            engine.event(node, thing, now)
        elif mark is Mark.PRESENCE:
            engine.presence(node, thing.presence, thing.detail, now)
        elif mark is Mark.INVENTORY:
            engine.inventory(node, thing, now)
        elif mark is Mark.FORGET:
            engine.forget(node, now)
        elif mark is Mark.RESTORE:
            engine.restore(thing, now)
        elif mark is Mark.MAINTENANCE:
            engine.maintenance(thing)
        elif mark is Mark.JOBS:
            engine.jobs(thing, now)
        elif mark is Mark.RECONFIGURE:
            params = self._fitting(thing["params"]) if self._params is None else self._params
            engine.reconfigure(params, self._own_graph or (self._graph if thing["graph"] else None), now)

    def _take_known(self, engine: Engine, item: Item) -> None:
        mark, now, node, thing = item
        if mark is Mark.KNOWN_PRESENCE:
            engine.presence(node, thing.presence, thing.detail, now)
        elif mark is Mark.KNOWN_INVENTORY:
            engine.inventory(node, thing, now)
        elif mark is Mark.KNOWN_MAINTENANCE:
            engine.maintenance(thing)
        elif mark is Mark.KNOWN_INCIDENTS:
            if self._fresh:
                engine.restore(thing, now)
        elif mark is Mark.KNOWN_JOBS:
            engine.jobs(thing, now)
        elif mark is Mark.KNOWN_NODES:
            for name in sorted(engine.fleet.nodes.keys() - set(thing)):
                engine.forget(name, now)
            self._known = False
