"""A configured receiver: where its notifications go and which it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import aiohttp

from fabricmon.model import Incident, Notification
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.notify.told import Telling
from fabricmon.senders import SENDERS
from fabricmon.senders.result import NO_RECEIPTS, Result

NO_NOTIFY = NotifyConfig()


@dataclass(frozen=True, slots=True)
class Destination:
    """One entry below `senders:`."""

    receiver: Receiver
    module: ModuleType
    config: Any
    links: Links = NO_LINKS

    @property
    def name(self) -> str:
        return self.receiver.name

    @property
    def refresh_period(self) -> float:
        """Seconds between two sayings of what stands; 0.0: this receiver is told changes only."""
        return float(self.module.REFRESH)

    @property
    def keeps(self) -> bool:
        """Whether `send` answers with receipts and wants those it gave before."""
        return bool(getattr(self.module, "KEEPS", False))

    async def send(
        self, session: aiohttp.ClientSession, notification: Notification, receipts: Mapping[str, str] = NO_RECEIPTS
    ) -> Result:
        """One attempt; `receipts` are those of the notification's incidents, by incident id."""
        kept = (receipts,) if self.keeps else ()
        result: Result = await self.module.send(session, self.config, notification, self.links, *kept)
        return result

    async def refresh(self, session: aiohttp.ClientSession, standing: Sequence[tuple[Incident, Telling]]) -> Result:
        result: Result = await self.module.refresh(session, self.config, standing, self.links)
        return result


def destination(
    name: str, kind: str, config: Any, notify: NotifyConfig = NO_NOTIFY, links: Links = NO_LINKS
) -> Destination:
    """The destination of one configured sender; KeyError for a kind that SENDERS has not."""
    module = SENDERS[kind]
    acknowledged = bool(getattr(module, "ACKNOWLEDGES", False))
    receiver: Receiver = config.receiver(name, notify, bool(module.REFRESH), acknowledged)
    return Destination(receiver, module, config, links)
