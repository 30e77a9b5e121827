"""Interfaces of a recorded machine: from the archive, or from a source whose answers are kept."""

from __future__ import annotations

import errno

from fabricmon.host.archive import Archive
from fabricmon.host.archive.archived import Archived, as_bytes, as_text
from fabricmon.host.protocol import HostError
from fabricmon.host.protocol.interfaces import Dcb, Fec, Interfaces, LinkState, Pause


class ArchivedInterfaces(Archived[Interfaces]):
    def __init__(self, archive: Archive, source: Interfaces | None = None) -> None:
        super().__init__(archive, source)
        self._names = {name: tuple(names) for name, names in archive.statistics_names.items()}

    def statistics_names(self, name: str) -> tuple[str, ...]:
        found = self._ask("statistics_names", name, lambda source: source.statistics_names(name), list)
        return self._names.get(name, ()) if self._source is None else found

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        found = tuple(self._ask("statistics", name, lambda source: source.statistics(name, count), list))
        if len(found) != count:
            raise HostError(f"statistics {name}", errno.EAGAIN, f"{len(found)} statistics, {count} were expected")
        return found

    def standard_statistics(self, name: str) -> dict[str, int]:
        return self._ask("standard_statistics", name, lambda source: source.standard_statistics(name))

    def fec(self, name: str) -> Fec:
        return self._ask("fec", name, lambda source: source.fec(name))

    def link_state(self, name: str) -> LinkState:
        return self._ask("link_states", name, lambda source: source.link_state(name))

    def pause(self, name: str) -> Pause:
        return self._ask("pauses", name, lambda source: source.pause(name))

    def dcb(self, name: str) -> Dcb:
        return self._ask("dcb", name, lambda source: source.dcb(name))

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        place = (name, page, offset, length, address)
        return as_bytes(self._ask("modules", module_key(*place), lambda source: source.module(*place), as_text))

    def neighbours(self) -> bytes:
        return as_bytes(self._ask("neighbours", "", lambda source: source.neighbours(), as_text))


def module_key(name: str, page: int, offset: int, length: int, address: int) -> str:
    """The key of a piece of a module's memory: "eth0/50/00/128+128"."""
    return f"{name}/{address:02x}/{page:02x}/{offset}+{length}"
