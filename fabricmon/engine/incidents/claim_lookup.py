"""State of the symptoms that an incident claims: open, host, role, healthy. Pure."""

from __future__ import annotations

from fabricmon.catalogue.kinds import KINDS
from fabricmon.engine.diagnosis.symptom_index import up_at_other_end
from fabricmon.engine.domains.dependent_hosts import DependentHosts
from fabricmon.engine.domains.link_ends import LinkReads, unread
from fabricmon.engine.domains.placing import Placing
from fabricmon.engine.incidents.restored import PartState
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import ComponentId, Kind, Symptom


class ClaimLookup:
    """Looks up claims in the states of the rules, the tables and the fault domains.

    reads  when the links were read
    """

    def __init__(self, fleet: Fleet, rule_states: RuleStates, placing: Placing) -> None:
        self._fleet, self._rule_states, self._placing = fleet, rule_states, placing
        self.reads: LinkReads = unread()

    def is_open(self, key: SymptomKey) -> bool:
        state, row = self._rule_states.by_rule.get(key.rule), self._row(key.component)
        if state is None or row is None or row not in state.open:
            return False
        domains, kind = self._placing.domains, KINDS[state.rule.kind].symptom
        return domains is None or not up_at_other_end(kind, state, row, domains, self.reads)

    def symptoms(self, key: SymptomKey) -> list[Symptom]:
        """The open symptoms of a claimed component: the claim's own, and a link that is down now."""
        row = self._row(key.component)
        if row is None:
            return []
        rules = (key.rule, "link_down") if key.component.kind is Kind.PORT and key.rule != "link_down" else (key.rule,)
        states = [self._rule_states.by_rule[rule] for rule in rules if rule in self._rule_states.by_rule]
        return [state.open[row].symptom for state in states if row in state.open]

    def host(self, key: SymptomKey) -> str:
        """The host that a claim concerns, "" for a port between switches."""
        row, domains = self._port_row(key.component), self._placing.domains
        if row is None or domains is None or row >= len(domains.hosts):
            return key.component.node
        return domains.host(row)

    def role(self, key: SymptomKey) -> str:
        """The role of the claim's port, "" none."""
        row = self._port_row(key.component)
        return self._fleet.tables[Kind.PORT].labels[row].get("role", "") if row is not None else ""

    def dependent_hosts(self) -> DependentHosts | None:
        return self._placing.dependent_hosts()

    def part_state(self, part: str, kind: str, since: float, now: float) -> PartState:
        """State of a part that an incident of this kind names since before `since`."""
        found = self._fleet.find(part)
        row = self._row(found) if found is not None else None
        if found is not None and row is not None:
            return PartState.HEALTHY if self._rule_states.healthy(row, found.kind, kind) else PartState.UNCONFIRMED
        return PartState.UNCONFIRMED if self._fleet.may_return(part, since, now) else PartState.LEFT

    def exists(self, component: ComponentId) -> bool:
        """Whether the component has a row."""
        return self._row(component) is not None

    def expected(self, node: str) -> bool:
        """Whether a target leads to the node."""
        return node in self._fleet.nodes

    def swept_link(self, component: ComponentId) -> tuple[str, str] | None:
        """Name and host ("" none) of the link of a port that a sweep reports; None for any other component."""
        row, domains = self._port_row(component), self._placing.domains
        return domains.swept_link(row) if domains is not None and row is not None else None

    def _row(self, component: ComponentId) -> int | None:
        return self._fleet.tables[component.kind].row(component)

    def _port_row(self, component: ComponentId) -> int | None:
        return self._row(component) if component.kind is Kind.PORT else None
