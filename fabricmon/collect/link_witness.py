"""Network interfaces as evidence for their RDMA ports: while an interface is unchanged, so is its port.

The kernel reports a lost carrier at once and without cost; a question to a port costs two to five firmware commands
(docs/methods.md#firmware-commands). An interface is evidence only while it is administratively up and has a carrier.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fabricmon.collect.link_events import link_state
from fabricmon.host.protocol import Host, HostError, Link


class LinkWitness:
    """The interfaces of one host from the call of `watch` on, if the host has link events. Safe from any thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._listening = False
        self._whole = False  # no message was lost since the last dump
        self._links: dict[str, Link] = {}
        self._changes: dict[str, int] = {}

    def watch(self, notify: Callable[[str], None]) -> Callable[[], None]:
        """Call `notify(interface)` from a thread when one changed, `notify("")` when any may have changed.

        HostError (Unsupported where the host has no link events).
        """

        def receive(link: Link | None) -> None:
            if link is None:
                with self._lock:
                    self._whole = False
                notify("")
            elif self._note(link):
                notify(link.name)

        stop = self._host.watch_links(receive)
        self._listening = True
        return stop

    def number(self, netdev: str) -> int | None:
        """A number that rises with each change of the interface; None where the interface is no evidence now."""
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
            self._whole = True  # a message lost from here on resets it
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
        """Keep a message; True where it changes the link."""
        with self._lock:
            former = self._links.get(link.name)
            self._links[link.name] = link
            if former is not None and former.index == link.index and link_state(former) == link_state(link):
                return False
            self._changes[link.name] = self._changes.get(link.name, 0) + 1
            return True
