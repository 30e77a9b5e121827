"""Who is told of what: a receiver takes every incident that is severe enough and meets its matchers. Pure.

There is no tree: each receiver stands for itself, and an incident goes to every one that takes it.
"""

from __future__ import annotations

from msgspec import Struct

from fabricmon.model import Incident, Severity
from fabricmon.notify.matchers import Matcher, matches

REPEAT = 4 * 3600.0  # seconds; Alertmanager's default repeat_interval


class Receiver(Struct, frozen=True):
    """One destination of notifications.

    name           the key below `senders:`; what the outbox, the store and metrics call it
    min_severity   incidents below it are not told (info is not sent unless asked for)
    matchers       all must hold; () takes everything
    send_resolved  tell also that an incident which was told has ended
    repeat         seconds until a firing incident is told again; 0: never, the receiver repeats by itself
    batch          incidents in one notification at most
    after          seconds for which an incident must have been open, and taken on by nobody, before this receiver is
                   told: it is the next in line; 0.0: told at once
    digest         seconds between two notifications at least; what is due meanwhile waits and comes together, except
                   what is critical; 0.0: told at once
    acknowledged   tell also that somebody has taken on what was told
    """

    name: str
    min_severity: Severity = Severity.WARNING
    matchers: tuple[Matcher, ...] = ()
    send_resolved: bool = True
    repeat: float = REPEAT
    batch: int = 20
    after: float = 0.0
    digest: float = 0.0
    acknowledged: bool = False

    def takes(self, incident: Incident) -> bool:
        return incident.severity.rank >= self.min_severity.rank and matches(self.matchers, incident)
