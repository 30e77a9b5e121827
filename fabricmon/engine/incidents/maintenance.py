"""Maintenance windows: what they cover, and their incidents. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fabricmon.engine.incidents.incident_draft import PARTS, IncidentDraft
from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.forms.glob import NamePatterns
from fabricmon.model import Evidence, Maintenance, Members


class Windows:
    """The maintenance windows and the names that they cover."""

    def __init__(self, windows: Sequence[Maintenance] = ()) -> None:
        self.all = tuple(windows)
        self._hosts = {w.id: NamePatterns(w.hosts) for w in self.all}
        self._components = {w.id: NamePatterns(w.components) for w in self.all}

    def active(self, now: float) -> list[Maintenance]:
        return [w for w in self.all if w.starts <= now < w.ends]

    def hosts(self, now: float, nodes: Iterable[str]) -> dict[str, str]:
        """Covered node -> id of the window."""
        active = [(w.id, patterns) for w in self.active(now) if (patterns := self._hosts[w.id])]
        if not active:
            return {}
        return {node: id for node in nodes for id, patterns in active if patterns.match(node)}

    def of_components(self, now: float) -> tuple[Callable[[str], bool], float] | None:
        """Whether a window covers a component by its name, and the start of the first such window; None where none
        covers any."""
        active = [(w.starts, patterns) for w in self.active(now) if (patterns := self._components[w.id])]
        if not active:
            return None
        return lambda component: any(patterns.match(component) for _, patterns in active), min(at for at, _ in active)

    def named(self, now: float) -> list[tuple[str, float]]:
        """The components of active windows by name, each with the start of its window."""
        return [(name, window.starts) for window in self.active(now) for name in window.components]

    def covering(self, now: float, component: str, hosts: frozenset[str]) -> str:
        """Id of the window that covers a component: by its name, or because it covers every host concerned."""
        for window in self.active(now):
            named, of_hosts = self._components[window.id], self._hosts[window.id]
            if named.match(component):
                return window.id
            if hosts and all(map(of_hosts.match, hosts)):
                return window.id
        return ""


def maintenance_drafts(
    windows: Iterable[Maintenance], maintained: Mapping[str, str], rule_states: Iterable[RuleState]
) -> list[IncidentDraft]:
    """The incidents of active windows. `maintained`: node -> id of the window that covers it."""
    every = (held.symptom.component.node for rule_state in rule_states for held in rule_state.open.values())
    suppressed = Counter(maintained.get(node) for node in every)
    return [
        maintenance_draft(window, [node for node, id in maintained.items() if id == window.id], suppressed[window.id])
        for window in windows
    ]


def maintenance_draft(window: Maintenance, hosts: Collection[str], suppressed: int) -> IncidentDraft:
    """The incident of an active window. `hosts` are those of the fabric that it covers."""
    names = window.hosts + window.components
    one = len(window.hosts) == 1 and not window.components and "*" not in window.hosts[0]
    component = f"host({window.hosts[0]})" if one else f"maintenance({window.id})"
    by = f" by {window.author}" if window.author else ""
    return IncidentDraft(
        family="maintenance",
        identity=f"maintenance({window.id})",
        component=component,
        kind="maintenance",
        title=f"Maintenance: {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}",
        why=f"Maintenance window{by}: {window.comment}" if window.comment else f"Maintenance window{by}.",
        action="None. Notifications for symptoms that remain are sent when the window ends.",
        evidence=(Evidence(component, f"{suppressed} symptoms suppressed now", value=float(suppressed)),),
        members=Members(suppressed, suppressed),
        onset=window.starts,
        labels={"maintenance": window.id},
        parts=tuple(sorted(hosts)[:PARTS]),
    )
