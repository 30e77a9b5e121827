"""Whether an engine that is told the same decides the same, to the byte. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.model import Change, Incident
from fabricmon.replay import records
from fabricmon.replay.records import UNSAID, Brief, Item, Mark, Tick

MOST_NAMED = 100  # differences that are named; all are counted
MOST_WORDS = 200  # characters of a value in a difference


class Difference(Struct, frozen=True):
    """A tick that decided otherwise: what is different, in words, a line each."""

    at: float
    what: tuple[str, ...]


@dataclass(slots=True)
class Verification:
    """Compares the recorded decisions with those of an engine that was told the same.

    ticks   that were compared; same: of them, equal to the byte
    unsaid  of the same ones, those of which no bytes are known since names were replaced: equal in rules, components
            and numbers
    after   ticks that differ after records are missing, which is to be expected
    """

    ticks: int = 0
    same: int = 0
    unsaid: int = 0
    after: int = 0
    different: int = 0
    named: list[Difference] = field(default_factory=list)
    _waiting: tuple[float, Tick, Change, bool] | None = None
    _incidents: list[Incident] = field(default_factory=list)
    _symptoms: list[Brief] = field(default_factory=list)

    def take(self, item: Item, change: Change | None, exact: bool) -> None:
        """The next record and, where it is a TICK, what the engine answered to it."""
        if item.mark is Mark.INCIDENT:
            self._incidents.append(item.thing)
        elif item.mark is Mark.SYMPTOM:
            self._symptoms.append(item.thing)
        else:
            self.end()
        if item.mark is Mark.TICK and change is not None:
            self._waiting = (item.now, item.thing, change, exact)
            if not item.thing.symptoms and not item.thing.incidents:
                self.end()

    def end(self) -> None:
        """No more is said of the last tick."""
        if self._waiting is not None:
            at, told, change, exact = self._waiting
            self.ticks += 1
            if told.digest == records.digest(change) or (told.digest == UNSAID and self._alike(told, change)):
                self.same += 1
                self.unsaid += told.digest == UNSAID
            else:
                if exact:
                    self.different += 1
                else:
                    self.after += 1
                if len(self.named) < MOST_NAMED:
                    self.named.append(Difference(at, tuple(_words(told, self._symptoms, self._incidents, change))))
            self._waiting = None
        self._incidents, self._symptoms = [], []

    def _alike(self, told: Tick, change: Change) -> bool:
        """Whether a tick of which no bytes are known changed the same symptoms and as many incidents."""
        then, now = sorted(self._symptoms), sorted(map(records.brief, change.symptoms))
        return then == now and told.incidents == len(change.incidents)


def _words(told: Tick, symptoms: Iterable[Brief], incidents: Iterable[Incident], change: Change) -> Iterable[str]:
    """How what was recorded of a tick differs from what the engine says now."""
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
            f"{told.symptoms} changes of symptoms and {told.incidents} of incidents: "
            "the same ones in another order or with other evidence"
        )
    return found


def _brief(brief: Brief) -> str:
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
