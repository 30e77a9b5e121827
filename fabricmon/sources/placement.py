"""A placement being put together: which host hangs below which switch, without ports. Shared by schedulers' formats."""

from __future__ import annotations

from collections import Counter

from fabricmon.topology.graph import Finding, Graph, Switch, trunk

NAMED_MOST = 64
"""Lines or names of one finding that are kept; the rest is counted."""


class Placement:
    """Collects switches, hosts and what is below what, in file order; `graph()` closes it."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, str]] = {}
        self.stated: dict[str, str] = {}
        self._switches: dict[str, Switch] = {}
        self._attached: dict[str, list[str]] = {}
        self._trunks: dict[tuple[str, str], None] = {}
        self._odd: dict[str, list[str]] = {}
        self._count: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._switches) + len(self.hosts)

    def switch(self, key: str, name: str = "", level: int = -1, labels: dict[str, str] | None = None) -> None:
        """A switch; said twice, the first name and the first level that is one stay."""
        before = self._switches.get(key)
        if before is None:
            self._switches[key] = Switch(key, name or key, level, labels=labels or {})
        elif before.level < 0 <= level:
            self._switches[key] = Switch(key, before.name, level, labels={**(labels or {}), **before.labels})

    def host(self, name: str, **labels: str) -> None:
        """A host and labels of it; a label that is already there with another value is odd, the first stays."""
        known = self.hosts.setdefault(name, {})
        for key, value in labels.items():
            if known.setdefault(key, value) != value:
                self.odd("conflicting_record", f"{name}: {key} is {known[key]} and {value}")

    def attach(self, host: str, switch: str) -> None:
        self.host(host)
        if switch not in self._attached.setdefault(host, []):
            self._attached[host].append(switch)

    def join(self, one: str, other: str) -> None:
        if one == other:
            self.odd("conflicting_record", f"{one} is below itself")
        else:
            self._trunks[trunk(one, other)] = None

    def odd(self, kind: str, text: str) -> None:
        """Something to tell; the first ones are kept for the finding."""
        self._count[kind] += 1
        if len(self._odd.setdefault(kind, [])) < NAMED_MOST:
            self._odd[kind].append(text)

    def graph(self) -> Graph:
        for host, switches in self._attached.items():
            if len(switches) > 1:
                self.odd("split_host", f"{host}: {', '.join(switches)}")
        said = {
            "unread_line": "lines could not be understood",
            "conflicting_record": "records contradict each other",
            "undefined_switch": "switches are named as somebody's child or parent, but not defined",
            "split_host": "hosts are below several switches",
        }
        findings = tuple(
            Finding(kind, tuple(named), f"{self._count[kind]} {said.get(kind, kind)}")
            for kind, named in self._odd.items()
        )
        attached = {host: tuple(switches) for host, switches in self._attached.items()}
        return Graph(
            self._switches, {}, (), self.hosts, findings=findings, attached=attached, trunks=tuple(self._trunks),
            stated=self.stated,
        )  # fmt: skip
