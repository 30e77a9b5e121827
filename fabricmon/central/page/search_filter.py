"""What is asked of the page: a search, and the form of the list of incidents. All of it is in the address. Pure.

Words are separated by blanks; all must occur in the texts of an incident, ignoring case.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from fabricmon.central.page.places import Whereabouts, by_labels, rail_number
from fabricmon.model import Incident, NodeView, Severity

MAX_WORDS = 256  # characters
MAX_PAGE = 10_000
SEARCHED = ("q", "severity", "kind", "rail", "leaf", "job", "host")
SORTS = ("severity", "kind", "component", "title", "members", "jobs", "since")
CHOICES = {
    "severity": tuple(s.value for s in Severity),
    "view": ("table",),
    "group": ("domain", "kind"),
    "map": ("load", "errors"),
    "sort": (*SORTS, *(f"-{name}" for name in SORTS)),
}
"""Parameters with given values; another value is ignored."""


class Filter(Struct, frozen=True, omit_defaults=True):
    """A search; "" matches everything.

    severity  this or higher
    rail      its number or its full name: "3", "su1/3"
    host      a part of the name of a node that the incident names
    view      "table", or "" for cards
    sort      column of the table, "-" before it: descending; "" by severity, then newest
    group     "domain" or "kind" of the table
    page      of the list, from 1
    map       "load" or "errors", or "" for the state
    """

    q: str = ""
    severity: str = ""
    kind: str = ""
    rail: str = ""
    leaf: str = ""
    job: str = ""
    host: str = ""
    view: str = ""
    sort: str = ""
    group: str = ""
    page: int = 1
    map: str = ""

    @property
    def on(self) -> bool:
        """Whether it leaves out incidents."""
        return any(getattr(self, name) for name in SEARCHED)

    def link(self, **changed: str | int) -> str:
        """The address of the page with these changes; another list begins at its first page."""
        words = msgspec.to_builtins(msgspec.structs.replace(self, **{"page": 1, **changed}))
        return f"?{urlencode(words)}" if words else "."

    def incident(self, incident: Incident, place: Whereabouts | None = None) -> bool:
        """Whether an incident matches; `place` is known better than by its labels."""
        if self.severity and incident.severity.rank < Severity(self.severity).rank:
            return False
        if self.kind and incident.kind != self.kind:
            return False
        place = place or by_labels(incident)
        if self.rail and not any(self.rail in (rail, rail_number(rail)) for rail in place.rails):
            return False
        if self.leaf and self.leaf not in place.leaves:
            return False
        if self.host and not any(self.host.lower() in node.lower() for node in place.nodes):
            return False
        return (not self.job or self.job in jobs_of(incident)) and self._words(incident)

    def _words(self, incident: Incident) -> bool:
        if not self.q:
            return True
        texts = (incident.id, incident.kind, incident.component, incident.title, *incident.parts, *incident.candidates)
        labels = (f"{name}={value}" for name, value in incident.labels.items())
        text = "\n".join((*texts, *labels)).lower()
        return all(word in text for word in self.q.lower().split())

    def node(self, node: NodeView) -> bool:
        """Whether a node matches; only the words and the host apply to nodes."""
        text = f"{node.node}\n{node.presence.value}\n{node.detail}".lower()
        return self.host.lower() in node.node.lower() and all(word in text for word in self.q.lower().split())


def jobs_of(incident: Incident) -> set[str]:
    """Names, ids and titles of the affected jobs that it lists."""
    jobs = incident.impact.jobs if incident.impact is not None else ()
    return {word for job in jobs for word in (job.id, job.name, job.title) if word}


def filter_of(query: Mapping[str, str]) -> Filter:
    """From the query of a request; an unknown value or parameter is ignored."""
    words = {name: query.get(name, "").strip()[:MAX_WORDS] for name in (*SEARCHED, "view", "sort", "group", "map")}
    for name, known in CHOICES.items():
        if words[name] not in known:
            words[name] = ""
    page = query.get("page", "1")
    number = int(page) if page.isascii() and page.isdecimal() and len(page) < 6 else 1
    return Filter(**words, page=min(max(number, 1), MAX_PAGE))
