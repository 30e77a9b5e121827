"""Routing: a receiver takes every incident that is severe enough and meets its matchers. Pure.

There is no tree: an incident goes to every receiver that takes it.
"""

from __future__ import annotations

from msgspec import Struct

from fabricmon.model import Incident, Severity
from fabricmon.notify.matchers import Matcher, matches

REPEAT = 4 * 3600.0  # seconds; Alertmanager's default repeat_interval


class Receiver(Struct, frozen=True):
    """One destination of notifications.

    name           the key below `senders:`; what the outbox, the store and metrics call it
    min_severity   incidents below it are not sent (info only on request)
    matchers       all must hold; () takes everything
    send_resolved  send resolutions of notified incidents
    repeat         seconds until a firing incident is sent again; 0: never, the receiver repeats
    batch          incidents in one notification at most
    after          seconds an incident must be open without acknowledgement before it is sent: escalation; 0.0: at once
    digest         seconds between two notifications at least; what is due meanwhile waits and comes together, except
                   what is critical; 0.0: sent at once
    budget         messages in any `pacing.PERIOD` at most; 0: no limit
    each           incidents of a notification that are a message each; more of them are one message
    join           seconds after a notification in which further rises of its incident join; 0.0: each is sent at once
    acknowledged   send acknowledgements of notified incidents
    """

    name: str
    min_severity: Severity = Severity.WARNING
    matchers: tuple[Matcher, ...] = ()
    send_resolved: bool = True
    repeat: float = REPEAT
    batch: int = 20
    after: float = 0.0
    digest: float = 0.0
    budget: int = 0
    each: int = 1
    join: float = 0.0
    acknowledged: bool = False

    def takes(self, incident: Incident) -> bool:
        return incident.severity.rank >= self.min_severity.rank and matches(self.matchers, incident)
