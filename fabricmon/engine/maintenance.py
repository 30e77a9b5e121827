"""Which announced work covers what, now. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fabricmon.model import Maintenance


class Windows:
    """The announced windows; names with `*` are compiled once."""

    def __init__(self, windows: Sequence[Maintenance] = ()) -> None:
        self.all = tuple(windows)
        self._hosts = {w.id: _pattern(w.hosts) for w in self.all}
        self._components = {w.id: _pattern(w.components) for w in self.all}

    def active(self, now: float) -> list[Maintenance]:
        return [w for w in self.all if w.starts <= now < w.ends]

    def hosts(self, now: float, nodes: Iterable[str]) -> dict[str, str]:
        """Covered node -> id of the window."""
        active = [(w.id, pattern) for w in self.active(now) if (pattern := self._hosts[w.id]) is not None]
        if not active:
            return {}
        return {node: id for node in nodes for id, pattern in active if pattern.fullmatch(node)}

    def covering(self, now: float, component: str, hosts: frozenset[str]) -> str:
        """Id of the window that covers a component: by its name, or because it covers every host concerned."""
        for window in self.active(now):
            named, of_hosts = self._components[window.id], self._hosts[window.id]
            if named is not None and named.fullmatch(component):
                return window.id
            if of_hosts is not None and hosts and all(of_hosts.fullmatch(host) for host in hosts):
                return window.id
        return ""


def _pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """One expression for names in which `*` stands for any characters; None where there are none."""
    if not names:
        return None
    return re.compile("|".join(".*".join(re.escape(piece) for piece in name.split("*")) for name in names))
