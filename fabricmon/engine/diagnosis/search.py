"""The most probable set of causes: greedy with incremental gains, then local search (docs/methods.md#search). Pure.

What is maximised is F(H) of docs/methods.md#noisy-or; a candidate's cost is -logit of its prior and the sum of w over
its observed silent members, which does not depend on the rest of H."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

import numpy as np

from fabricmon.engine.domains.groups import Floats, Ints, Mask

CAP = 0.9
PASSES = 6
CONTESTED = 256  # members tried per pass of the local search
FORCED = 48  # causes of several symptoms that are tried per pass


@dataclass(slots=True)
class NoisyOrProblem:
    """C candidates, n positive symptoms, E edges between them.

    cost      float[C], prior and silent members
    leak      float[n], probability of the symptom without a cause
    cause     int[E], candidate of the edge
    positive  int[E], symptom of the edge; a pair occurs once
    weight    float[E], w of the edge
    sort      int[C], number of the failure mode that each candidate is of
    """

    cost: Floats
    leak: Floats
    cause: Ints
    positive: Ints
    weight: Floats
    sort: Ints
    _by_cause: Ints = field(init=False)
    _start: Ints = field(init=False)
    _by_positive: Ints = field(init=False)
    _touch: Ints = field(init=False)
    _base: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._by_cause = np.argsort(self.cause, kind="stable")
        self._start = np.searchsorted(self.cause[self._by_cause], np.arange(len(self.cost) + 1))
        self._by_positive = np.argsort(self.positive, kind="stable")
        self._touch = np.searchsorted(self.positive[self._by_positive], np.arange(len(self.leak) + 1))
        self._base = -np.log1p(-self.leak)
        self._base.flags.writeable = False

    def base(self) -> Floats:
        return self._base

    def edges(self, candidate: int) -> Ints:
        return self._by_cause[self._start[candidate] : self._start[candidate + 1]]

    def rivals(self, candidate: int) -> Ints:
        """Candidates that share a positive symptom with this one, including it."""
        mine = self.positive[self.edges(candidate)]
        return np.asarray(np.unique(self.cause[self._by_positive[_ranges(self._touch[mine], self._touch[mine + 1])]]))

    def gains(self, candidates: Ints, u: Floats) -> Floats:
        """Gain in nats of adding each of some candidates to the hypothesis that made `u`."""
        starts, ends = self._start[candidates], self._start[candidates + 1]
        edges = self._by_cause[_ranges(starts, ends)]
        owner = np.repeat(np.arange(len(candidates)), ends - starts)
        return self._gain(edges, owner, len(candidates), u) - self.cost[candidates]

    def all_gains(self, u: Floats) -> Floats:
        return self._gain(slice(None), self.cause, len(self.cost), u) - self.cost

    def _gain(self, edges: Ints | slice, owner: Ints, count: int, u: Floats) -> Floats:
        before = u[self.positive[edges]]
        rise = _explained(before + self.weight[edges]) - _explained(before)
        return np.bincount(owner, rise, count).astype(np.float64)


def _explained(u: Floats) -> Floats:
    return np.asarray(np.log(np.minimum(-np.expm1(-u), CAP)))


def _ranges(starts: Ints, ends: Ints) -> Ints:
    """Concatenated aranges."""
    length = ends - starts
    total = int(length.sum())
    if not total:
        return np.empty(0, np.int64)
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(length)[:-1])), length)
    return np.asarray(np.arange(total) + shift)


class Search:
    """A hypothesis and what it explains. `members` are candidate numbers; `u` is float[n]."""

    def __init__(self, problem: NoisyOrProblem) -> None:
        self.problem = problem
        self.u = problem.base().copy()
        self.members: set[int] = set()

    def run(self) -> list[int]:
        """The hypothesis with the greatest F that the search finds, as sorted candidate numbers."""
        self._greedy()
        for _ in range(PASSES):
            if not (self._swap() | self._force()):
                break
            self._greedy()
        return sorted(self.members)

    def score(self) -> float:
        return float(_explained(self.u).sum() - self.problem.cost[list(self.members)].sum())

    def without(self, member: int) -> Floats:
        """`u` of the hypothesis less one member. Computed from its remaining causes, so that no error piles up."""
        u = self.u.copy()
        self._take_off(member, u)
        return u

    def rivalry(self) -> tuple[Ints, Ints, Floats]:
        """Every member against every candidate that could take its place: (member, candidate, gain of the candidate
        in the hypothesis without the member), sorted by member and candidate; the member itself is among them.
        """
        p, n, size = self.problem, len(self.problem.leak), len(self.problem.cost)
        inside = self._inside()
        mine = np.flatnonzero(inside[p.cause])
        starts, ends = p._touch[p.positive[mine]], p._touch[p.positive[mine] + 1]
        there = p._by_positive[_ranges(starts, ends)]
        pair = np.unique(np.repeat(p.cause[mine], ends - starts) * size + p.cause[there])
        member, rival = pair // size, pair % size
        keep = ~inside[rival] | (member == rival)
        member, rival = member[keep], rival[keep]

        starts, ends = p._start[rival], p._start[rival + 1]
        edges = p._by_cause[_ranges(starts, ends)]
        owner = np.repeat(np.arange(len(rival)), ends - starts)
        known = p.cause[mine] * n + p.positive[mine]
        order = np.argsort(known)
        asked = member[owner] * n + p.positive[edges]
        at = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
        shared = known[order][at] == asked
        base = p.base()[p.positive[edges]]
        taken_off = np.where(shared, p.weight[mine][order][at], 0.0)
        before = np.maximum(self.u[p.positive[edges]] - taken_off, base)
        rise = _explained(before + p.weight[edges]) - _explained(before)
        return member, rival, np.bincount(owner, rise, len(rival)) - p.cost[rival]

    def with_enough_of_their_own(self, least: Ints) -> list[int]:
        """The hypothesis, each member that shares symptoms replaced by the best alternative where fewer are its own
        than it takes: what another one explains is no evidence of it.

        least  int[C], symptoms that each candidate takes
        """
        for member in self._contested():
            u, mine = self.without(member), self.problem.positive[self.problem.edges(member)]
            own = int((u[mine] - self.problem.base()[mine] < 1e-9).sum())
            if 0 < own < least[member]:
                rivals = self.problem.rivals(member)
                rivals = rivals[(least[rivals] <= own) & ~self._inside()[rivals]]
                gain = self.problem.gains(rivals, u)
                self._drop(member)
                if len(rivals) and gain.max() > 0.0:
                    self._add(int(rivals[np.argmax(gain)]))
        return sorted(self.members)

    def _inside(self) -> Mask:
        inside = np.zeros(len(self.problem.cost), np.bool_)
        inside[list(self.members)] = True
        return inside

    def _add(self, candidate: int) -> None:
        edges = self.problem.edges(candidate)
        self.u[self.problem.positive[edges]] += self.problem.weight[edges]
        self.members.add(candidate)

    def _drop(self, member: int) -> None:
        self._take_off(member, self.u)
        self.members.discard(member)

    def _take_off(self, member: int, u: Floats) -> None:
        edges = self.problem.edges(member)
        at = self.problem.positive[edges]
        u[at] = np.maximum(u[at] - self.problem.weight[edges], self.problem.base()[at])

    def _greedy(self, banned: Set[int] = frozenset()) -> None:
        """Add the best candidate while its gain is positive; never a banned one.

        Candidates that are best at every symptom they touch are added together: F is submodular in H, so one at a time
        would end in the same hypothesis.
        """
        p = self.problem
        while True:
            gain = p.all_gains(self.u)
            gain[[*self.members, *banned]] = -np.inf
            if not (gain > 0.0).any():
                return
            rank = np.empty(len(gain), np.int64)
            rank[np.lexsort((-np.arange(len(gain)), gain))] = np.arange(len(gain))
            rank[gain <= 0.0] = -1
            best = np.full(len(p.leak), -1, np.int64)
            edge_rank = rank[p.cause]
            np.maximum.at(best, p.positive, edge_rank)
            pick = rank >= 0
            pick[p.cause[edge_rank < best[p.positive]]] = False
            for candidate in np.flatnonzero(pick):
                self._add(int(candidate))

    def _contested(self) -> list[int]:
        """Members that share a symptom with another member: only there can one exchange raise F after the greedy."""
        p = self.problem
        taken = self._inside()[p.cause]
        count = np.bincount(p.positive[taken], minlength=len(p.leak))
        return sorted(set(p.cause[taken & (count[p.positive] > 1)].tolist()))[:CONTESTED]

    def _swap(self) -> bool:
        """Replace a member by the best alternative, or by nothing, where that scores higher."""
        changed = False
        for member in self._contested():
            if member not in self.members:
                continue
            u = self.without(member)
            rivals = self.problem.rivals(member)
            gain = self.problem.gains(rivals, u)
            gain[[c in self.members and c != member for c in rivals.tolist()]] = -np.inf
            own = float(gain[rivals == member][0])
            top = int(np.argmax(gain))
            if max(float(gain[top]), 0.0) <= own + 1e-9:
                continue
            self._drop(member)
            if gain[top] > 0.0:
                self._add(int(rivals[top]))
            changed = True
        return changed

    def _force(self) -> bool:
        """Try hypotheses one large step away, completed by the greedy step: causes of one symptom each instead of a
        cause of many, other causes of many instead of it, a cause of many instead of all that overlap with it, or other
        causes instead of several of one sort.

        An exchange may lose where an exchange and an addition win: a leaf for its links, "leaf rebooting" against
        "leaf down and one of its cables flapping", a power domain against its hosts, five leaves against the two racks
        that each have some ports of every one.
        """
        p = self.problem
        reach = np.bincount(p.cause, minlength=len(p.cost))
        sorts, members = np.unique(p.sort[[m for m in self.members if reach[m] > 1]], return_counts=True)
        for sort in sorts[members > 1].tolist():
            alike = set(np.flatnonzero(p.sort == sort).tolist())
            if self._try(alike, alike):
                return True
        touched = np.zeros(len(p.leak), np.bool_)
        touched[p.positive[self._inside()[p.cause]]] = True
        near = np.unique(p.cause[touched[p.positive] & (reach[p.cause] > 1)])
        for candidate in near[np.argsort(-reach[near], kind="stable")][:FORCED].tolist():
            rivals = p.rivals(candidate).tolist()
            wide = {rival for rival in rivals if reach[rival] > 1}
            if candidate in self.members:
                if self._try(wide, wide) or self._try({candidate}, {candidate}):
                    return True
            elif self._try(set(rivals), set(), candidate):
                return True
        return False

    def _try(self, dropped: Set[int], banned: Set[int], added: int | None = None) -> bool:
        """Keep the hypothesis without some members, with another, completed by the greedy step, if it scores higher."""
        before, u, members = self.score(), self.u.copy(), set(self.members)
        for member in dropped & members:
            self._drop(member)
        if added is not None:
            self._add(added)
        self._greedy(banned)
        if self.score() > before + 1e-9:
            return True
        self.u, self.members = u, members
        return False
