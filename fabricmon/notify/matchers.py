"""Matchers: which incidents a silence or a receiver is about. Written as in Alertmanager: kind=link_flapping. Pure.

A matcher compares one name of an incident: `id`, `kind`, `component`, `node`, `severity`, `status`, `job`, `user`, or
else the incident's label of that name ("label.rack" and "rack" are the same). `job` is each job that it hits, by name
and by id, `user` each of their users (of Kubernetes the namespace). `node` stands for every node the component's
words name, so that node=host-007 meets link(host-007/mlx5_3/1, leaf-3/12) and nic(host-007/mlx5_3), but not the
leaf those links end at: to silence one host must never silence what concerns thirty-two. Nor does what is silenced for
one job or user cover an incident that hits another's: see `covers`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec import Struct

from fabricmon.model import Incident, JobImpact

MAX_TEXT = 256  # characters of a matcher's value
MAX_SUBJECT = 256  # characters of an incident's value that a regular expression is shown
MAX_REPEATS = 3  # unbounded repetitions in one branch of a regular expression: work stays below MAX_SUBJECT**3 steps


class Op(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LIKE = "=~"  # regular expression, anchored at both ends
    UNLIKE = "!~"


class MatcherError(ValueError):
    """A matcher that cannot be understood; the text says which and why."""


class Matcher(Struct, frozen=True):
    name: str
    op: Op
    value: str

    def __str__(self) -> str:
        return f"{self.name}{self.op}{self.value}"


_WRITTEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_OF_JOBS = ("job", "user")
_NODES = re.compile(r"(?:link|nic|host|port|gpu|nvlink|pcie)\((.*)\)")


def parse(text: str) -> Matcher:
    """`kind=link_flapping`, `component=~"link\\(host-00.*"`, `rack!=r7`. MatcherError where it is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise MatcherError(f"{text!r}: expected NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX")
    name, op, value = found.groups()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    if len(value) > MAX_TEXT:
        raise MatcherError(f"{name}: a value has at most {MAX_TEXT} characters, this has {len(value)}")
    matcher = Matcher(name.removeprefix("label."), Op(op), value)
    if matcher.op in (Op.LIKE, Op.UNLIKE):
        _compiled(value)
    return matcher


def matches(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """All of them hold. No matcher at all holds for everything: who makes silences must ask for at least one."""
    return all(_holds(m, incident) for m in matchers)


def covers(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """All of them hold, whichever of its jobs one looks at: what a silence asks, while a receiver asks `matches`.

    An incident tells of the jobs that it hits worst only (`Impact`). Where it hits more than it names, nothing is
    known of the others, and no matcher of a job or a user holds.
    """
    return all(_holds_of_each_job(m, incident) if m.name in _OF_JOBS else _holds(m, incident) for m in matchers)


def nodes_of(incident: Incident) -> tuple[str, ...]:
    """The nodes an incident's component names, and its `node` or `host` label; () where it is about more than
    that."""
    names = [incident.labels[key] for key in ("node", "host") if key in incident.labels]
    found = _NODES.fullmatch(incident.component)
    if found is not None:
        names += [end.strip().split("/", 1)[0] for end in found[1].split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _holds_of_each_job(matcher: Matcher, incident: Incident) -> bool:
    impact = incident.impact
    if impact is None or not (impact.jobs or impact.total):
        return _holds(matcher, incident)
    if len(impact.jobs) < impact.total:
        return False
    alone = (msgspec.structs.replace(impact, jobs=(job,), total=1) for job in impact.jobs)
    return all(_holds(matcher, msgspec.structs.replace(incident, impact=one)) for one in alone)


def _holds(matcher: Matcher, incident: Incident) -> bool:
    values = _values(matcher.name, incident)
    if matcher.op in (Op.EQUAL, Op.NOT_EQUAL):
        met = matcher.value in values
    else:
        pattern = _compiled(matcher.value)
        met = any(pattern.fullmatch(value[:MAX_SUBJECT]) is not None for value in values)
    return met == (matcher.op in (Op.EQUAL, Op.LIKE))


def _values(name: str, incident: Incident) -> tuple[str, ...]:
    """What the incident has under that name; a label it lacks counts as empty, as in Prometheus."""
    match name:
        case "node":
            return nodes_of(incident) or ("",)
        case "job":
            return tuple(word for job in _jobs(incident) for word in (job.name, job.id) if word) or ("",)
        case "user":
            return tuple(job.user for job in _jobs(incident)) or ("",)
        case "id" | "kind" | "component" | "status":
            return (str(getattr(incident, name)),)
        case "severity":
            return (incident.severity.value,)
        case _:
            return (incident.labels.get(name, ""),)


def _jobs(incident: Incident) -> tuple[JobImpact, ...]:
    return incident.impact.jobs if incident.impact is not None else ()


@lru_cache(maxsize=1024)
def _compiled(text: str) -> re.Pattern[str]:
    """The pattern; MatcherError where it is no pattern, or one whose matching could take for ever."""
    _refuse_slow(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[" means what it means today
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise MatcherError(f"{text!r} is no regular expression: {error}") from None


def _refuse_slow(text: str) -> None:
    """Matching is backtracking and runs at every tick, so what anybody may post must be cheap by its form.

    Refused: a repeated group that itself repeats or chooses (exponential), references to groups, and more than
    MAX_REPEATS unbounded repetitions in a row (polynomial of that degree).
    """
    # One entry an open group: [repetitions in the branch so far, the group repeats or chooses]
    stack: list[list[int]] = [[0, 0]]
    i, last_group, after_group = 0, [0, 0], False
    while i < len(text):
        char = text[i]
        if char == "\\":
            if text[i + 1 : i + 2].isdigit():
                raise MatcherError(f"{text!r}: references to groups are not supported")
            i, after_group = i + 2, False
            continue
        if char == "[":
            i, after_group = _after_class(text, i), False
            continue
        if char == "(":
            if text[i + 1 : i + 2] == "?" and text[i + 2 : i + 3] != ":":
                raise MatcherError(f"{text!r}: of the groups that begin with (? only (?:...) is supported")
            stack.append([0, 0])
            i += 2 if text[i + 1 : i + 2] == "?" else 0
        elif char == ")" and len(stack) > 1:
            last_group = stack.pop()
            stack[-1][0] += last_group[0]
            stack[-1][1] |= last_group[1]
        elif char == "|":
            stack[-1] = [0, 1]
        elif char in "*+{":
            if after_group and last_group[1]:
                raise MatcherError(f"{text!r}: a repeated group may not hold a choice or a repetition")
            stack[-1] = [stack[-1][0] + 1, 1]
            if stack[-1][0] > MAX_REPEATS:
                raise MatcherError(f"{text!r}: at most {MAX_REPEATS} of * + {{}} in one branch")
        elif char == "?":
            stack[-1][1] = 1
        after_group = char == ")"
        i += 1


def _after_class(text: str, start: int) -> int:
    """The index behind the character class that opens at `start`; a `]` in the first place is a member of it."""
    i = start + (2 if text[start + 1 : start + 2] == "^" else 1)
    if text[i : i + 1] == "]":
        i += 1
    while i < len(text) and text[i] != "]":
        i += 2 if text[i] == "\\" else 1
    return i + 1
