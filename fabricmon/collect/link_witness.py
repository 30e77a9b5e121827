"""Network interfaces as witnesses of their RDMA ports: while an interface stands unchanged, its port does, too.

The kernel tells at once when an interface loses its carrier, for nothing; to ask a port costs an adapter two to five
firmware commands (counters-ib.md 5.1). An interface is a witness only while it is wanted up and has a carrier: the
carrier of one that is down says nothing about the port below it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fabricmon.host.protocol import Host, HostError, Link


class LinkWitness:
    """Knows the interfaces of one host from the moment `watch` was called. Safe from any thread.

    Until then, and where the host has no link events, nothing is witnessed.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._listening = False
        self._whole = False  # nothing was missed since the last dump
        self._links: dict[str, Link] = {}
        self._changes: dict[str, int] = {}

    def watch(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Listen; `tell(interface)` from a thread when one changed, `tell("")` when any may have.

        HostError (Unsupported where the host has no link events).
        """

        def heard(link: Link | None) -> None:
            if link is None:
                with self._lock:
                    self._whole = False
                tell("")
            elif self._note(link):
                tell(link.name)

        stop = self._host.watch_links(heard)
        self._listening = True
        return stop

    def number(self, netdev: str) -> int | None:
        """Rises with each change of the interface; None where it is no witness now."""
        if not self._listening or not netdev:
            return None
        if not self._whole:
            self._refresh()
        with self._lock:
            link = self._links.get(netdev)
            if not self._whole or link is None or not link.carrier or not link.admin_up:
                return None
            return self._changes.get(netdev, 0)

    def _refresh(self) -> None:
        with self._lock:
            self._whole = True  # what is missed from here on says so again
        try:
            found = self._host.links()
        except HostError:
            with self._lock:
                self._whole = False
            return
        for link in found:
            self._note(link)
        with self._lock:
            self._links = {link.name: self._links[link.name] for link in found if link.name in self._links}

    def _note(self, link: Link) -> bool:
        """Take a message over; True when it says something new."""
        with self._lock:
            former = self._links.get(link.name)
            self._links[link.name] = link
            if former is not None and _seen(former) == _seen(link):
                return False
            self._changes[link.name] = self._changes.get(link.name, 0) + 1
            return True


def _seen(link: Link) -> tuple[object, ...]:
    return link.index, link.carrier, link.operstate, link.admin_up, link.carrier_down_count, link.carrier_up_count
