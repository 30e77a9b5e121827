"""Repeat offenders: parts with more than ten times the usual rate of incidents. Pure.

Method: docs/methods.md#repeat-offender. What opened an incident is counted from the stored ones, so a restart loses
only the downs that were too short for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from math import erfc, exp, lgamma, log, sqrt
from typing import NamedTuple

from fabricmon.catalogue.kinds import kind_of
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.short_downs import ShortDown
from fabricmon.forms.cables import cables_of
from fabricmon.model import Evidence, Incident, Severity
from fabricmon.rules.repeat_offender import RULE, RepeatOffenderParams

KIND = "repeat_offender"
OPENED = frozenset({"opened", "reopened"})
DAY = 86_400.0
HALF = 0.22746821155978656
"""Median of a Gamma distribution with shape 1/2 and rate 1."""
MOST = 20_000  # parts remembered; the longest quiet go first
EACH = 200  # incidents of one part that are remembered
AGAIN = 3600.0  # seconds after which the offenders are evaluated again without a cause: old incidents stop counting
SOON = 10.0  # the same while the number of parts changes, as after a start
OFFENDERS = 64  # incidents at one time, parts with most incidents first
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
        self._drafts: list[IncidentDraft] = []
        self._stale = True
        self._as_of = float("-inf")
        self._parts: dict[str, int] = {}

    def note(self, changed: Iterable[Incident], now: float) -> None:
        """Count the incidents that opened; drop those that became part of a larger one."""
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

    def note_downs(self, downs: Iterable[ShortDown], now: float) -> None:
        """Count downs that made no incident. One within an hour of an incident counts with it."""
        for down in downs:
            self._count(f"link({down.port})", down.port.node, Offence(down.at, "short down"))
        self._since = min(self._since, now)

    def drafts(
        self,
        parts: Mapping[str, int],
        params: RepeatOffenderParams,
        now: float,
        expected: Callable[[str], bool] = lambda _: True,
    ) -> list[IncidentDraft]:
        """The offenders, evaluated after a note, after a change of the number of parts, and once an hour.

        parts     word -> number of parts of that sort
        expected  whether a node is one of the fabric: parts of others are no offenders
        """
        lasts = AGAIN if parts == self._parts else SOON
        if not self._stale and self._as_of <= now < self._as_of + lasts:
            return self._drafts
        self._stale, self._as_of, self._parts = False, now, dict(parts)
        oldest = now - float(params.window)
        for part in list(self._of):
            kept = [offence for offence in self._of[part] if offence.at >= oldest]
            if kept:
                self._of[part] = kept
            else:
                del self._of[part], self._host[part]
        counted = {part: _apart(found, float(params.apart)) for part, found in self._of.items()}
        here = {part for part in counted if not self._host[part] or expected(self._host[part])}
        self._drafts = [d for d in self._offenders(counted, parts, params, now) if self._is_of(d.component, here)]
        return self._drafts

    def _is_of(self, part: str, here: Collection[str]) -> bool:
        """Whether a part, or a part of a host, is among these."""
        return part in here or any(f"host({self._host[other]})" == part for other in here)

    def _offenders(
        self, counted: Mapping[str, list[Offence]], parts: Mapping[str, int], params: RepeatOffenderParams, now: float
    ) -> list[IncidentDraft]:
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
        drafts: dict[str, IncidentDraft] = {}
        for part, found in sorted(every.items(), key=lambda item: (-len(item[1]), item[0])):
            word = _word(part)
            like = max(parts.get(word, 1), 2)
            expected = (total[word] - len(found) + 0.5) / (like - 1)
            sure = certainty(len(found), expected, params.times)
            if sure <= params.certainty or len(drafts) >= OFFENDERS:
                continue
            drafts[part] = _draft(part, found, sure, expected, days, params)
        # without hosts most of whose incidents are of one part that is an offender already
        return [
            draft
            for part, draft in drafts.items()
            if not part.startswith("host(")
            or not any(
                f"host({self._host.get(other, '')})" == part and 5 * len(every[other]) >= 4 * len(every[part])
                for other in drafts
                if other != part
            )
        ]

    def _add(self, part: str, incident: Incident, at: float) -> None:
        self._count(part, incident.labels.get("node", ""), Offence(at, incident.kind))

    def _count(self, part: str, host: str, new: Offence) -> None:
        found = self._of.setdefault(part, [])
        self._host[part] = host
        if not any(offence.at == new.at for offence in found):
            found.append(new)
            found.sort()
            del found[:-EACH]
            self._since = min(self._since, new.at)
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
    """Probability that the rate of a part with `count` incidents is above `times` the median of its sort.

    expected  incidents expected of one part in the same time, by the other parts of its sort
    """
    x = times * HALF * (1.0 + 2.0 * expected)
    if x <= 0.0:
        return 1.0
    # By logarithms: from 120 incidents on, powers and gamma functions leave the range of a float.
    more = sum(exp((j - 0.5) * log(x) - x - lgamma(j + 0.5)) for j in range(1, count + 1))
    return min(1.0, erfc(sqrt(x)) + more)


def _part(incident: Incident) -> str:
    """The part that an incident counts for, "" none: one of several cables is none of them."""
    word = incident.component.partition("(")[0]
    if not kind_of(incident.kind).offence or word not in WORDS or incident.severity is Severity.INFO:
        return ""
    if len(cables_of(incident.component)) > 1:
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


def _draft(
    part: str, found: list[Offence], sure: float, expected: float, days: float, params: RepeatOffenderParams
) -> IncidentDraft:
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(offence.kind for offence in found).most_common())
    name = part.partition("(")[2].removesuffix(")")
    text = f"{len(found)} incidents in {days:.0f} days ({kinds}); {expected:.2g} expected"
    formula = (
        f"P(rate > {params.times:g} x median) = {sure:.3f} > {params.certainty:g} (docs/methods.md#repeat-offender)"
    )
    return IncidentDraft(
        family=KIND,
        identity=part,
        component=part,
        kind=KIND,
        confidence=round(sure, 4),
        title=f"Repeat offender: {name} had {len(found)} incidents in {days:.0f} days",
        why=RULE.why,
        action=RULE.action,
        evidence=(Evidence(part, text, formula, float(len(found)), round(expected, 3)),),
        onset=found[-1].at,
        labels={"incidents": str(len(found)), "days": f"{days:.0f}"},
    )
