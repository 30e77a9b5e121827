"""A configured receiver: the sender, its settings and its routing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import aiohttp

from fabricmon.model import Incident, Notification
from fabricmon.notify.last_notification import LastNotification
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders import SENDERS
from fabricmon.senders.attempt import NO_RECEIPTS, Attempt

NO_NOTIFY = NotifyConfig()


@dataclass(frozen=True, slots=True)
class Destination:
    """One entry of `senders:`."""

    receiver: Receiver
    module: ModuleType
    config: Any
    links: IncidentLinks = NO_LINKS

    @property
    def name(self) -> str:
        return self.receiver.name

    @property
    def refresh_period(self) -> float:
        """Seconds between two repetitions of the open incidents; 0.0: changes only."""
        return float(self.module.REFRESH)

    @property
    def keeps(self) -> bool:
        """Whether `send` takes and returns receipts."""
        return bool(getattr(self.module, "KEEPS", False))

    async def send(
        self, session: aiohttp.ClientSession, notification: Notification, receipts: Mapping[str, str] = NO_RECEIPTS
    ) -> Attempt:
        """One attempt; `receipts` are those of the notification's incidents, by incident id."""
        kept = (receipts,) if self.keeps else ()
        result: Attempt = await self.module.send(session, self.config, notification, self.links, *kept)
        return result

    async def refresh(
        self, session: aiohttp.ClientSession, standing: Sequence[tuple[Incident, LastNotification]]
    ) -> Attempt:
        result: Attempt = await self.module.refresh(session, self.config, standing, self.links)
        return result


def destination(
    name: str, kind: str, config: Any, notify: NotifyConfig = NO_NOTIFY, links: IncidentLinks = NO_LINKS
) -> Destination:
    """The destination of one configured sender; KeyError for an unknown kind."""
    module = SENDERS[kind].module
    acknowledged = bool(getattr(module, "ACKNOWLEDGES", False))
    receiver: Receiver = config.receiver(name, notify, bool(module.REFRESH), acknowledged)
    return Destination(receiver, module, config, links)
