"""Link messages of the kernel as events; messages without a change of the link are dropped."""

from __future__ import annotations

import time
from collections.abc import Callable

from fabricmon.host.protocol import Link
from fabricmon.model import Event

_MOST_REMEMBERED = 2048  # interfaces whose last state is kept to drop repetitions


class LinkEvents:
    """Called with each link message of the kernel.

    row_of  the row of an interface, None where it is not read
    wants   whether an interface that is not read yet gets a row
    notify  called with each event; None: read all links, some messages were lost or an interface is new
    """

    def __init__(
        self,
        row_of: Callable[[str], str | None],
        wants: Callable[[Link], bool],
        notify: Callable[[Event | None], None],
    ) -> None:
        self._row_of, self._wants, self._notify = row_of, wants, notify
        self._last: dict[int, tuple[object, ...]] = {}

    def __call__(self, link: Link | None) -> None:
        if link is None:
            self._last.clear()
            self._notify(None)
            return
        row = self._row_of(link.name)
        if row is None:
            if self._wants(link):
                self._notify(None)
            return
        seen = link_state(link)
        if self._last.get(link.index) == seen:
            return
        if len(self._last) >= _MOST_REMEMBERED:
            self._last.clear()
        self._last[link.index] = seen
        fields = {
            "carrier": link.carrier,
            "admin_up": link.admin_up,
            "carrier_down_changes": link.carrier_down_count,
            "carrier_up_changes": link.carrier_up_count,
        }
        known = {name: float(value) for name, value in fields.items() if value is not None}
        self._notify(Event(0, time.time(), "link", row, _text(link), known))


def link_state(link: Link) -> tuple[object, ...]:
    """The fields whose change makes a link message an event."""
    return link.carrier, link.operstate, link.admin_up, link.carrier_down_count, link.carrier_up_count


def _text(link: Link) -> str:
    """The event in words."""
    if link.operstate == "notpresent":
        return f"{link.name} was removed"
    if not link.admin_up:
        return f"{link.name} was set down"
    if link.carrier is None:
        return f"{link.name} changed"
    return f"{link.name} has carrier" if link.carrier else f"{link.name} lost carrier"
