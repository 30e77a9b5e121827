"""A configured receiver: where its notifications go and which it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import aiohttp

from fabricmon.model import Incident, Notification
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.notify.matchers import parse
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.notify.told import Telling
from fabricmon.senders import SENDERS
from fabricmon.senders.result import Result

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

    async def send(self, session: aiohttp.ClientSession, notification: Notification) -> Result:
        result: Result = await self.module.send(session, self.config, notification, self.links)
        return result

    async def refresh(self, session: aiohttp.ClientSession, standing: Sequence[tuple[Incident, Telling]]) -> Result:
        result: Result = await self.module.refresh(session, self.config, standing, self.links)
        return result


def destination(
    name: str, kind: str, config: Any, notify: NotifyConfig = NO_NOTIFY, links: Links = NO_LINKS
) -> Destination:
    """The destination of one configured sender; KeyError for a kind that SENDERS has not."""
    module = SENDERS[kind]
    receiver = Receiver(
        name=name,
        min_severity=config.min_severity,
        matchers=tuple(parse(text) for text in config.match),
        send_resolved=config.send_resolved,
        # What is refreshed is never news a second time: that receiver repeats to people by itself.
        repeat=0.0 if module.REFRESH else float(notify.repeat),
        batch=notify.batch,
    )
    return Destination(receiver, module, config, links)
