"""Builds a placement: the switches above each host, without ports. Shared by schedulers' formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from fabricmon.topology.graph import Finding, Graph, Switch, trunk

NAMED_MOST = 64
"""Lines or names of one finding that are kept; the rest is counted."""


class Placement:
    """Collects switches, hosts and their order, as the file lists them; `graph()` closes it."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, str]] = {}
        self.stated: dict[str, str] = {}
        self._switches: dict[str, Switch] = {}
        self._attached: dict[str, dict[str, None]] = {}
        self._trunks: dict[tuple[str, str], None] = {}
        self._odd: dict[str, list[str]] = {}
        self._count: Counter[str] = Counter()
        self._defined: set[str] = set()
        self._children: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self._switches) + len(self.hosts)

    def switch(self, key: str, name: str = "", level: int = -1, labels: dict[str, str] | None = None) -> None:
        """Add a switch; a second time, the first name and the first known level stay."""
        before = self._switches.get(key)
        if before is None:
            self._switches[key] = Switch(key, name or key, level, labels=labels or {})
        elif before.level < 0 <= level:
            self._switches[key] = Switch(key, before.name, level, labels={**(labels or {}), **before.labels})

    def claim(self, name: str, where: str) -> None:
        """Note that a name is defined here; a second time is a conflict."""
        if name in self._defined:
            self.odd("conflicting_record", f"{where}: {name} is defined twice")
        self._defined.add(name)

    def define(self, name: str, members: Sequence[str], below: Sequence[str], where: str, title: str = "") -> None:
        """Add a switch with the hosts and the switches below it; `graph` joins the latter."""
        self.claim(name, where)
        self.switch(name, title, 0 if members else -1)
        for host in members:
            self.attach(host, name)
        self._children += [(name, child) for child in below]

    def host(self, name: str, **labels: str) -> None:
        """Add a host and its labels; a label with another value than before is a conflict, the first stays."""
        known = self.hosts.setdefault(name, {})
        for key, value in labels.items():
            if known.setdefault(key, value) != value:
                self.odd("conflicting_record", f"{name}: {key} is {known[key]} and {value}")

    def attach(self, host: str, switch: str) -> None:
        self.host(host)
        self._attached.setdefault(host, {})[switch] = None

    def join(self, one: str, other: str) -> None:
        if one == other:
            self.odd("conflicting_record", f"{one} is below itself")
        else:
            self._trunks[trunk(one, other)] = None

    def odd(self, kind: str, text: str) -> None:
        """Add a line to a finding; the first ones are kept."""
        self._count[kind] += 1
        if len(self._odd.setdefault(kind, [])) < NAMED_MOST:
            self._odd[kind].append(text)

    def graph(self, titles: Mapping[str, str] | None = None) -> Graph:
        """The graph. `titles`: true names of switches that are only mentioned as a child."""
        for name, child in self._children:
            if child not in self._defined:
                self.odd("undefined_switch", child)
                self._defined.add(child)
            self.switch(child, (titles or {}).get(child, ""))
            self.join(name, child)
        for host, switches in self._attached.items():
            if len(switches) > 1:
                named = ", ".join(islice(switches, NAMED_MOST))
                self.odd("split_host", f"{host}: {named}{' and more' if len(switches) > NAMED_MOST else ''}")
        words = {
            "unread_line": "lines could not be parsed",
            "conflicting_record": "records contradict each other",
            "undefined_switch": "switches are named as child or parent, but not defined",
            "split_host": "hosts are below several switches",
        }
        findings = tuple(
            Finding(kind, tuple(named), f"{self._count[kind]} {words.get(kind, kind)}")
            for kind, named in self._odd.items()
        )
        attached = {host: tuple(switches) for host, switches in self._attached.items()}
        return Graph(
            self._switches, {}, (), self.hosts, findings=findings, attached=attached, trunks=tuple(self._trunks),
            stated=self.stated,
        )  # fmt: skip
