"""Modules of two ports where no map shows the leaf, by the names of their hosts (docs/methods.md#neighbours-by-name).

Ports 2k - 1 and 2k of a switch are one module, and hosts are cabled in their order. So two links that fail in the same
way, on the same port of hosts whose names follow each other, most likely share one, whenever they began. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fabricmon.engine.diagnosis.beginnings import Beginning
from fabricmon.engine.diagnosis.coincidence import poisson_tail
from fabricmon.engine.domains.row_domains import BY_NAME, RowDomains
from fabricmon.forms.natural import natural

ODDS = 0.2
"""Odds of a module that fails against a link that does: by their priors (8.5 and 7.6 nats, group_modes.py and
causes.py), and one half for that both ports show it (design choice)."""
SURE = 0.9  # docs/methods.md#confidence
MOST = 64  # links that are compared with each other: more have another cause
WITHIN = 600.0
"""Seconds between the beginnings of both, and until they are found (design choice, as for what joins an unknown common
cause)."""


@dataclass(slots=True)
class NamedModule:
    """The two PORT rows of a module and the name of the first link; the wall time at which the first began, and its
    confidence."""

    rows: frozenset[int]
    link: str
    onset: float
    confidence: float


class ModulesByName:
    """Modules of one phenomenon, over time. One stays until both its links are well, or something else has one: another
    cause, or a verdict on more than the link."""

    def __init__(self) -> None:
        self._modules: list[NamedModule] = []

    def clear(self) -> None:
        self._modules.clear()

    def displace(self, rows: Collection[int]) -> None:
        """Forget modules with rows that stand for something else now."""
        self._modules = [module for module in self._modules if module.rows.isdisjoint(rows)]

    def of(
        self, units: Sequence[Beginning], held: Collection[int], rate: float, domains: RowDomains, now: float
    ) -> list[NamedModule]:
        """Those that fail now.

        units  what shows the phenomenon; held: rows that have another cause
        rate   beginnings a second of single parts by chance
        """
        single = [unit for unit in units if _is_link(unit)]
        bad = {row for unit in single for row in unit.rows}
        others = {row for unit in units if not _is_link(unit) for row in unit.rows} | set(held)
        self._modules = [m for m in self._modules if m.rows.isdisjoint(others) and not m.rows.isdisjoint(bad)]
        taken = {row for module in self._modules for row in module.rows} | others
        links = [unit for unit in single if not unit.unseen and unit.rows.isdisjoint(taken)]
        links = [unit for unit in links if now - unit.onset <= 2 * WITHIN]  # older ones are of no new module
        if not 1 < len(links) <= MOST:
            return list(self._modules)
        confidence = 1.0 / (1.0 + poisson_tail(1, rate * WITHIN) * _share(domains) / ODDS)
        if confidence >= SURE:
            onset = {row: unit.onset for unit in links for row in unit.rows}
            for pair in _side_by_side(sorted(onset), domains):
                begin, last = sorted(onset[row] for row in pair)
                if last - begin <= WITHIN and now - last <= WITHIN and taken.isdisjoint(pair):
                    link = _link(min(pair), domains)
                    self._modules.append(NamedModule(frozenset(pair), link, begin, confidence))
                    taken |= set(pair)
        return list(self._modules)


def is_module(units: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether these are two links that most likely share one module, and no more."""
    if len(units) != 2 or not all(_is_link(unit) and not unit.unseen for unit in units):
        return False
    return any(_side_by_side(sorted(row for unit in units for row in unit.rows), domains))


def _is_link(unit: Beginning) -> bool:
    """Whether it is one link of no known leaf, and no adapter or host that has one."""
    return unit.loose and len(unit.rows) == 1 and unit.verdict is not None and unit.verdict.domain == "link"


def _share(domains: RowDomains) -> float:
    """Chance that a link of no known leaf is beside a given one."""
    ids = domains.port.ids
    links = np.count_nonzero((ids["leaf"] < 0) & (ids["host"] >= 0) & (ids["link"] >= 0))
    return min(1.0, 2.0 * BY_NAME / max(1, int(links)))


def _side_by_side(rows: Sequence[int], domains: RowDomains) -> Iterator[tuple[int, int]]:
    """Pairs of PORT rows that are the same port of hosts whose names follow each other."""
    host = domains.port.ids["host"]
    ports = {row: _link(row, domains).partition("/")[2] for row in rows}
    for order in domains.orders_of_hosts()[:BY_NAME]:
        at = {(int(order[host[row]]), ports[row]): row for row in rows}
        for (place, port), row in at.items():
            other = at.get((place + 1, port))
            if other is not None and _follow(domains.host(row), domains.host(other)):
                yield row, other


def _link(row: int, domains: RowDomains) -> str:
    return domains.names["link"][int(domains.port.ids["link"][row])]


def _follow(name: str, other: str) -> bool:
    """Whether two names may be of hosts beside each other: they have the same parts, numbers that differ by one at most
    and words of the same length. A host without an agent may be between node-5 and node-7."""
    mine, its = natural(name), natural(other)
    return len(mine) == len(its) and all(map(_is_next, mine, its))


def _is_next(part: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    """Of parts of two names as `natural` has them: whether it is a word, and its text."""
    (is_word, _, text), (also, _, its) = part, other
    if is_word != also:
        return False
    return len(text) == len(its) if is_word else abs(_number(text) - _number(its)) <= 1


def _number(digits: str) -> int:
    return int(digits[:18] or "0")
