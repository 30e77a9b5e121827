"""Which causes explain the open symptoms: the noisy-OR of detection-methods section 4 over the fault domains. Pure.

Only groups that contain a positive symptom become candidates, so the cost grows with what is wrong and not with the
fabric; counting observed members is the one pass over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, log10

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.causes import LEAK, MODES, SILENCE_FLOOR, Mode
from fabricmon.engine.search import Floats, Ints, Problem, Search
from fabricmon.topology.paths import Many

Mask = NDArray[np.bool_]

AMBIGUOUS = log(10.0)  # 4.4: alternatives within ln 10 of the verdict cannot be told apart from it
UNLIKELY = 5  # alternatives beyond AMBIGUOUS that a verdict keeps
SINGLE = ("link", "nic", "gpu", "pcie", "host")
"""Domains of what fails by itself, the finest first."""
DECIBAN = 10.0 / log(10.0)  # decibans per nat


@dataclass(slots=True)
class Groups:
    """Group ids of the rows of one table. The same domain has one numbering in all tables.

    ids   domain -> int32[n], -1 none
    many  domain -> groups of rows that may be in several of it, as a flow is; such a domain is not in `ids`
    """

    ids: Mapping[str, NDArray[np.int32]]
    many: Mapping[str, Many] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        first = next(iter(self.ids.values()), None)
        return len(first) if first is not None else len(next(iter(self.many.values()), ()))

    def __contains__(self, domain: str) -> bool:
        return domain in self.ids or domain in self.many


@dataclass(slots=True)
class Facts:
    """One symptom type: who shows it, who could.

    groups  of the table's rows
    rows    int[k], rows that show the symptom, each once
    onset   float[k], wall time at which it began
    known   bool[n], rows that would show it if they had it; others are unobserved and count for nothing
    """

    groups: Groups
    rows: Ints
    onset: Floats
    known: Mask


@dataclass(frozen=True, slots=True)
class Alternative:
    mode: Mode
    group: int
    gain: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """An active component.

    modes       its active modes, the one with the greatest gain first
    confidence  4.4, all modes of the component and of its ambiguity group together
    alone       the component's share of it
    gain        nats by which the hypothesis is better with the first mode than without
    explained   symptom type -> rows
    onset       earliest onset among them
    silent      symptom type -> observed members that speak against it
    rivals      ambiguity group, best first: other components within ln 10
    best_other  the best alternative of another component, near or not
    unlikely    other components that would explain all of it, beyond ln 10; best first, at most UNLIKELY
    apart       causes of single members that would explain it together, and nats by which that is worse; None: one
                cause of a single member, or nothing else was found
    seen        peers saw it, too: they lose packets towards it
    effects     symptom type -> rows that are members of something else and show what this cause does to them
    """

    modes: tuple[Mode, ...]
    group: int
    confidence: float
    alone: float
    gain: float
    explained: Mapping[str, Ints]
    onset: float
    silent: Mapping[str, int]
    rivals: tuple[Alternative, ...]
    best_other: Alternative | None
    effects: Mapping[str, Ints] = field(default_factory=dict)
    seen: bool = False
    unlikely: tuple[Alternative, ...] = ()
    apart: tuple[int, float] | None = None

    @property
    def domain(self) -> str:
        return self.modes[0].domain

    @property
    def decibans(self) -> float:
        return self.gain * DECIBAN


def silence_leak(power: NDArray[np.int32], silent: Mask, usual: float = 0.0) -> float:
    """Base rate of silent agents: the running median of the share (`usual`), or the (lower) median share of the
    power domains now if that is more (3.9, 4.2), never below SILENCE_FLOOR.

    The median of the domains follows a silence that is everywhere at once and ignores the domain that went dark.

    power   int32[n], power domain of each node, -1 none
    silent  bool[n]
    """
    placed = power >= 0
    rate = max(SILENCE_FLOOR, usual)
    if placed.any():
        size = np.bincount(power[placed])
        dark = np.bincount(power[placed], silent[placed], len(size))
        shares = np.sort((dark / np.maximum(size, 1))[size > 0])
        rate = max(rate, float(shares[(len(shares) - 1) // 2]))
    return min(rate, 0.99)


def diagnose(facts: Mapping[str, Facts], silence: float, modes: Sequence[Mode] = MODES) -> list[Verdict]:
    """The components that most probably are broken, greatest gain first; what no cause explains is left out.

    silence  base rate of silent agents (`silence_leak`)
    """
    case = Candidates(facts, silence, modes)
    if not len(case.problem.cost):
        return []
    search = Search(case.problem)
    chosen = search.run()
    return case.verdicts(search, chosen)


class Candidates:
    """The candidates of one diagnosis and what they were made of."""

    def __init__(self, facts: Mapping[str, Facts], silence: float, modes: Sequence[Mode]) -> None:
        self.facts = facts
        self.modes = modes
        self.types = [t for t in facts if len(facts[t].rows)]
        sizes = [len(facts[t].rows) for t in self.types]
        self.base = dict(zip(self.types, np.concatenate(([0], np.cumsum(sizes))).tolist(), strict=False))
        self.onset = np.concatenate([facts[t].onset for t in self.types]) if self.types else np.empty(0)
        self.kind_of = np.repeat(np.arange(len(self.types)), np.array(sizes, np.int64))
        self._observed: dict[tuple[str, str], tuple[Floats, Floats]] = {}
        self.mode: list[Mode] = []
        self.group: list[int] = []
        cost: list[Floats] = []
        cause: list[Ints] = []
        positive: list[Ints] = []
        weight: list[Floats] = []
        for mode in modes:
            groups, price, owner, at, w = self._candidates(mode)
            cause.append(owner + len(self.mode))
            self.mode.extend([mode] * len(groups))
            self.group.extend(groups.tolist())
            cost.append(price)
            positive.append(at)
            weight.append(w)
        leak = np.array([silence if t == "AM" else LEAK[t] for t in self.types], np.float64)[self.kind_of]
        self.problem = Problem(
            _floats(cost), leak, _ints(cause), _ints(positive), _floats(weight)
        )

    def counts(self, kind: str, domain: str, groups: Ints) -> tuple[Floats, Floats]:
        """Of some groups of a domain: members observed for a symptom type, and members that show it."""
        facts = self.facts[kind]
        many = facts.groups.many.get(domain)
        if many is not None:
            shows = np.zeros(len(many), np.bool_)
            shows[facts.rows] = True
            return many.count(groups, facts.known), many.count(groups, shows)
        ids = facts.groups.ids[domain]
        key = kind, domain
        if key not in self._observed:
            number = int(ids.max(initial=-1)) + 1
            seen = np.bincount(ids[facts.known] + 1, minlength=number + 1)[1:].astype(np.float64)
            shown = np.bincount(ids[facts.rows] + 1, minlength=number + 1)[1:].astype(np.float64)
            self._observed[key] = seen, shown
        seen, shown = self._observed[key]
        inside = groups < len(seen)
        at = np.where(inside, groups, 0)
        none = np.zeros(len(groups))
        return (np.where(inside, seen[at], 0.0), np.where(inside, shown[at], 0.0)) if len(seen) else (none, none)

    def _candidates(self, mode: Mode) -> tuple[Ints, Floats, Ints, Ints, Floats]:
        """Groups a mode could strike, their costs, and the edges (owner, positive, weight)."""
        hit: list[Ints] = []
        at: list[Ints] = []
        weight: list[Floats] = []
        for kind, q in mode.q.items():
            if kind in self.base and mode.domain in self.facts[kind].groups:
                facts = self.facts[kind]
                many = facts.groups.many.get(mode.domain)
                if many is not None:
                    there, found = many.of(facts.rows)
                else:
                    mine = facts.groups.ids[mode.domain][facts.rows].astype(np.int64)
                    there = np.flatnonzero(mine >= 0)
                    found = mine[there]
                hit.append(found)
                at.append(there + self.base[kind])
                weight.append(np.full(len(there), -log(1.0 - q)))
        group, where, w = _ints(hit), _ints(at), _floats(weight)
        if not len(group):
            return group, w, group, where, w
        groups, owner = np.unique(group, return_inverse=True)
        if mode.together < np.inf:
            near = np.abs(self.onset[where] - _medians(self.onset[where], owner)[owner]) <= mode.together
            group, where, w = group[near], where[near], w[near]
        groups, owner = np.unique(group, return_inverse=True)
        number = np.bincount(owner, minlength=len(groups))
        price, observed = np.full(len(groups), mode.cost), np.zeros(len(groups))
        for kind, q in mode.q.items():
            if kind in self.facts and mode.domain in self.facts[kind].groups:
                seen, shown = self.counts(kind, mode.domain, groups)
                price -= log(1.0 - q) * np.maximum(seen - shown, 0.0)
                observed += np.maximum(seen, shown)
        fit = (number >= mode.least) & (number >= mode.share * observed)
        if mode.sign:
            shows = np.array([kind == mode.sign for kind in self.types], np.bool_)[self.kind_of[where]]
            count = np.bincount(owner[shows], minlength=len(groups))
            fit &= count >= mode.signs
            if mode.most and mode.sign in self.facts and len(groups):
                members = self.facts[mode.sign].groups.ids[mode.domain]
                size = np.bincount(members + 1, minlength=int(groups[-1]) + 2)[1:][groups]
                fit &= count >= mode.most * size
        renumber = np.cumsum(fit) - 1
        keep = fit[owner]
        return groups[fit], price[fit], renumber[owner[keep]], where[keep], w[keep]

    def verdicts(self, search: Search, chosen: list[int]) -> list[Verdict]:
        by_component: dict[tuple[str, int], list[tuple[float, int]]] = {}
        rivals_of: dict[int, tuple[Ints, Floats]] = {}
        if not chosen:
            return []
        members, rivals, gains = search.rivalry()
        starts = np.searchsorted(members, chosen)
        ends = np.searchsorted(members, chosen, side="right")
        for member, start, end in zip(chosen, starts.tolist(), ends.tolist(), strict=True):
            rivals_of[member] = rivals[start:end], gains[start:end]
            own = float(gains[start:end][rivals[start:end] == member][0])
            by_component.setdefault((self.mode[member].word, self.group[member]), []).append((own, member))
        found = [self._verdict(sorted(members, reverse=True), rivals_of) for members in by_component.values()]
        return sorted(found, key=lambda v: (-v.gain, v.modes[0].name, v.group))

    def _verdict(
        self, members: list[tuple[float, int]], rivals_of: Mapping[int, tuple[Ints, Floats]]
    ) -> Verdict:
        own, first = members[0]
        mine = self.mode[first].word, self.group[first]
        rivals, gain = rivals_of[first]
        top = max(float(gain.max()), 0.0)
        total = exp(-top) + float(np.exp(gain - top).sum())
        best: dict[tuple[str, int], Alternative] = {}
        whole: set[tuple[str, int]] = set()
        mine_at = self.problem.positive[self.problem.edges(first)]
        alone = together = 0.0
        for rival, g in zip(rivals.tolist(), gain.tolist(), strict=True):
            component = self.mode[rival].word, self.group[rival]
            if component == mine:
                alone += exp(g - top)
            elif component not in best or best[component].gain < g:
                best[component] = Alternative(self.mode[rival], self.group[rival], g)
                theirs = self.problem.positive[self.problem.edges(rival)]
                if len(theirs) >= len(mine_at) and np.isin(mine_at, theirs).all():
                    whole.add(component)
            if component == mine or g >= own - AMBIGUOUS:
                together += exp(g - top)
        others = sorted(best.values(), key=lambda a: (-a.gain, a.mode.name, a.group))
        explained: dict[str, list[int]] = {}
        for _, member in members:
            for at in self.problem.positive[self.problem.edges(member)].tolist():
                kind = self.types[self.kind_of[at]]
                explained.setdefault(kind, []).append(at)
        every = sorted({at for found in explained.values() for at in found})
        silent = {}
        for kind in self.mode[first].q:
            if kind in self.facts and self.mode[first].domain in self.facts[kind].groups:
                seen, shown = self.counts(kind, self.mode[first].domain, np.array([mine[1]]))
                silent[kind] = int(max(0.0, seen[0] - shown[0]))
        return Verdict(
            modes=tuple(self.mode[member] for _, member in members),
            group=mine[1],
            confidence=min(1.0, together / total),
            alone=min(1.0, alone / total),
            gain=own,
            explained={
                kind: self.facts[kind].rows[np.unique(found) - self.base[kind]] for kind, found in explained.items()
            },
            onset=float(self.onset[every].min()),
            silent=silent,
            rivals=tuple(a for a in others if a.gain >= own - AMBIGUOUS),
            best_other=others[0] if others else None,
            unlikely=tuple(
                a for a in others if a.gain < own - AMBIGUOUS and (a.mode.word, a.group) in whole
            )[:UNLIKELY],
            apart=_apart(others, own) if len(mine_at) > 1 else None,
        )


def _apart(others: Sequence[Alternative], own: float) -> tuple[int, float] | None:
    """Members that fail each by itself, against one cause of all: how many, and nats by which that is worse."""
    for domain in SINGLE:
        single = [a.gain for a in others if a.mode.domain == domain]
        if len(single) > 1:
            behind = own - sum(max(0.0, gain) for gain in single)
            return (len(single), behind) if behind > AMBIGUOUS else None
    return None


def unexplained(facts: Mapping[str, Facts], verdicts: Sequence[Verdict]) -> dict[str, Ints]:
    """Symptom type -> positive rows that no verdict explains."""
    left: dict[str, Ints] = {}
    for kind, found in facts.items():
        covered = [v.explained[kind] for v in verdicts if kind in v.explained]
        rest = np.setdiff1d(found.rows, np.concatenate(covered)) if covered else found.rows
        if len(rest):
            left[kind] = rest
    return left


def odds_text(verdict: Verdict) -> str:
    """The evidence in the unit of 4.5: "gain 12.3 nats (53 dB)"; dB are decibans."""
    return f"gain {verdict.gain:.1f} nats ({verdict.decibans:.0f} decibans, odds 10^{verdict.gain * log10(np.e):.0f})"


def _medians(values: Floats, owner: Ints) -> Floats:
    """Median of the values of each owner (the lower one of an even number, so that it is a value that occurs)."""
    order = np.lexsort((values, owner))
    count = np.bincount(owner)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    return np.asarray(values[order][start + (count - 1) // 2])


def _floats(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)


def _ints(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
