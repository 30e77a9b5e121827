"""Whether an inventory keeps to its node's limits, and what of it is kept. Decides only.

Called once an inventory, before anything is made of it: what passes here costs the tables a bounded time and size.
Nodes of one make have the same columns, and most of their labels: these are checked once and are one object for all.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec
import numpy as np

from fabricmon.catalogue import CATALOGUE, RAW
from fabricmon.central.streams.limits import LIMITS, SOURCES, OverLimit, check, most
from fabricmon.fleet.membership import IDENTITY
from fabricmon.frame import Frame
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part

_T = TypeVar("_T")

PORT_NUMBERS = ("port", "remote_port", "ports")
"""Labels that the topology reads as numbers."""

_SHARED = 4096
"""Characters of a part's columns, or of the names or the values of its labels, that may be kept for other nodes."""

_MANY = 64
"""Components of a part that may be kept for other nodes."""

_MAKES = 4
"""Parts of one collector with one first component that are kept: machines of several makes have other interfaces."""

_HARDWARE = frozenset(IDENTITY)
_intern = sys.intern
_CLOCK, _VALUE = LIMITS["clock"].most, LIMITS["value"].most
_NAME, _LABEL, _LABELS, _PORT = map(most, ("name_size", "label_size", "labels", "port_digits"))


def swept_ports(inventory: Inventory) -> frozenset[str]:
    """The rows that are ports elsewhere, as an agent has that sweeps the fabric."""
    ports = [c for part in inventory.parts for c in part.components if "swept" in c.labels]
    return frozenset(port.name for port in ports if port.labels["swept"])


def components(inventory: Inventory) -> int:
    """How many components all parts have together; one of several parts counts in each."""
    return sum([len(part.components) for part in inventory.parts])


def rows(inventory: Inventory) -> int:
    """How many different components it has; one of several parts counts once."""
    return len({(part.kind, component.name) for part in inventory.parts for component in part.components})


Known = Callable[[Component], Component | None]
"""An equal component that was checked before, None where there is none."""


def checked_inventory(inventory: Inventory, swept: int, known: Known = lambda _: None) -> Inventory:
    """The inventory, of which what other nodes have as well is shared with them. OverLimit where it has too much.
    `swept`: its rows of ports elsewhere, which were permitted. `known`: those that earlier inventories had."""
    _check_identity(inventory.identity)
    check("parts", len(inventory.parts))
    number = components(inventory)
    check("components", number - 2 * swept)
    check("rows", (rows(inventory) if number > most("rows") else number) - swept)
    check("swept_rows", swept)
    parts = tuple(_checked_part(part, known) for part in inventory.parts)
    check("values", inventory.size - most("columns") * swept)
    return msgspec.structs.replace(inventory, parts=parts)


class Columns:
    """Which columns of each node are kept: those that the catalogue gives its collectors, and some raw ones.

    A raw counter (`raw:hw_counters/new_in_this_driver`) is kept for display only; one limit holds for all nodes.
    """

    unknown: dict[str, tuple[str, ...]]
    """Node -> columns that the catalogue does not give to their collectors, as a newer agent may have; raw ones are not
    among them."""

    def __init__(self) -> None:
        self._raw: dict[str, frozenset[str]] = {}  # node -> its raw columns
        self._nodes: Counter[str] = Counter()  # raw column -> nodes that have it
        self.unknown = {}

    @property
    def raw(self) -> int:
        """How many raw columns are kept."""
        return len(self._nodes)

    def named(self, node: str, inventory: Inventory) -> Inventory:
        """The inventory with the columns that are kept, the others without a name: the same object where there are
        none. OverLimit where it has too many of them."""
        kinds = {(part.collector, part.kind, part.columns) for part in inventory.parts}
        unknown = {(collector, kind, c) for collector, kind, of in kinds for c in (
            _shared_unknown if _small(of) else _unknown)(collector, kind, of)}  # fmt: skip
        raw = {column for collector, kind, column in unknown if _raw(collector, kind, column)}
        check("raw_columns", len(raw), node)
        check("unknown_columns", len(unknown) - len(raw), node)
        self.forget(node)
        strange = {column for _, _, column in unknown} - raw
        if strange:
            self.unknown[node] = tuple(sorted(strange))
        room = most("fleet_raw_columns") - len(self._nodes)
        new = sorted(raw - self._nodes.keys())[: max(room, 0)]
        kept = frozenset(new) | (raw & self._nodes.keys())
        if kept:
            self._raw[node] = kept
            self._nodes.update(kept)
        if not unknown:
            return inventory
        parts = tuple(_kept(part, kept) for part in inventory.parts)
        return msgspec.structs.replace(inventory, parts=parts)

    def forget(self, node: str) -> None:
        """Release the node's raw columns; one that no other node has is no longer kept."""
        self.unknown.pop(node, None)
        for column in self._raw.pop(node, ()):
            self._nodes[column] -= 1
            if not self._nodes[column]:
                del self._nodes[column]


def check_event(event: Event) -> None:
    """OverLimit for a name or a number that no event has."""
    check_name(event.component, "an event's component")
    if not 0 <= event.seq < 2**63 or not math.isfinite(event.wall):
        raise OverLimit("event_size", "an event has a number or a time that cannot be")


def usable(frame: Frame) -> Frame:
    """The frame without values that no counter can have, which are unknown: the same object where there are none.

    OverLimit for a part that was read at a time that no clock shows.
    """
    if (np.abs(frame.taken) > _CLOCK).any():
        raise OverLimit("clock", f"a part was read {np.nanmax(np.abs(frame.taken)):g} s after the start of its node")
    wild = np.abs(frame.values) > _VALUE
    if not wild.any():
        return frame
    return replace(frame, values=np.where(wild, np.nan, frame.values))


def check_name(name: str, of: str) -> None:
    """OverLimit for a name that is too long or cannot be printed."""
    if len(name) > _NAME or (name and not name.isprintable()):
        raise OverLimit("name_size", f"{of} has the name {name[:64]!r}; it may have {_NAME} printable characters")


def _check_identity(identity: Identity) -> None:
    for name in (identity.agent, identity.boot_id, identity.version):  # the node's own: `Register.hello`
        check_name(name, "its identity")
    if not math.isfinite(identity.started):
        raise OverLimit("clock", "its start is no time")


def _checked_part(part: Part, known: Known) -> Part:
    """The part, checked: one without names of hardware is the same object for all nodes that have it."""
    parts = part.components
    if not parts or not _HARDWARE.isdisjoint(parts[0].labels) or len(parts) > _MANY:
        return _made_part(part, known)
    key = part.collector, part.kind, parts[0].name, len(parts)
    kept = _PARTS.of(key) or ()
    for one in kept:
        if one == part:
            return one
    made = _made_part(part, known)
    words = [word for c in made.components for word in (c.name, *c.labels, *c.labels.values())]
    if _small(made.columns) and _small(words):
        _PARTS.keep(key, (made, *kept[: _MAKES - 1]))
    return made


def _made_part(part: Part, known: Known) -> Part:
    collector, columns = _HEADS.of((part.collector, part.columns, part.period)) or _checked_head(part)
    parts = part.components
    if len(parts) > 1 and len({component.name for component in parts}) < len(parts):
        raise OverLimit("components", f"part {collector} has a component twice")
    return Part(collector, part.kind, columns, tuple([_component(each, part.kind, known) for each in parts]),
                part.period, part.wire)  # fmt: skip


def _checked_head(part: Part) -> tuple[str, tuple[str, ...]]:
    """Collector and columns of a part, checked; kept for other nodes."""
    check_name(part.collector, "a part")
    if not part.collector:
        raise OverLimit("name_size", "a part has no collector")
    check("columns", len(part.columns), f"part {part.collector}")
    if not 0 <= part.period <= LIMITS["period"].most:
        raise OverLimit("period", f"part {part.collector} is read every {part.period:g} s")
    for column in part.columns:
        check_name(column, "a column")
    if len(set(part.columns)) < len(part.columns):
        raise OverLimit("columns", f"part {part.collector} has a column twice")
    made = _intern(part.collector), tuple(map(_intern, part.columns))
    if _small(part.columns):
        _HEADS.keep((*made, part.period), made)
    return made


def _component(component: Component, kind: Kind, known: Known) -> Component:
    name, labels = component.name, component.labels
    if labels.get("swept"):  # not among what many nodes have: a sweep would displace all of it
        same = known(component) if kind is not Kind.NODE and name else None
        return same or _checked_component(name, kind, labels)
    key = kind, name, *labels
    like = _COMPONENTS.of(key)
    if like is None:
        found = _checked_component(name, kind, labels)
    elif like.labels == labels:
        return like
    else:
        found = _component_like(like, labels)
    if (like is not None or _small(key)) and _small(labels.values()):
        _COMPONENTS.keep(key, found)
    return found


def _component_like(like: Component, labels: dict[str, str]) -> Component:
    """One of which only values of labels are to be checked, those that the other has not."""
    made = dict(like.labels)
    for label, value in labels.items():
        if made[label] != value:
            made[label] = _checked_value(label, value, like.name)
    return Component(like.name, made)


def _checked_component(name: str, kind: Kind, labels: dict[str, str]) -> Component:
    check_name(name, "a component")
    if bool(name) == (kind is Kind.NODE):
        raise OverLimit("components", f"a component of kind {kind} has the name {name!r}")
    if len(labels) > _LABELS:
        check("labels", len(labels), name)
    made = {_checked_word(label, name): _checked_value(label, value, name) for label, value in labels.items()}
    return Component(_intern(name), made)


def _checked_value(label: str, value: str, name: str) -> str:
    if label in PORT_NUMBERS and len(value) > _PORT and value.isdecimal():
        raise OverLimit("port_digits", f"{name} has the {label} {value[:64]}")
    return _checked_word(value, name)


def _checked_word(word: str, name: str) -> str:
    if len(word) > _LABEL:
        check("label_size", len(word), f"a label of {name}")
    return _intern(word)


def _unknown(collector: str, kind: Kind, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(column for column in columns if not _known(collector, kind, column))


def _small(words: Iterable[str]) -> bool:
    return sum(map(len, words)) <= _SHARED


class RecentlyUsed(Generic[_T]):
    """The values of the keys that were used last, between `least` and twice as many."""

    def __init__(self, least: int) -> None:
        self._least, self._new, self._old = least, dict[object, _T](), dict[object, _T]()

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def of(self, key: object) -> _T | None:
        found = self._new.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: object, value: _T) -> None:
        if len(self._new) >= self._least:
            self._new, self._old = {}, self._new
        self._new[key] = value


_HEADS, _COMPONENTS = RecentlyUsed[tuple[str, tuple[str, ...]]](512), RecentlyUsed[Component](1024)
_PARTS = RecentlyUsed[tuple[Part, ...]](256)
_shared_unknown = lru_cache(1024)(_unknown)


def _known(collector: str, kind: Kind, column: str) -> bool:
    """Whether it is a column of this kind that this collector has."""
    counter = CATALOGUE.get(column)
    reads = SOURCES.get(collector, frozenset())
    return counter is not None and counter.kind is kind and (counter.source in reads or column in reads)


def _raw(collector: str, kind: Kind, column: str) -> bool:
    return kind is Kind.PORT and collector in SOURCES and column.startswith(RAW)


def _kept(part: Part, raw: frozenset[str]) -> Part:
    columns = tuple(
        column
        if _known(part.collector, part.kind, column)
        or (column in raw and _raw(part.collector, part.kind, column))
        else ""
        for column in part.columns
    )
    return part if columns == part.columns else msgspec.structs.replace(part, columns=columns)
