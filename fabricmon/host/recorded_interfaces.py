"""Interfaces in a recording: kept while another host answers, and answered again from the archive."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from fabricmon.host.archive import Archive, Trouble
from fabricmon.host.interfaces import Dcb, Fec, Interfaces, LinkState, Pause
from fabricmon.host.protocol import HostError, Unsupported

_T = TypeVar("_T")


class RecordedInterfaces:
    """Answers what was asked when the archive was made, the same way each time."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._names = {name: tuple(names) for name, names in archive.statistics_names.items()}

    def statistics_names(self, name: str) -> tuple[str, ...]:
        return self._told("statistics_names", self._names, name)

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        found = self._told("statistics", self._archive.statistics, name)
        if len(found) != count:
            raise HostError(f"statistics {name}", errno.EAGAIN, f"{len(found)} statistics, {count} were expected")
        return tuple(found)

    def standard_statistics(self, name: str) -> dict[str, int]:
        return self._told("standard_statistics", self._archive.standard_statistics, name)

    def fec(self, name: str) -> Fec:
        return self._told("fec", self._archive.fec, name)

    def link_state(self, name: str) -> LinkState:
        return self._told("link_states", self._archive.link_states, name)

    def pause(self, name: str) -> Pause:
        return self._told("pauses", self._archive.pauses, name)

    def dcb(self, name: str) -> Dcb:
        return self._told("dcb", self._archive.dcb, name)

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        key = module_key(name, page, offset, length, address)
        return self._told("modules", self._archive.modules, key).encode("latin-1")

    def neighbours(self) -> bytes:
        return self._told("neighbours", self._archive.neighbours, "").encode("latin-1")

    def close(self) -> None:
        """Nothing is open."""

    def _told(self, field: str, answers: dict[str, _T], key: str) -> _T:
        question = f"{field} {key}"
        if key in answers:
            return answers[key]
        trouble = self._archive.troubles.get(question)
        if trouble is None:
            raise Unsupported(question, 0, "not in the recording")
        raise (Unsupported if trouble.unsupported else HostError)(question, trouble.errno, trouble.error)


class RecordingInterfaces:
    """In front of another host's."""

    def __init__(self, interfaces: Interfaces, archive: Archive, most: int) -> None:
        self._from, self._archive, self._most = interfaces, archive, most

    def statistics_names(self, name: str) -> tuple[str, ...]:
        found = self._ask("statistics_names", name, lambda: self._from.statistics_names(name))
        self._keep(self._archive.statistics_names, name, list(found))
        return found

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        found = self._ask("statistics", name, lambda: self._from.statistics(name, count))
        self._keep(self._archive.statistics, name, list(found))
        return found

    def standard_statistics(self, name: str) -> dict[str, int]:
        found = self._ask("standard_statistics", name, lambda: self._from.standard_statistics(name))
        return self._keep(self._archive.standard_statistics, name, found)

    def fec(self, name: str) -> Fec:
        return self._keep(self._archive.fec, name, self._ask("fec", name, lambda: self._from.fec(name)))

    def link_state(self, name: str) -> LinkState:
        found = self._ask("link_states", name, lambda: self._from.link_state(name))
        return self._keep(self._archive.link_states, name, found)

    def pause(self, name: str) -> Pause:
        return self._keep(self._archive.pauses, name, self._ask("pauses", name, lambda: self._from.pause(name)))

    def dcb(self, name: str) -> Dcb:
        return self._keep(self._archive.dcb, name, self._ask("dcb", name, lambda: self._from.dcb(name)))

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        key = module_key(name, page, offset, length, address)
        found = self._ask("modules", key, lambda: self._from.module(name, page, offset, length, address))
        self._keep(self._archive.modules, key, found.decode("latin-1"))
        return found

    def neighbours(self) -> bytes:
        found = self._ask("neighbours", "", self._from.neighbours)
        self._keep(self._archive.neighbours, "", found.decode("latin-1"))
        return found

    def close(self) -> None:
        self._from.close()

    def _ask(self, field: str, key: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except HostError as error:
            if len(self._archive.troubles) < self._most:
                self._archive.troubles[f"{field} {key}"] = Trouble(
                    error.errno, error.text, isinstance(error, Unsupported)
                )
            raise

    def _keep(self, answers: dict[str, _T], key: str, found: _T) -> _T:
        if len(answers) < self._most or key in answers:
            answers[key] = found
        return found


def module_key(name: str, page: int, offset: int, length: int, address: int) -> str:
    """How a piece of a module's memory is called in an archive: "eth0/50/00/128+128"."""
    return f"{name}/{address:02x}/{page:02x}/{offset}+{length}"
