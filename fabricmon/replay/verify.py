"""Compares the recorded decisions with those of an engine with the same inputs, to the byte. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.model import Change, Incident
from fabricmon.replay import records
from fabricmon.replay.records import ANONYMISED, RecordedItem, RecordMark, SymptomBrief, Tick

MOST_NAMED = 100  # differences that are named; all are counted
MOST_WORDS = 200  # characters of a value in a difference


class TickDifference(Struct, frozen=True):
    """A tick with other decisions: the differences, a line each."""

    at: float
    what: tuple[str, ...]


@dataclass(slots=True)
class Verification:
    """Compares the recorded decisions with those of an engine with the same inputs.

    ticks       that were compared; same: of them, equal to the byte
    anonymised  of the same ones, those whose names were replaced: equal in rules, components and numbers
    after       ticks that differ after missing records, as expected
    """

    ticks: int = 0
    same: int = 0
    anonymised: int = 0
    after: int = 0
    different: int = 0
    named: list[TickDifference] = field(default_factory=list)
    _waiting: tuple[float, Tick, Change, bool] | None = None
    _incidents: list[Incident] = field(default_factory=list)
    _symptoms: list[SymptomBrief] = field(default_factory=list)

    def take(self, item: RecordedItem, change: Change | None, exact: bool) -> None:
        """Add the next record and, where it is a TICK, the engine's change."""
        if item.mark is RecordMark.INCIDENT:
            self._incidents.append(item.thing)
        elif item.mark is RecordMark.SYMPTOM:
            self._symptoms.append(item.thing)
        else:
            self.end()
        if item.mark is RecordMark.TICK and change is not None:
            self._waiting = (item.now, item.thing, change, exact)
            if not item.thing.symptoms and not item.thing.incidents:
                self.end()

    def end(self) -> None:
        """Compare the last tick, whose records are complete."""
        if self._waiting is not None:
            at, tick, change, exact = self._waiting
            anonymised = tick.digest == ANONYMISED
            self.ticks += 1
            if tick.digest == records.digest(change) or (anonymised and self._alike(tick, change)):
                self.same += 1
                self.anonymised += anonymised
            else:
                if exact:
                    self.different += 1
                else:
                    self.after += 1
                if len(self.named) < MOST_NAMED:
                    what = _differences(tick, self._symptoms, self._incidents, change)
                    self.named.append(TickDifference(at, tuple(what)))
            self._waiting = None
        self._incidents, self._symptoms = [], []

    def _alike(self, tick: Tick, change: Change) -> bool:
        """Whether an anonymised tick changed the same symptoms and as many incidents."""
        then, now = sorted(self._symptoms), sorted(map(records.brief, change.symptoms))
        return then == now and tick.incidents == len(change.incidents)


def _differences(
    tick: Tick, symptoms: Iterable[SymptomBrief], incidents: Iterable[Incident], change: Change
) -> Iterable[str]:
    """Differences between the recorded and the present change of a tick."""
    then, now = set(symptoms), {records.brief(s) for s in change.symptoms}
    found = [f"symptom only in the recording: {_brief(b)}" for b in sorted(then - now)]
    found += [f"symptom only now: {_brief(b)}" for b in sorted(now - then)]
    before, after = {i.id: i for i in incidents}, {i.id: i for i in change.incidents}
    for id in sorted(before.keys() | after.keys()):
        old, new = before.get(id), after.get(id)
        if old is None or new is None:
            one = old or new
            assert one is not None
            where = "the recording" if new is None else "this replay"
            found.append(f"incident {id} changed only in {where}: {one.status} {one.kind} {one.component}")
        else:
            found += [f"incident {id}: {text}" for text in _fields(old, new)]
    if not found:
        found.append(
            f"{tick.symptoms} changes of symptoms and {tick.incidents} of incidents: "
            "the same ones in another order or with other evidence"
        )
    return found


def _brief(brief: SymptomBrief) -> str:
    return f"{brief.rule} {brief.component} {'opened' if brief.opened else 'closed'}"


def _fields(old: Incident, new: Incident) -> list[str]:
    """Fields in which two incidents differ."""
    a: dict[str, Any] = msgspec.to_builtins(old)
    b: dict[str, Any] = msgspec.to_builtins(new)
    return [
        f"{name} was {str(a.get(name))[:MOST_WORDS]}, is {str(b.get(name))[:MOST_WORDS]}"
        for name in a
        if msgspec.msgpack.encode(a.get(name)) != msgspec.msgpack.encode(b.get(name))
    ]
