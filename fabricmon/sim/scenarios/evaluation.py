"""Compares a run's incidents and notifications with a scenario's expectations. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from fabricmon.model import Incident, Notification, Severity
from fabricmon.sim.scenarios.scenario import Allowed, Expectations, Forbidden, Required

T = TypeVar("T")

FUTURE = 1.0  # seconds by which an incident may seem to begin after it was opened, for rounding


class Version(Struct, frozen=True):
    """An incident as it was at one moment of the run, `at` seconds after the scenario's zero."""

    at: float
    incident: Incident


class Seen(Struct, frozen=True):
    """All results of a run.

    versions  each incident at each change, in order, and as it was at the end
    notes     notifications of one receiver
    zero      wall time of the scenario's zero
    first_poll  seconds after zero -> seconds after zero of the first poll not before
    begins    name of a timeline entry -> seconds after zero
    rates_off  the largest share by which a port's rate was off the true one, and the port; None: not compared
    """

    versions: tuple[Version, ...]
    notes: tuple[Notification, ...]
    zero: float
    first_poll: Callable[[float], float]
    begins: dict[str, float]
    rates_off: tuple[float, str] | None = None


class FoundIncident(Struct, frozen=True):
    """A required incident that was opened in time.

    `delay` counts from the first poll that could have seen the fault, or at which it might come (`from`).
    """

    what: str
    incident: str
    delay: float


class Failure(Struct, frozen=True):
    """A deviation from the expectations: `what` was expected, and `why` it failed."""

    what: str
    why: str


class RunEvaluation(Struct, frozen=True):
    """found, missed: required incidents that were and were not opened; late: too late or too early; wrong: in time, but
    not as required; false: forbidden or not required; notified: incidents that the receiver was notified of."""

    found: tuple[FoundIncident, ...]
    missed: tuple[Failure, ...]
    late: tuple[Failure, ...]
    wrong: tuple[Failure, ...]
    false: tuple[Failure, ...]
    notified: int

    @property
    def ok(self) -> bool:
        return not (self.missed or self.late or self.wrong or self.false)


def evaluate(expect: Expectations, seen: Seen) -> RunEvaluation:
    """Compare the results of a run with the expectations."""
    stories = _stories(seen.versions)
    found: list[FoundIncident] = []
    failed: dict[str, list[Failure]] = {"missed": [], "late": [], "wrong": []}
    excused: set[str] = set()
    same: dict[str, str] = {}
    for required in expect.required:
        what = _what(required)
        verdict = _best_verdict(required, stories, seen, same.get(required.incident, ""))
        excused |= verdict.ids
        if verdict.id and required.incident:
            same.setdefault(required.incident, verdict.id)
        if verdict.word == "found":
            found.append(FoundIncident(what, verdict.id, round(verdict.delay, 3)))
        else:
            failed[verdict.word].append(Failure(what, verdict.why))
    false = [*_forbidden(expect.forbidden, seen.versions), *_from_the_future(seen)]
    if expect.only:
        false += _others(expect, stories, excused)
    sent = [f"{n.reason}: {i.kind} {i.component}" for n in seen.notes if n.reason != "resolved" for i in n.incidents]
    if expect.notifications is not None and len(sent) > expect.notifications:
        text = f"{len(sent)} were sent: {'; '.join(sent[:8])}"
        false.append(Failure(f"at most {expect.notifications} notifications", text))
    if expect.rates is not None and seen.rates_off is not None and not seen.rates_off[0] <= expect.rates:
        off, where = seen.rates_off
        false.append(Failure(f"rates within {expect.rates:g}", f"{where} is off by {off:.3g}"))
    missed, late, wrong = (tuple(failed[word]) for word in ("missed", "late", "wrong"))
    return RunEvaluation(tuple(found), missed, late, wrong, tuple(false), len(sent))


# --- required


class _Verdict(Struct):
    word: str
    why: str = ""
    id: str = ""
    delay: float = math.nan
    ids: set[str] = set()


def _best_verdict(required: Required, stories: dict[str, list[Version]], seen: Seen, only_id: str) -> _Verdict:
    """The incident that meets a requirement best, and its first deviation."""
    start = seen.begins.get(required.fault, 0.0)
    polled = seen.first_poll(start)
    limit, earliest = polled + required.by, start + required.earliest
    ids: set[str] = set()
    best: _Verdict | None = None
    for id, story in stories.items():
        fitting = [v for v in story if _fits(required, v.incident)]
        if fitting:
            ids.add(id)
        if not fitting or (only_id and id != only_id):
            continue
        verdict = _one(required, story, fitting, seen, limit, earliest, polled)
        verdict.id = id
        if best is None or _RANK[verdict.word] > _RANK[best.word]:
            best = verdict
    if best is None:
        return _Verdict("missed", f"never opened{_nearest(required, stories)}", ids=ids)
    best.ids = ids
    return best


ROUNDED = 1e-3  # seconds: sums of decimal times are not exact
_RANK = {"missed": 0, "late": 1, "wrong": 2, "found": 3}


def _one(
    required: Required, story: Sequence[Version], fitting: Sequence[Version], seen: Seen, limit: float,
    earliest: float, polled: float,
) -> _Verdict:
    listed = _each(required.severity)
    fit = [v for v in fitting if v.incident.status == "firing" and v.incident.severity in listed]
    sure = [v for v in fit if v.incident.confidence >= required.confidence]
    if not fit:
        reached = sorted({v.incident.severity.value for v in fitting})
        return _Verdict("wrong", f"it was {' and '.join(reached)}, not {' or '.join(listed)}")
    if not sure:
        most = max(v.incident.confidence for v in fit)
        return _Verdict("wrong", f"its confidence was {most:.3f} at most")
    first = sure[0]
    if first.at > limit + ROUNDED:
        return _Verdict("late", f"opened {first.at - polled:.0f} s after the first poll that could detect it")
    if first.at < earliest - ROUNDED:
        return _Verdict("late", f"opened at {first.at:.0f} s, before {earliest:.0f} s")
    highest = max((v.incident.severity for v in fitting), key=lambda s: s.rank)
    if highest.rank > max(s.rank for s in listed):
        return _Verdict("wrong", f"it became {highest}")
    why = _demands(required, fitting) or _ended(required, story, seen)
    if why:
        return _Verdict("wrong", why)
    return _Verdict("found", delay=max(0.0, first.at - seen.first_poll(earliest)))


def _demands(required: Required, fitting: Sequence[Version]) -> str:
    """The first demand that no version of the incident meets; "" for none."""
    incidents = [v.incident for v in fitting]
    if not any(_any(_each(required.mode), i.labels.get("mode", "")) for i in incidents):
        return f"its mode was {incidents[-1].labels.get('mode', 'none')}"
    if required.members:
        bad, _, of = required.members.partition(" of ")
        if not any(i.members.bad >= int(bad) and i.members.of == int(of) for i in incidents):
            most = max(incidents, key=lambda i: i.members.bad).members
            return f"{most.bad} of {most.of} members at most"
    for label, like in required.labels.items():
        if not any(_any((like,), i.labels.get(label, "")) for i in incidents):
            return f"its label {label} was {incidents[-1].labels.get(label, 'absent')}"
    for group in required.candidates:
        most_named = max(sum(_any((group.like,), c) for c in i.candidates) for i in incidents)
        if most_named < group.least:
            return f"{most_named} candidates like {group.like}, of {_short(incidents[-1].candidates)}"
    if required.only_candidates is not None:
        last = [i for i in incidents if i.status == "firing"][-1:]
        stray = [c for i in last for c in i.candidates if not _any(required.only_candidates, c)]
        if stray:
            return f"candidates besides: {_short(stray)}"
    for like in required.contains:
        if not any(_pattern(f"*{like}*".lower()).fullmatch(_text(i)) for i in incidents):
            return f"its text never contained {like!r}"
    return ""


def _ended(required: Required, story: Sequence[Version], seen: Seen) -> str:
    if required.resolved_by is None:
        return ""
    start = seen.begins.get(required.fault, 0.0)
    ends = [v.incident.resolved - seen.zero for v in story if v.incident.resolved is not None]
    if story[-1].incident.status != "resolved" or not ends:
        return "it was never resolved"
    if ends[-1] > start + required.resolved_by:
        return f"it was resolved {ends[-1] - start:.0f} s after the fault"
    if ends[0] < start + required.resolved_from:
        return f"it was resolved as early as {ends[0] - start:.0f} s after the fault"
    return ""


def _nearest(required: Required, stories: dict[str, list[Version]]) -> str:
    """Text of other incidents: of this kind elsewhere, or of another kind at this component."""
    others = {
        f"{v.incident.kind} {v.incident.component} ({v.incident.severity})"
        for story in stories.values()
        for v in story
        if _any(_each(required.kind), v.incident.kind) or _is_component(_each(required.component), v.incident.component)
    }
    return f"; instead: {_short(sorted(others))}" if others else ""


# --- forbidden and not required


def _forbidden(rules: Iterable[Forbidden], versions: Sequence[Version]) -> list[Failure]:
    failures: list[Failure] = []
    for rule in rules:
        hits: dict[str, Version] = {}
        for version in versions:
            incident = version.incident
            if (
                incident.status == "firing"
                and incident.severity.rank >= rule.severity.rank
                and (rule.earliest is None or version.at >= rule.earliest)
                and (rule.until is None or version.at <= rule.until)
                and _fits(rule, incident)
                and not _is_component(rule.but, incident.component)
                and _any(_each(rule.mode), incident.labels.get("mode", ""))
                and all(_any((like,), incident.labels.get(label, "")) for label, like in rule.labels.items())
            ):
                hits.setdefault(incident.id, version)
        what = f"no {_words(rule.kind)} at {_words(rule.component)}"
        failures += [Failure(what, _brief(version)) for version in hits.values()]
    return failures


def _others(expect: Expectations, stories: dict[str, list[Version]], excused: set[str]) -> list[Failure]:
    failures = []
    for id, story in stories.items():
        bad = [
            v
            for v in story
            if v.incident.severity.rank >= Severity.WARNING.rank
            and not any(
                _fits(allowed, v.incident) and v.incident.severity.rank <= allowed.severity.rank
                for allowed in expect.allowed
            )
        ]
        if bad and id not in excused:
            failures.append(Failure("nothing else", _brief(bad[0])))
    return failures


def _from_the_future(seen: Seen) -> list[Failure]:
    failures = {}
    for version in seen.versions:
        ahead = version.incident.since - seen.zero - version.at
        if ahead > FUTURE:
            failures[version.incident.id] = Failure(
                "no onset in the future", f"{_brief(version)}, its onset is {ahead:.0f} s ahead"
            )
    return list(failures.values())


# --- words


def _stories(versions: Iterable[Version]) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for version in versions:
        found.setdefault(version.incident.id, []).append(version)
    return found


def _fits(rule: Required | Forbidden | Allowed, incident: Incident) -> bool:
    return _any(_each(rule.kind), incident.kind) and _is_component(_each(rule.component), incident.component)


def _is_component(patterns: Iterable[str], component: str) -> bool:
    return any(_any(_ways(pattern), component) for pattern in patterns)


@lru_cache(4096)
def _ways(pattern: str) -> tuple[str, ...]:
    """The forms in which a component may be written: ends of a link in either order, or its first end alone."""
    if not (pattern.startswith("link(") and pattern.endswith(")")):
        return (pattern,)
    inside = pattern[len("link(") : -1]
    first, comma, second = inside.partition(", ")
    if comma:
        return (pattern, f"link({second}, {first})")
    return (pattern, f"link({first}, *)", f"link(*, {first})")


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(pattern == "*" or _pattern(pattern).fullmatch(text) for pattern in patterns)


@lru_cache(4096)
def _pattern(like: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in like.split("*")), re.DOTALL)


def _each(value: T | tuple[T, ...]) -> tuple[T, ...]:
    return value if isinstance(value, tuple) else (value,)


def _words(value: str | tuple[str, ...]) -> str:
    text = " or ".join(_each(value))
    return "anything" if text == "*" else text


def _what(required: Required) -> str:
    return f"{_words(required.kind)} {_words(required.component)}"


def _brief(version: Version) -> str:
    i = version.incident
    return f"{i.kind} {i.component} {i.severity} at {version.at:.0f} s, {i.members.bad} of {i.members.of}: {i.title}"


def _text(incident: Incident) -> str:
    evidence = "\n".join(f"{e.text} {e.formula}" for e in incident.evidence)
    return f"{incident.title}\n{incident.why}\n{evidence}".lower()


def _short(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    return ", ".join(every[:4]) + (f" and {len(every) - 4} more" if len(every) > 4 else "") if every else "none"
