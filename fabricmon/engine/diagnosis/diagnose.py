"""Which causes explain the open symptoms: the noisy-OR of docs/methods.md#noisy-or over the fault domains. Pure.

Only groups with a positive symptom become candidates, so the cost grows with the faults and not with the fabric;
counting observed members is the one pass over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import LEAK, Mode
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, RUNS
from fabricmon.engine.diagnosis.moments import down_with_others, medians, of_one_moment
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.search import NoisyOrProblem, Search
from fabricmon.engine.diagnosis.verdict import Alternative, FaultVerdict
from fabricmon.engine.diagnosis.waiting_everywhere import waiting_share
from fabricmon.engine.domains.groups import Floats, Ints, Mask

AMBIGUOUS = log(10.0)  # nats within which alternatives are ambiguous (docs/methods.md#confidence)
CERTAIN = 7.0  # w of a member of a partial mode: the share that shows it is in its cost
IN_SERIES = 4  # most cables in series that an incident names: between two hosts of two leaves are four (design choice)
UNLIKELY = 5  # alternatives beyond AMBIGUOUS that a verdict keeps
SINGLE = ("link", "nic", "gpu", "pcie", "host")
"""Domains of single members, the finest first."""


MOSTLY = 0.8
"""Share of the observed members from which a group fails as a whole, as of a power domain (causes.py)."""
SEVERAL = 3  # members of a small one from which a single other one is no evidence against it (design choice)


def diagnose(observations: Observations, silence: float, modes: Sequence[Mode] = HARD_MODES) -> list[FaultVerdict]:
    """The components that most probably are broken, greatest gain first.

    silence  base rate of silent agents (`silence_rate`)
    """
    candidates = Candidates(observations, silence, modes)
    if not len(candidates.problem.cost):
        return []
    search = Search(candidates.problem)
    search.run()
    least = np.array([mode.least for mode in candidates.mode], np.int64)
    return candidates.verdicts(search, search.with_enough_of_their_own(least))


class Candidates:
    """The candidates of one diagnosis and their observations."""

    def __init__(self, observations: Observations, silence: float, modes: Sequence[Mode]) -> None:
        self.observations = observations
        self.modes = modes
        self.types = [t for t in observations if len(observations[t].rows)]
        sizes = [len(observations[t].rows) for t in self.types]
        self.base = dict(zip(self.types, np.concatenate(([0], np.cumsum(sizes))).tolist(), strict=False))
        self.onset = np.concatenate([observations[t].onset for t in self.types]) if self.types else np.empty(0)
        self.before = np.concatenate([_before(observations[t]) for t in self.types]) if self.types else np.empty(0)
        self.row = _ints([observations[t].rows for t in self.types])
        self.kind_of = np.repeat(np.arange(len(self.types)), np.array(sizes, np.int64))
        self.times = np.sort(self.kind_of * APART + self.onset)
        self._observed: dict[tuple[SymptomType, str], tuple[Floats, Floats]] = {}
        self.mode: list[Mode] = []
        self.group: list[int] = []
        cost: list[Floats] = []
        cause: list[Ints] = []
        positive: list[Ints] = []
        weight: list[Floats] = []
        sort: list[int] = []
        for number, mode in enumerate(modes):
            groups, price, owner, at, w = self._candidates(mode)
            cause.append(owner + len(self.mode))
            self.mode.extend([mode] * len(groups))
            sort.extend([number] * len(groups))
            self.group.extend(groups.tolist())
            cost.append(price)
            positive.append(at)
            weight.append(w)
        leaks = LEAK | {SymptomType.AGENT_SILENT: silence, SymptomType.CONGESTION: waiting_share(observations)}
        leak = np.array([leaks[kind] for kind in self.types], np.float64)
        self.problem = NoisyOrProblem(
            _floats(cost), leak[self.kind_of], _ints(cause), _ints(positive), _floats(weight), np.array(sort, np.int64)
        )

    def counts(self, kind: SymptomType, domain: str, groups: Ints) -> tuple[Floats, Floats]:
        """Members of some groups that were observed for a symptom type, and members that show it."""
        observation = self.observations[kind]
        many = observation.groups.many.get(domain)
        if many is not None:
            shows = np.zeros(len(many), np.bool_)
            shows[observation.rows] = True
            return many.count(groups, observation.known), many.count(groups, shows)
        ids = observation.groups.ids[domain]
        key = kind, domain
        if key not in self._observed:
            number = int(ids.max(initial=-1)) + 1
            seen = np.bincount(ids[observation.known] + 1, minlength=number + 1)[1:].astype(np.float64)
            shown = np.bincount(ids[observation.rows] + 1, minlength=number + 1)[1:].astype(np.float64)
            self._observed[key] = seen, shown
        seen, shown = self._observed[key]
        inside = groups < len(seen)
        at = np.where(inside, groups, 0)
        none = np.zeros(len(groups))
        return (np.where(inside, seen[at], 0.0), np.where(inside, shown[at], 0.0)) if len(seen) else (none, none)

    def _candidates(self, mode: Mode) -> tuple[Ints, Floats, Ints, Ints, Floats]:
        """Groups that a mode could affect, their costs, and the edges (owner, positive, weight)."""
        group, where, weight = self._edges(mode)
        if not len(group):
            return group, weight, group, where, weight
        if mode.whole:
            inside = self._in_wholes(mode, where)
            group, where, weight = group[inside], where[inside], weight[inside]
        if mode.together < np.inf:
            _, owner = np.unique(group, return_inverse=True)
            middle = medians(self.onset[where], owner)[owner]
            near = (self.onset[where] >= middle - mode.together) & (self.before[where] <= middle + mode.together)
            near &= self._of_one_moment(owner, where) & ~self._of_others(mode, owner, where)
            group, where, weight = group[near], where[near], weight[near]
        groups, owner = np.unique(group, return_inverse=True)
        number = np.bincount(owner, minlength=len(groups))
        if mode.partial:
            price, number, observed = self._partly(mode, groups, owner, where)
            weight = np.full(len(where), CERTAIN)
        else:
            price, observed = self._mostly(mode, groups)
        price += self._coincidence(len(groups), owner, where)
        fit = (number >= mode.least) & (number >= mode.share * observed)
        if mode.sign is not None:
            fit &= self._signed(mode.sign, mode, groups, owner, where)
        renumber = np.cumsum(fit) - 1
        keep = fit[owner]
        return groups[fit], price[fit], renumber[owner[keep]], where[keep], weight[keep]

    def _of_one_moment(self, owner: Ints, where: Ints) -> Mask:
        """Whether each positive may be of its owner: not a host that fell silent at another moment than most."""
        kept, silent = np.ones(len(where), np.bool_), SymptomType.AGENT_SILENT
        if silent in self.types:
            at = np.flatnonzero(self.kind_of[where] == self.types.index(silent))
            place = self.observations[silent].place
            mine = None if place is None else place[:, where[at] - self.base[silent]]
            kept[at] = of_one_moment(self.onset[where[at]], owner[at], mine)
        return kept

    def _of_others(self, mode: Mode, owner: Ints, where: Ints) -> Mask:
        """Whether each positive is a link that went down with others than its owner's; what flaps is down at any of
        its moments."""
        found, down = np.zeros(len(where), np.bool_), SymptomType.LINK_DOWN
        if down in self.types and mode.sign is not SymptomType.LINK_FLAPPING:
            number = self.types.index(down)
            at = np.flatnonzero(self.kind_of[where] == number)
            mine, every = where[at], np.sort(self.onset[self.kind_of == number])
            found[at] = down_with_others(self.onset[mine], self.before[mine], owner[at], every)
        return found

    def _coincidence(self, groups: int, owner: Ints, where: Ints) -> Floats:
        """Nats that each cause costs because symptoms of its types began elsewhere at its moment
        (docs/methods.md#coincidence): of k like causes that would all be chance, k - 1 cost COINCIDENCE."""
        kinds, onset = len(self.types), self.onset[where]
        which, of = np.unique(owner * kinds + self.kind_of[where], return_inverse=True)
        middle = medians(onset, of)
        at = which % kinds * APART + middle
        near = np.searchsorted(self.times, at + POLL, "right") - np.searchsorted(self.times, at - POLL)
        elsewhere = near - np.bincount(of, np.abs(onset - middle[of]) <= POLL)
        found = np.zeros(groups)
        np.maximum.at(found, which // kinds, COINCIDENCE * elsewhere / (elsewhere + np.bincount(of)))
        return found

    def _in_wholes(self, mode: Mode, where: Ints) -> Mask:
        """Whether each positive is in a group of `mode.whole` of which MOSTLY all observed members show the mode, or
        all of several but one, which may be filed there wrongly, and one at least its sign."""
        kinds = [kind for kind in mode.q if self._has(kind, mode.whole)]
        ids = self.observations[kinds[0]].groups.ids[mode.whole]
        shows, known = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        for kind in kinds:
            shows[self.observations[kind].rows] = True
            known |= self.observations[kind].known
        of = ids[self.row[where]]
        shown, seen = np.bincount(ids[shows] + 1)[of + 1], np.bincount(ids[shows | known] + 1)[of + 1]
        inside = (of >= 0) & ((shown >= MOSTLY * seen) | ((shown >= SEVERAL) & (seen - shown <= 1)))
        if mode.sign is not None:
            signed = self.observations[mode.sign].rows if mode.sign in self.observations else np.empty(0, np.int64)
            inside &= np.isin(of, ids[signed])
        return np.asarray(inside)

    def _mostly(self, mode: Mode, groups: Ints) -> tuple[Floats, Floats]:
        """Cost of a mode that each member shows with a known probability; observed members, summed over its types."""
        price, observed = np.full(len(groups), mode.cost), np.zeros(len(groups))
        for kind, q in mode.q.items():
            if self._has(kind, mode.domain):
                seen, shown = self.counts(kind, mode.domain, groups)
                price -= log(1.0 - q) * np.maximum(seen - shown, 0.0)
                observed += np.maximum(seen, shown)
        return price, observed

    def _partly(self, mode: Mode, groups: Ints, owner: Ints, where: Ints) -> tuple[Floats, Ints, Floats]:
        """Cost of a mode that an unknown share of the members shows, members that show it, and observed ones.

        The marginal likelihood takes the place of the probability of each symptom (docs/methods.md#partial-modes).
        """
        pairs = np.unique(np.stack((owner, self.row[where])), axis=1)
        number = np.bincount(pairs[0], minlength=len(groups)).astype(np.int64)
        kinds = [kind for kind in mode.q if self._has(kind, mode.domain)]
        ids = self.observations[kinds[0]].groups.ids[mode.domain]
        fine = np.zeros(len(ids), np.bool_)
        for kind in kinds:
            fine |= self.observations[kind].known
        for kind in kinds:
            fine[self.observations[kind].rows] = False
        healthy = np.bincount(ids[fine] + 1, minlength=int(groups.max(initial=-1)) + 2)[1:][groups]
        price = mode.cost - log_marginal(number, number + healthy, mode.least)
        choice = self.observations[kinds[0]].groups.choice.get(mode.domain)
        if choice is not None:
            price += choice[groups]
        return price, number, (number + healthy).astype(np.float64)

    def _has(self, kind: SymptomType, domain: str) -> bool:
        """Whether the rows observed for a symptom type have groups of a domain."""
        return kind in self.observations and domain in self.observations[kind].groups

    def _edges(self, mode: Mode) -> tuple[Ints, Ints, Floats]:
        """Each positive symptom that a mode explains, with each group of its domain that it is in: group, positive,
        weight."""
        hit: list[Ints] = []
        at: list[Ints] = []
        weight: list[Floats] = []
        for kind, q in mode.q.items():
            if kind in self.base and self._has(kind, mode.domain):
                observation = self.observations[kind]
                many = observation.groups.many.get(mode.domain)
                if many is not None:
                    there, found = many.groups_of(observation.rows)
                else:
                    mine = observation.groups.ids[mode.domain][observation.rows].astype(np.int64)
                    there = np.flatnonzero(mine >= 0)
                    found = mine[there]
                hit.append(found)
                at.append(there + self.base[kind])
                weight.append(np.full(len(there), -log(1.0 - q)))
        return _ints(hit), _ints(at), _floats(weight)

    def _signed(self, sign: SymptomType, mode: Mode, groups: Ints, owner: Ints, where: Ints) -> Mask:
        """Groups with enough members that show the sign of a mode."""
        shows = np.array([kind == sign for kind in self.types], np.bool_)[self.kind_of[where]]
        count = np.bincount(owner[shows], minlength=len(groups))
        enough = count >= mode.signs
        if mode.most and sign in self.observations and len(groups):
            ids = self.observations[sign].groups.ids
            members, least = ids[mode.domain], int(groups[-1]) + 2
            size = np.bincount(members + 1, minlength=least)[1:][groups]
            placed = np.bincount(members[ids["leaf"] >= 0] + 1, minlength=least)[1:][groups]
            enough &= count >= mode.most * np.where(placed > 0, placed, size)
        return enough

    def verdicts(self, search: Search, chosen: list[int]) -> list[FaultVerdict]:
        if not chosen:
            return []
        by_component: dict[tuple[str, int], list[tuple[float, int]]] = {}
        rivals_of: dict[int, tuple[Ints, Floats]] = {}
        members, rivals, gains = search.rivalry()
        starts = np.searchsorted(members, chosen)
        ends = np.searchsorted(members, chosen, side="right")
        for member, start, end in zip(chosen, starts.tolist(), ends.tolist(), strict=True):
            rivals_of[member] = rivals[start:end], gains[start:end]
            own = float(gains[start:end][rivals[start:end] == member][0])
            by_component.setdefault((self.mode[member].family, self.group[member]), []).append((own, member))
        found = [self._of_component(sorted(members, reverse=True), rivals_of) for members in by_component.values()]
        return sorted(found, key=lambda v: (-v.gain, v.modes[0].name, v.group))

    def _of_component(
        self, members: list[tuple[float, int]], rivals_of: Mapping[int, tuple[Ints, Floats]]
    ) -> FaultVerdict:  # fmt: skip
        """The verdict on all causes of a component, the one with the greatest gain first."""
        whole = self._verdict(members, rivals_of)
        if any(self.mode[member].domain not in RUNS for _, member in members):
            return whole
        ports = [self._ports(member) for _, member in members]
        alone = [sum((own & other).any() for other in ports) == 1 for own in ports]
        rest = [one for one, apart in zip(members, alone, strict=True) if not apart]
        parts = [[one] if apart else rest for one, apart in zip(members, alone, strict=True) if apart or one is rest[0]]
        return replace(whole, apiece=tuple(self._verdict(part, rivals_of) for part in parts)) if parts[1:] else whole

    def _ports(self, member: int) -> Mask:
        """Rows of the group of a cause, whether they show anything or not."""
        domain, kinds = self.mode[member].domain, self.mode[member].q
        groups = next(self.observations[kind].groups for kind in kinds if self._has(kind, domain))
        return groups.ids[domain] == self.group[member]

    def _verdict(self, members: list[tuple[float, int]], rivals_of: Mapping[int, tuple[Ints, Floats]]) -> FaultVerdict:
        own, first = members[0]
        group, mode = self.group[first], self.mode[first]
        alone, together, others, whole = self._rivalry(first, own, *rivals_of[first])
        edges = [self.problem.positive[self.problem.edges(member)] for _, member in members]
        every = np.concatenate(edges)
        positive, types = np.unique(every), dict.fromkeys(self.kind_of[every].tolist())
        explained = {self.types[number]: positive[self.kind_of[positive] == number] for number in types}
        near = [a for a in others if a.gain >= own - AMBIGUOUS]
        series = _in_series(mode, own, [a for a in near if (a.mode.family, a.group) in whole])
        return FaultVerdict(
            modes=tuple(self.mode[member] for _, member in members),
            group=group,
            confidence=together * (1 - mode.harmless),
            alone=alone * (1 - mode.harmless),
            gain=own,
            explained={kind: self.observations[kind].rows[at - self.base[kind]] for kind, at in explained.items()},
            onset=float(self.onset[positive].min()),
            silent={
                kind: self._silent(kind, mode.domain, group)
                for kind in dict.fromkeys(kind for _, member in members for kind in self.mode[member].q)
                if self._has(kind, mode.domain)
            },
            rivals=tuple(near),
            series=tuple(a.group for a in series),
            best_other=next((a for a in others if a not in series), None),
            unlikely=tuple(a for a in others[len(near) :] if (a.mode.family, a.group) in whole)[:UNLIKELY],
            apart=_apart(others, own) if len(edges[0]) > 1 else None,
        )

    def _silent(self, kind: SymptomType, domain: str, group: int) -> int:
        """Observed members of a group that do not show a symptom."""
        seen, shown = self.counts(kind, domain, np.array([group]))
        return int(max(0.0, seen[0] - shown[0]))

    def _rivalry(
        self, first: int, own: float, rivals: Ints, gain: Floats
    ) -> tuple[float, float, list[Alternative], set[tuple[str, int]]]:
        """A member against its alternatives.

        Probability of its component alone, and with its ambiguity group; the other components, best first; and those
        among them that explain all that it explains.
        """
        mine = self.mode[first].family, self.group[first]
        mine_at = self.problem.positive[self.problem.edges(first)]
        top = max(float(gain.max()), 0.0)
        total = exp(-top) + float(np.exp(gain - top).sum())
        best: dict[tuple[str, int], Alternative] = {}
        whole: set[tuple[str, int]] = set()
        alone = together = 0.0
        for rival, g in zip(rivals.tolist(), gain.tolist(), strict=True):
            component = self.mode[rival].family, self.group[rival]
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
        return min(1.0, alone / total), min(1.0, together / total), others, whole


def _in_series(mode: Mode, own: float, near: Sequence[Alternative]) -> list[Alternative]:
    """The cables in series with a lossy one, of those that explain all that it does; none of too many."""
    same = [a for a in near if a.mode is mode and a.gain >= own - log(2)]
    return same if mode.domain == "link" and len(same) < IN_SERIES else []


POLL = 10.0
"""Seconds within which beginnings are simultaneous (docs/methods.md#learned-groups)."""
APART = 1e11
"""Seconds by which the times of two types are set apart in one sorted list."""
COINCIDENCE = log(60.0)
"""A fault of its own is open for ten minutes at least, until somebody mends it (design choice): 60 polls."""


def _before(observation: Observation) -> Floats:
    """Times from which on the symptoms may have begun."""
    onset = observation.onset
    return onset if observation.before is None else np.minimum(onset, observation.before)


def _apart(others: Sequence[Alternative], own: float) -> tuple[int, float] | None:
    """Independent faults of the members against one cause of all: their number, and nats by which that is worse."""
    for domain in SINGLE:
        single = [a.gain for a in others if a.mode.domain == domain]
        if len(single) > 1:
            behind = own - sum(max(0.0, gain) for gain in single)
            return (len(single), behind) if behind > AMBIGUOUS else None
    return None


def _floats(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)


def _ints(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
