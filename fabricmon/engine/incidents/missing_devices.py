"""Devices that a host lacks and whose fault an incident has: they are evidence of it, and no incident besides. Pure.

What counts: docs/methods.md#missing-devices-of-an-incident.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite, isnan
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from fabricmon.catalogue.kinds import Effect, kind_of
from fabricmon.engine.diagnosis.causes import ONE_CAUSE
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.symptoms.rule_state import OpenSymptom, SymptomKey
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Evidence, Incident, Kind, Symptom
from fabricmon.rules import expected_inventory, nic_fault
from fabricmon.rules.expected_inventory import ExpectedInventoryParams

LABELS = ("adapters_missing", "gpus_missing")
"""Labels of an incident that has missing devices of its host: after a restart they are known from these alone."""
APART = ("storage", "management")  # roles of ports whose adapters are not counted
LOST = (Effect.OUTAGE, Effect.LOST)
"""Effects of a symptom of a GPU that does not work: that a slow one is missing now is news."""


class MissingCount(NamedTuple):
    """Devices of a host that are missing, or that incidents have."""

    adapters: float = 0.0
    gpus: float = 0.0

    def within(self, other: MissingCount) -> bool:
        return self.adapters <= other.adapters and self.gpus <= other.gpus


NONE_KEPT = MissingCount(-1.0, -1.0)


class MissingDevices:
    """Remembers how many devices were missing when that was last known: what cannot be listed for a while changes
    nothing."""

    def __init__(
        self, fleet: Fleet, rule_states: RuleStates, read_now: Callable[[Symptom], tuple[Evidence, ...]]
    ) -> None:
        self._fleet, self._rule_states, self._read_now = fleet, rule_states, read_now
        self._last: dict[str, MissingCount] = {}

    def joined(
        self, drafts: Sequence[IncidentDraft], restored: Iterable[Incident], nodes: View
    ) -> tuple[list[IncidentDraft], frozenset[SymptomKey]]:
        """The drafts with the missing devices that they account for, and symptoms of which a restored incident does,
        one that no draft has confirmed yet."""
        name = expected_inventory.RULE.name
        state, found = self._rule_states.by_rule.get(name), list(drafts)
        if state is None or not state.open:
            self._last.clear()
            return found, frozenset()
        opened = {held.symptom.component.node: (row, held) for row, held in state.open.items()}
        kept = _kept(restored)
        lost = self._devices(found, opened)
        lacking = self._lacking(opened, nodes, state.params) if kept or lost else {}
        held: set[SymptomKey] = set()
        for node, missing in lacking.items():
            row, one = opened[node]
            key, of = SymptomKey(name, one.symptom.component), lost.get(node, {})
            every = set[ComponentId]().union(*of.values())
            with_them = self._gone_with(node, every)
            if of and missing.within(self._shown(every | with_them, float(nodes.value("node_hcas_lost")[row]))):
                at = min(of, key=lambda at: (-len(of[at]), found[at].onset, found[at].identity))
                found[at] = _with(found[at], key, self._read_now(one.symptom), missing, sorted(with_them - every))
            elif not one.witnessed and missing.within(kept.get(node, NONE_KEPT)):
                held.add(key)
        return found, frozenset(held)

    def _shown(self, devices: Iterable[ComponentId], counted: float) -> MissingCount:
        """Of so many missing devices. `counted`: adapters that the count of found ones has: they are adapter faults."""
        ports = self._fleet.tables[Kind.PORT]
        labels = {device: ports.labels[row] for device in devices if (row := ports.row(device)) is not None}
        adapters = {of.get("device") or port.name for port, of in labels.items() if of.get("role") not in APART}
        gpus = sum(device.kind is Kind.GPU for device in devices)
        return MissingCount(max(0.0, len(adapters) - (0.0 if isnan(counted) else counted)), float(gpus))

    def _lacking(
        self, opened: Mapping[str, tuple[int, OpenSymptom]], nodes: View, params: ExpectedInventoryParams
    ) -> dict[str, MissingCount]:
        """What each of the hosts lacks; not of one that also has devices that cannot be used."""
        counts = expected_inventory.counts(nodes, params)
        useless = expected_inventory.unusable(nodes)
        now: dict[str, MissingCount] = {}
        for node, (row, _) in opened.items():
            before = self._last.get(node, MissingCount(inf, inf))
            found = (
                _missing(counts.hcas[row], counts.hcas_found[row], before.adapters),
                _missing(counts.gpus[row], counts.gpus_found[row], before.gpus),
            )
            now[node] = MissingCount(*found)
        self._last = now
        return {node: missing for node, missing in now.items() if not useless[opened[node][0]]}

    def _devices(
        self, drafts: Sequence[IncidentDraft], opened: Mapping[str, tuple[int, OpenSymptom]]
    ) -> dict[str, dict[int, set[ComponentId]]]:
        """Host -> number of a draft -> GPUs and ports of adapters that are missing there and that it has as what does
        not work, of drafts that are no less severe."""
        found = defaultdict[str, dict[int, set[ComponentId]]](dict)
        for at, draft in enumerate(drafts):
            for rule, device in () if draft.covered else draft.claims:
                if (one := opened.get(device.node)) is None or draft.severity.rank < one[1].symptom.severity.rank:
                    continue
                if self._shows_loss(rule, device.kind) and self._is_missing(device):
                    found[device.node].setdefault(at, set()).add(device)
        return found

    def _shows_loss(self, rule: str, kind: Kind) -> bool:
        """Whether a symptom of a device is that it does not work at all."""
        effect = kind_of(self._rule_states.by_rule[rule].rule.kind).effect
        return rule == nic_fault.RULE.name or (kind is Kind.GPU and effect in LOST)

    def _is_missing(self, device: ComponentId) -> bool:
        """Whether its host does not list it any more, or names its PCI address among what is missing."""
        table = self._fleet.tables[device.kind]
        if (row := table.row(device)) is None:
            return False
        labels, nodes = table.labels[row], self._fleet.tables[Kind.NODE]
        named = nodes.labels[self._fleet.nodes[device.node].row].get("missing", "").split(", ")
        return bool(np.isfinite(table.gone[row])) or (bool(labels.get("pci")) and labels["pci"] in named)

    def _gone_with(self, node: str, devices: Iterable[ComponentId]) -> set[ComponentId]:
        """GPUs of the host that left it at the moment of adapters."""
        ports, gpus = self._fleet.tables[Kind.PORT], self._fleet.tables[Kind.GPU]
        rows = [ports.row(device) for device in devices if device.kind is Kind.PORT]
        moments = [float(ports.gone[row]) for row in rows if row is not None]
        mine = self._fleet.nodes[node].rows.get(Kind.GPU, {}).values()
        return {gpus.ids[row] for row in mine if any(abs(gpus.gone[row] - at) <= ONE_CAUSE for at in moments)}


def _missing(wanted: float, found: float, before: float) -> float:
    """Devices that are missing: none where none are expected, as before where they cannot be listed."""
    return 0.0 if isnan(wanted) else max(0.0, wanted - found) if isfinite(found) else before


def _kept(incidents: Iterable[Incident]) -> dict[str, MissingCount]:
    """Host -> the missing devices that an incident had before a restart."""
    return {
        incident.labels["node"]: MissingCount(*(float(incident.labels.get(label, "0")) for label in LABELS))
        for incident in incidents if "node" in incident.labels and incident.labels.keys() & set(LABELS)
    }  # fmt: skip


def _with(
    draft: IncidentDraft,
    key: SymptomKey,
    readings: Iterable[Evidence],
    missing: MissingCount,
    gone_with: Sequence[ComponentId],
) -> IncidentDraft:
    """The draft with the missing devices of its host. They do not keep it: once its own evidence ends they are reported
    by themselves."""
    evidence, node = [one for one in readings if one.for_it], key.component.node
    if gone_with:
        text = f"{len(gone_with)} GPUs left {node} within a minute of it: {', '.join(one.name for one in gone_with)}"
        evidence.append(Evidence(draft.component, text, value=float(len(gone_with))))
    counts = zip(LABELS, missing, strict=True) if draft.labels.get("node") == node else ()
    return replace(
        draft,
        claims=draft.claims | {key},
        effects=draft.effects | {key},
        evidence=(*draft.evidence, *evidence),
        labels=draft.labels | {label: f"{count:.0f}" for label, count in counts if 0 < count < inf},
    )
