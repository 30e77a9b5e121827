"""Evaluation on the node: the server's engine with the rows of one node and the rules that need no other node."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.catalogue.technology import link_layer
from fabricmon.frame import Frame
from fabricmon.model import CheckedNode, Event, Inventory, Presence, Snapshot, Symptom
from fabricmon.units import Duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.engine import Engine

TICK = 1.0
"""Seconds between two checks for new readings. Each comes with a reading: states are read once a second."""

LONGEST_TICK = 2.0
"""The same where no reading comes."""

PACE = 9.0
"""Seconds between two evaluations while no relevant value changes: less than the 10 s between two readings of counters,
so that each is evaluated. It delays effects of time alone (the end of a grace period)."""

PACE_ILL = 4.0
"""The same while a symptom is open: some resolve by time alone."""

RELEVANT = frozenset({Category.STATE, Category.ERROR, Category.CONFIGURATION})
"""Categories whose change may open or resolve a symptom at once. Traffic, congestion and retransmissions change with
every reading; rules on them need half a minute or more."""

WAITS = ("hold", "configuring", "never")
"""Limits of rules that wait for a second reading; a single check has none."""

DOWNS = frozenset({"link_downed", "carrier_down_changes"})
"""Counters whose increases count, over any interval; without a rate."""


class NodeEvaluator:
    """An engine of node scope for the snapshots of one node. Imports NumPy and the rules when made.

    `at_once`: without the WAITS of rules, for a single check.
    """

    def __init__(self, node: str, params: Mapping[str, Any], at_once: bool = False) -> None:
        from fabricmon.engine import Engine
        from fabricmon.rules import RULES
        from fabricmon.rules.rule import Scope

        self._node, self._at_once = node, at_once
        if at_once:
            every = {rule.name: params.get(rule.name) or rule.params() for rule in RULES}
            params = {name: replace(p, **{k: Duration(0) for k in WAITS if hasattr(p, k)}) for name, p in every.items()}
        self._engine: Engine = Engine(Scope.NODE, None, params)
        self._inventory: Inventory | None = None
        self._seq = -1
        self._pace = 0.0
        self._relevant: NDArray[np.intp]
        self._bits = b""  # of the relevant cells at the last evaluation
        self._evaluated = -math.inf  # `now` of it
        self._wait = 0.0  # seconds until the next evaluation without a change
        self._passed: float | None = None  # `now` of the newest snapshot that was fed and not evaluated
        self._rules = {rule.name: rule for rule in RULES}

    def tick(self, snapshot: Snapshot, now: float) -> None:
        """Evaluate the newest snapshot if necessary; `now` is the wall clock. Call it every TICK.

        Evaluates at once when a relevant cell changed, at every tick while a symptom is about to open or resolve, else
        at the pace: nearly all readings of a healthy node equal the ones before.
        """
        whole, snapshot = snapshot.inventory, own(snapshot)
        if whole is not self._inventory:
            self._enter(snapshot.inventory, now)
            self._inventory = whole
        bits = _bits(snapshot, self._relevant)
        changed = bits != self._bits
        since = now - self._evaluated
        if not changed and 0.0 <= since < self._wait:
            self._feed(snapshot, now)
            self._passed = now
            return
        if changed and self._passed is not None and since > 2 * TICK:
            # so that the change counts as one of the last second, not of the whole time since the last evaluation
            self._engine.fleet.advance(self._passed)
        self._passed = None
        self._feed(snapshot, now)
        self._engine.evaluate(now)
        self._bits, self._evaluated = bits, now
        ill = any(self._engine.open_by_rule().values())
        self._wait = 0.0 if self._engine.waiting() else min(self._pace, PACE_ILL) if ill else self._pace

    def _enter(self, inventory: Inventory, now: float) -> None:
        self._bits, self._passed, self._wait = b"", None, 0.0
        self._relevant = _relevant(inventory)
        self._pace = 0.0 if self._at_once else pace(inventory)
        self._engine.inventory(self._node, inventory, now)
        self._engine.presence(self._node, Presence.LIVE, "", now)

    def _feed(self, snapshot: Snapshot, now: float) -> None:
        import numpy as np

        if snapshot.seq == self._seq:
            return
        self._seq = snapshot.seq
        values = np.frombuffer(snapshot.values, np.float64)
        inventory, taken = snapshot.inventory.id, np.array(snapshot.taken, np.float64)
        self._engine.frame(self._node, Frame(inventory, snapshot.seq, snapshot.wall, taken, None, values), now)

    def event(self, event: Event, now: float) -> None:
        self._engine.event(self._node, event, now)

    def reconfigure(self, params: Mapping[str, Any], now: float) -> None:
        """Set other limits; open symptoms stay until the next evaluation. ValueError changes nothing."""
        self._engine.reconfigure(params, None, now)
        self._wait = 0.0

    def symptoms(self) -> list[Symptom]:
        return self._engine.symptoms()

    def words(self, symptom: Symptom) -> tuple[str, str, str]:
        """Title, why and action of a symptom, as they fit the link layer of its port."""
        rule, table = self._rules[symptom.rule], self._engine.fleet.tables[symptom.component.kind]
        row = table.row(symptom.component)
        return rule.title, *rule.text_of([] if row is None else [link_layer(table.labels[row])])

    def checked(self, now: float) -> CheckedNode:
        """Which components of the node were checked."""
        return self._engine.checked(now).get(self._node, CheckedNode())


def pace(inventory: Inventory) -> float:
    """Seconds between two evaluations of a node without changes: less than two of the shortest period of counters with
    rates, as three periods are a gap (docs/methods.md#counter-hygiene)."""
    periods = [
        part.period for part in inventory.parts
        if any(c in CATALOGUE and CATALOGUE[c].window and c not in DOWNS for c in part.columns)
    ]
    return max(0.0, min(PACE, *(2 * period - TICK for period in periods)) if periods else PACE)


def _relevant(inventory: Inventory) -> NDArray[np.intp]:
    """Places of the cells in categories RELEVANT."""
    import numpy as np

    cells: list[int] = []
    base = 0
    for part in inventory.parts:
        relevant = [c for c, name in enumerate(part.columns)
                    if name in CATALOGUE and CATALOGUE[name].category in RELEVANT]
        for row in range(len(part.components)):
            cells.extend(base + row * len(part.columns) + c for c in relevant)
        base += part.size
    return np.array(cells, np.intp)


def _bits(snapshot: Snapshot, cells: NDArray[np.intp]) -> bytes:
    """The bits of cells; as numbers, NaN would differ from NaN."""
    import numpy as np

    return np.frombuffer(snapshot.values, np.float64)[cells].tobytes() if len(snapshot.values) else b""


def own(snapshot: Snapshot) -> Snapshot:
    """The snapshot without ports of other nodes that this agent sweeps."""
    parts = snapshot.inventory.parts
    mine = [not (part.components and "swept" in part.components[0].labels) for part in parts]
    if all(mine):
        return snapshot
    values, base = array("d"), 0
    for part, keep in zip(parts, mine, strict=True):
        if keep:
            values.extend(snapshot.values[base : base + part.size])
        base += part.size
    kept = tuple(part for part, keep in zip(parts, mine, strict=True) if keep)
    return Snapshot(
        replace(snapshot.inventory, parts=kept), snapshot.seq, snapshot.wall,
        [taken for taken, keep in zip(snapshot.taken, mine, strict=True) if keep], values,
    )
