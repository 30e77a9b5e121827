"""Feeds a recording into an engine. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from fabricmon.engine.engine import Engine
from fabricmon.model import Change
from fabricmon.replay.records import REPEATED, Opening, RecordedItem, RecordMark, Start
from fabricmon.rules import RULES
from fabricmon.rules.rule import Scope
from fabricmon.topology.graph import Graph


class Player:
    """Plays one recording to engines, a new one for each run.

    params  parameters of rules in place of the recorded ones; None: the recorded
    graph   the topology in place of the recorded one; None: the recorded
    notes   recorded parameters that today's rules lack, and that are left out
    exact   whether the engine got all inputs of the recording server's engine
    """

    def __init__(self, params: Mapping[str, Any] | None = None, graph: Graph | None = None) -> None:
        self.engine: Engine | None = None
        self.exact = True
        self.notes: list[str] = []
        self._params, self._own_graph = params, graph
        self._graph: Graph | None = None
        self._start: Start | None = None
        self._fresh = False
        self._known = False  # repeated records are new to this engine

    def take(self, item: RecordedItem) -> Change | None:
        """Play one record; returns the change of a TICK. ParamsError for parameters that are invalid today."""
        mark = item.mark
        if mark is RecordMark.START:
            self._open(item.thing)
            return None
        if mark is RecordMark.GRAPH:
            self._graph = item.thing
            return None
        if self._start is not None:
            self._begin(self._start, item.now)
        engine = self.engine
        if engine is None:
            return None
        if mark is RecordMark.TICK:
            return engine.tick(item.now)
        if mark not in REPEATED:
            self._apply(engine, mark, item)
        elif self._known and (mark is not RecordMark.KNOWN_INCIDENTS or self._fresh):
            self._apply(engine, REPEATED[mark], item)
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
            self.engine = Engine(Scope.FLEET, graph, params, start.fabric)
        else:
            self.engine.reconfigure(params, graph, now)

    def _fitting(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """The recorded parameters that today's rules have."""
        rules = {rule.name: rule for rule in RULES}
        found: dict[str, Any] = {}
        for name, given in recorded.items():
            if name not in rules:
                self._note(f"rules.{name}: left out, this version has no such rule")
                continue
            fields = {field.encode_name for field in msgspec.structs.fields(rules[name].params)}
            for key in given.keys() - fields:
                self._note(f"rules.{name}.{key}: left out, this version has no such parameter")
            found[name] = {key: value for key, value in given.items() if key in fields}
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _apply(self, engine: Engine, mark: RecordMark, item: RecordedItem) -> None:
        _, now, node, thing = item
        match mark:
            case RecordMark.FRAME:
                with contextlib.suppress(ValueError):  # the recording engine refused it in the same way
                    engine.frame(node, thing, now)
            case RecordMark.EVENT:
                engine.event(node, thing, now)
            case RecordMark.PRESENCE:
                engine.presence(node, thing.presence, thing.detail, now)
            case RecordMark.INVENTORY:
                engine.inventory(node, thing, now)
            case RecordMark.FORGET:
                engine.forget(node, now)
            case RecordMark.RESTORE:
                engine.restore(thing, now)
            case RecordMark.MAINTENANCE:
                engine.maintenance(thing)
            case RecordMark.JOBS:
                engine.jobs(thing, now)
            case RecordMark.RECONFIGURE:
                params = self._fitting(thing["params"]) if self._params is None else self._params
                engine.reconfigure(params, self._own_graph or (self._graph if thing["graph"] else None), now)
            case RecordMark.KNOWN_NODES:
                for name in sorted(engine.fleet.nodes.keys() - set(thing)):
                    engine.forget(name, now)
                self._known = False
