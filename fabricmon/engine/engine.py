"""The engine: from frames to incidents, for one node or for the whole fleet. Pure.

A tick is: fleet (what changed) -> rules (symptoms) -> diagnosis (causes) -> situation (incidents); it is in
`evaluation.py`. Frames are evaluated at the next tick: no arriving frame triggers a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.domains.placing import Placing
from fabricmon.engine.evaluation import Evaluation, Timer
from fabricmon.engine.fleet_nodes import FleetNodes
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.checked import checked
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.utilisation import Utilisation, utilisation
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.jobs.model import Jobs
from fabricmon.model import (
    Change,
    CheckedNode,
    Event,
    Incident,
    Inventory,
    Kind,
    Maintenance,
    NodeView,
    Presence,
    Symptom,
    SymptomChange,
)
from fabricmon.rules import RULES
from fabricmon.rules.rule import Rule, Scope
from fabricmon.topology.graph import Graph


class Engine:
    """The engine of one server (Scope.FLEET) or one agent (Scope.NODE).

    params  rule name -> its parameter struct, or a mapping that becomes one
    fabric  name of the fabric; part of every incident's id, the same on all its servers
    rules   the table of rules; those of FLEET scope are left out in an engine of NODE scope

    Raises ParamsError for parameters that no rule understands.
    """

    def __init__(
        self,
        scope: Scope,
        graph: Graph | None = None,
        params: Mapping[str, Any] | None = None,
        fabric: str = "",
        rules: Sequence[Rule] = RULES,
    ) -> None:
        self.scope = scope
        self.fabric = fabric
        self.fleet = Fleet()
        known = [rule for rule in rules if scope is Scope.FLEET or rule.scope is Scope.NODE]
        self._foreign = {rule.name for rule in rules} - {rule.name for rule in known}
        self.rule_states = RuleStates(known, self._own(params or {}))
        self.situation = Situation(fabric)
        self._nodes = FleetNodes(self.fleet)
        of_fleet = scope is Scope.FLEET
        self._placing = Placing(self.fleet, graph if of_fleet else None, of_fleet)
        self._evaluation = Evaluation(
            fabric, self.fleet, self.rule_states, self.situation, self._placing, self._nodes.events
        )
        self._now = 0.0

    # --- input

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        self._nodes.inventory(node, inventory, now)

    def frame(self, node: str, frame: Frame, now: float) -> bool:
        """False when the frame belongs to another inventory than the one known. ValueError when it does not fit it."""
        return self.fleet.frame(node, frame, now)

    def heartbeats(
        self, nodes: Sequence[str], inventories: NDArray[np.uint32], taken: NDArray[np.float64], at: NDArray[np.float64]
    ) -> None:
        """Frames without values of many nodes, each node at most once (`Fleet.heartbeats`)."""
        self.fleet.heartbeats(nodes, inventories, taken, at)

    def event(self, node: str, event: Event, now: float) -> None:
        """A kernel event: kept as a reading for the evidence; counters count it, but those of a GPU that fell off the
        bus, which are not read any more."""
        self._nodes.event(node, event, now)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        self._nodes.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        """The node is no longer expected: its symptoms close at the next tick."""
        self._nodes.forget(node)
        self._placing.forget(node)

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Take up the stored incidents after a restart. Firing ones stay until their parts were seen healthy."""
        self._evaluation.restore(list(incidents), now)

    def reconfigure(self, params: Mapping[str, Any], graph: Graph | None, now: float) -> None:
        """Other limits, another topology; open symptoms stay open and are evaluated by the new ones from the next tick.

        Raises ParamsError and changes nothing when the parameters cannot be used.
        """
        self.rule_states.configure(self._own(params))
        self._placing.replan(graph if self.scope is Scope.FLEET else None)
        self._evaluation.diagnose_next()

    def maintenance(self, windows: Sequence[Maintenance]) -> None:
        """All maintenance windows; they begin and end by the `now` of ticks."""
        self._evaluation.maintenance(windows)

    def jobs(self, sources: Sequence[Jobs], now: float) -> None:
        """The last answers of all sources of jobs; each call replaces the one before."""
        self._evaluation.jobs(sources)

    # --- the tick

    def tick(self, now: float) -> Change:
        self._now = now
        return self._evaluation.tick(now)

    def time_steps(self, diagnosis: Timer, placing: Timer) -> None:
        """Enter what each returns for the time of each diagnosis (causes of the open symptoms, then incidents), and of
        each placing of rows in their fault domains."""
        self._evaluation.timer, self._evaluation.placing_timer = diagnosis, placing

    def evaluate(self, now: float) -> list[SymptomChange]:
        """A tick without the diagnosis, for symptoms only."""
        self._now = now
        return self._evaluation.evaluate(now)

    # --- output

    def incidents(self) -> list[Incident]:
        """Firing ones and those resolved within an hour, firing and most severe first."""
        return self.situation.incidents(self._now)

    def symptoms(self) -> list[Symptom]:
        """Every open symptom, most severe first, explained or not."""
        return self.rule_states.symptoms()

    def topology(self) -> Graph | None:
        return self._placing.graph

    def utilisation(self) -> Utilisation:
        """Utilisation of the ports at the last tick."""
        return utilisation(View(self.fleet.tables[Kind.PORT], self._now))

    def waiting(self) -> bool:
        """Whether a symptom may open or close by time alone at the next tick."""
        return self.rule_states.waiting()

    def open_by_rule(self) -> dict[str, int]:
        return self.rule_states.open_by_rule()

    def counters(self) -> dict[str, float]:
        """The engine's own counts since it was made, for /metrics."""
        failures = float(sum(self.rule_states.failures.counts.values()))
        return {name: float(count) for name, count in self._evaluation.counts.items()} | {"rule_failures": failures}

    def failures(self) -> dict[str, str]:
        """Steps of the evaluation that raised since the engine was made -> the last error."""
        return self.rule_states.failures.last

    def checked(self, now: float) -> dict[str, CheckedNode]:
        """Which components of each known node were checked."""
        return checked(self.fleet, now)

    def nodes(self) -> list[NodeView]:
        """Every known node, by name."""
        symptoms, maintained = self.rule_states.symptoms(), self._evaluation.maintained
        return self._nodes.views(symptoms, maintained, self.checked(self._now))

    def _own(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters without rules of another scope: one configuration serves all engines."""
        return {name: value for name, value in params.items() if name not in self._foreign}
