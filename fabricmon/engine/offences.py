"""Repeat offenders: parts whose incidents come more than ten times as often as those of their like. Pure.

Method: detection-methods 3.10, Gamma-Poisson. The rates of like parts are Gamma with shape 1/2: most parts have nothing
in a year, a few have it often. Its mean is that of all other parts, so with e incidents expected of a part in the time
under watch, its median is 0.2275 e / (1/2), and after k incidents

    P(rate > times x median) = Q(k + 1/2, times x 0.2275 x (1 + 2 e))

with Q the upper regularised gamma function. Five incidents of one link make an offender where others have none.

What counts is known from the incidents themselves, so a restart forgets nothing that the store keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import erfc, exp, gamma, sqrt
from typing import NamedTuple

from fabricmon.engine.breaker import OPENED
from fabricmon.engine.case import Case
from fabricmon.model import Evidence, Incident, Members, Severity
from fabricmon.rules.repeat_offender import RULE, Params

KIND = "repeat_offender"
DAY = 86_400.0
HALF = 0.22746821155978656
"""Median of a Gamma distribution with shape 1/2 and rate 1."""
MOST = 20_000  # parts remembered; the longest quiet go first
EACH = 200  # incidents of one part that are remembered
OFFENDERS = 64  # told at one time, those with most incidents first
KINDS = frozenset({
    "link_down", "link_flapping", "link_errors", "link_degraded", "nic_fault", "pcie_degraded", "nvlink_down",
    "nvlink_degraded", "host_unreachable", "packet_loss",
})  # fmt: skip
"""Kinds of incident that are held against a part: broken hardware, not load, silence or configuration."""
WORDS = ("link", "nic", "gpu", "pcie", "host")


class Offence(NamedTuple):
    at: float
    kind: str


class Offences:
    """Offences of each part, by its word: "link(host-003/mlx5_1/1)" (without the far end), "host(host-003)"."""

    def __init__(self) -> None:
        self._of: dict[str, list[Offence]] = {}
        self._host: dict[str, str] = {}
        self._since = float("inf")
        self._cases: list[Case] = []
        self._stale = True
        self._until = float("-inf")

    def note(self, changed: Iterable[Incident], now: float) -> None:
        """Take over what opened, and give back what turned out to be part of something larger."""
        for incident in changed:
            part = _part(incident)
            if not part:
                continue
            openings: list[float] = []
            for entry in incident.history:
                if entry.change in OPENED:
                    openings.append(entry.at)
                elif entry.change == "absorbed" and openings:
                    self._drop(part, openings.pop())
            for at in openings:
                self._add(part, incident, at)
        self._since = min(self._since, now)

    def cases(self, parts: Mapping[str, int], params: Params, now: float) -> list[Case]:
        """The offenders now, looked at again when something was noted and once an hour.

        parts  word -> how many parts of that sort there are
        """
        if not self._stale and now < self._until:
            return self._cases
        self._stale, self._until = False, now + 3600.0
        oldest = now - float(params.window)
        for part in list(self._of):
            kept = [offence for offence in self._of[part] if offence.at >= oldest]
            if kept:
                self._of[part] = kept
            else:
                del self._of[part], self._host[part]
        counted = {part: _apart(found, float(params.apart)) for part, found in self._of.items()}
        self._cases = self._judged(counted, parts, params, now)
        return self._cases

    def _judged(
        self, counted: Mapping[str, list[Offence]], parts: Mapping[str, int], params: Params, now: float
    ) -> list[Case]:
        hosts: dict[str, list[Offence]] = {}
        for part, found in counted.items():
            if self._host[part] and not part.startswith("host("):
                hosts.setdefault(f"host({self._host[part]})", []).extend(found)
        every = dict(counted)
        for host, found in hosts.items():
            every[host] = _apart([*every.get(host, []), *found], float(params.apart))
        total: Counter[str] = Counter()
        for part, found in every.items():
            total[_word(part)] += len(found)
        days = max(1.0, (now - max(self._since, now - float(params.window))) / DAY)
        told: dict[str, Case] = {}
        for part, found in sorted(every.items(), key=lambda item: (-len(item[1]), item[0])):
            word = _word(part)
            like = max(parts.get(word, 1), 2)
            expected = (total[word] - len(found) + 0.5) / (like - 1)
            sure = certainty(len(found), expected, params.times)
            if sure <= params.certainty or len(told) >= OFFENDERS:
                continue
            told[part] = _case(part, found, sure, expected, days, params)
        # a host is told where it is more than the one part that is told already
        return [
            case
            for part, case in told.items()
            if not part.startswith("host(")
            or not any(
                f"host({self._host.get(other, '')})" == part and 5 * len(every[other]) >= 4 * len(every[part])
                for other in told
                if other != part
            )
        ]

    def _add(self, part: str, incident: Incident, at: float) -> None:
        found = self._of.setdefault(part, [])
        self._host[part] = incident.labels.get("node", "")
        if not any(offence.at == at for offence in found):
            found.append(Offence(at, incident.kind))
            found.sort()
            del found[:-EACH]
            self._since = min(self._since, at)
            self._stale = True
        if len(self._of) > MOST:
            quiet = min(self._of, key=lambda other: self._of[other][-1].at)
            del self._of[quiet], self._host[quiet]

    def _drop(self, part: str, at: float) -> None:
        left = [offence for offence in self._of.get(part, []) if offence.at != at]
        self._stale = True
        if left:
            self._of[part] = left
        elif part in self._of:
            del self._of[part], self._host[part]


def certainty(count: int, expected: float, times: float) -> float:
    """Probability that the rate of a part with so many incidents is above `times` the median of its like.

    expected  incidents expected of one part of this sort in the same time, from all the others
    """
    x = times * HALF * (1.0 + 2.0 * expected)
    if x > 600.0:
        return 0.0
    more = sum(float(x ** (j - 0.5)) / gamma(j + 0.5) for j in range(1, min(count, 120) + 1))
    return erfc(sqrt(x)) + exp(-x) * more


def _part(incident: Incident) -> str:
    """The part an incident is held against, "" for none."""
    word = incident.component.partition("(")[0]
    if incident.kind not in KINDS or word not in WORDS or incident.severity is Severity.INFO:
        return ""
    near, comma, _ = incident.component.partition(", ")
    return f"{near})" if comma else near


def _word(part: str) -> str:
    return part.partition("(")[0]


def _apart(found: Iterable[Offence], least: float) -> list[Offence]:
    """Offences of which none is closer to the one before than `least` seconds."""
    kept: list[Offence] = []
    for offence in sorted(found):
        if not kept or offence.at - kept[-1].at >= least:
            kept.append(offence)
    return kept


def _case(part: str, found: list[Offence], sure: float, expected: float, days: float, params: Params) -> Case:
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(offence.kind for offence in found).most_common())
    name = part.partition("(")[2].removesuffix(")")
    text = f"{len(found)} incidents in {days:.0f} days ({kinds}); {expected:.2g} would be usual"
    formula = f"P(rate > {params.times:g} x median) = {sure:.3f} > {params.certainty:g} (detection-methods 3.10)"
    return Case(
        family=KIND,
        identity=part,
        component=part,
        kind=KIND,
        severity=Severity.INFO,
        confidence=round(sure, 4),
        title=f"Repeat offender: {name} had {len(found)} incidents in {days:.0f} days",
        why=RULE.why,
        action=RULE.action,
        evidence=(Evidence(part, text, formula, float(len(found)), round(expected, 3)),),
        members=Members(1, 1),
        claims=frozenset(),
        onset=found[-1].at,
        labels={"incidents": str(len(found)), "days": f"{days:.0f}"},
    )
