"""Inhibition: an incident that only repeats part of a larger one is not sent while the larger one fires. Pure.

The engine already absorbs what a cause explains; this is for the rest, such as incidents opened at two ticks or before
a restart. It acts per receiver: only a larger incident that the receiver is notified of inhibits. Only new incidents
are inhibited, and are sent if they still fire when the larger one ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from fabricmon.catalogue.kinds import SHOWS, TRAFFIC, Inhibits, kind_of, of_traffic
from fabricmon.model import Incident
from fabricmon.notify.acknowledge import opened

TOGETHER = 60.0
"""Seconds after the beginning of an incident within which what begins on its members may be part of it: within them
symptoms can be one cause (docs/methods.md#noisy-or)."""


def larger_first(incidents: Iterable[Incident]) -> list[Incident]:
    """The firing incidents that may inhibit others: an incident is inhibited only by those before it."""
    found = [i for i in incidents if i.status == "firing" and kind_of(i.kind).inhibits is not Inhibits.NOTHING]
    return sorted(found, key=lambda i: (kind_of(i.kind).inhibits is not Inhibits.ALL, -len(i.parts), i.id))


def inhibits(larger: Incident, incident: Incident, silenced_since: float | None = None) -> bool:
    """Whether a firing incident inhibits another one. A mass alarm inhibits those of which an episode opened between
    the times in its labels "from" and "until" (none: now), without the causes in its label "causes"; any other those
    that are at most as severe, whose bad members are some of its own, and that did not begin TOGETHER later: what
    fails on a member of a lossy spine an hour later is another fault. One that shows nothing but lost packets or
    congestion (its label "shows" is "traffic") explains only what happens to the traffic of a member: what stops it,
    bit errors on its link or a wrong setting may be the cause.

    silenced_since  start of a silence that covers `larger`, None without one. A silenced mass alarm does not inhibit
                    what opens later: the silence was made without knowing of it.
    """
    match kind_of(larger.kind).inhibits:
        case Inhibits.ALL:
            at = opened(incident)
            known = silenced_since is None or at < silenced_since
            if not known or incident.kind == larger.kind or incident.id in larger.labels.get("causes", "").split():
                return False
            began, until = (
                float(larger.labels.get(name, last)) for name, last in (("from", larger.since), ("until", inf))
            )
            return any(began <= episode <= until for episode in incident.openings)
        case Inhibits.PARTS:
            return (
                bool(incident.parts)
                and larger.severity.rank >= incident.severity.rank
                and incident.since <= larger.since + TOGETHER
                and set(incident.parts) < set(larger.parts)
                and (larger.labels.get(SHOWS) != TRAFFIC or of_traffic(incident.kind, incident.labels))
            )
        case Inhibits.NOTHING:
            return False
