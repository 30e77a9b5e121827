"""Matchers: the incidents of a silence or a receiver. Written as in Alertmanager: kind=link_flapping. Pure.

A matcher compares one name of an incident: `id`, `kind`, `component`, `node`, `severity`, `status`, `job`, `user`, or
else the incident's label of that name ("label.rack" and "rack" are the same). `job` is each affected job, by name
and by id, `user` each of their users (of Kubernetes the namespace). `node` is every node in the
component, so that node=host-007 matches link(host-007/mlx5_3/1, leaf-3/12) and nic(host-007/mlx5_3), but not the
leaf those links end at: to silence one host must never silence what concerns thirty-two. Nor does what is silenced for
one job or user cover an incident that hits another's: see `covers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec
import re2
from msgspec import Struct

from fabricmon.model import Incident, JobImpact

MAX_TEXT = 256  # characters of a matcher's value
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 20  # bytes that one expression may take, its states included
_OPTIONS.log_errors = False


class Op(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LIKE = "=~"  # regular expression in RE2 syntax, anchored at both ends
    UNLIKE = "!~"


class MatcherError(ValueError):
    """An invalid matcher; the text names it and the reason."""


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


def unusable(matchers: Iterable[Matcher]) -> str:
    """Why one of them cannot be evaluated, "" where all can: a stored one may be in a syntax of earlier versions."""
    for matcher in matchers:
        if matcher.op in (Op.LIKE, Op.UNLIKE):
            try:
                _compiled(matcher.value)
            except MatcherError as error:
                return f"{matcher.name}: {error}"
    return ""


def matches(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """All of them hold. No matcher at all holds for every incident: silences must have at least one."""
    return all(_matches(m, incident) for m in matchers)


def covers(matchers: Iterable[Matcher], incident: Incident) -> bool:
    """All of them hold for each of its jobs: for silences, while receivers use `matches`.

    An incident lists its worst affected jobs only (`Impact`). Where more are affected no matcher of a job or a user
    holds.
    """
    return all(_matches_each_job(m, incident) if m.name in _OF_JOBS else _matches(m, incident) for m in matchers)


def nodes_of(incident: Incident) -> tuple[str, ...]:
    """The nodes of an incident's component and of its `node` or `host` label; () for a larger component."""
    names = [incident.labels[key] for key in ("node", "host") if key in incident.labels]
    found = _NODES.fullmatch(incident.component)
    if found is not None:
        names += [end.strip().split("/", 1)[0] for end in found[1].split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _matches_each_job(matcher: Matcher, incident: Incident) -> bool:
    impact = incident.impact
    if impact is None or not (impact.jobs or impact.total):
        return _matches(matcher, incident)
    if len(impact.jobs) < impact.total:
        return False
    alone = (msgspec.structs.replace(impact, jobs=(job,), total=1) for job in impact.jobs)
    return all(_matches(matcher, msgspec.structs.replace(incident, impact=one)) for one in alone)


def _matches(matcher: Matcher, incident: Incident) -> bool:
    met = any(accepts(matcher, value) for value in _values(matcher.name, incident))
    return met == (matcher.op in (Op.EQUAL, Op.LIKE))


def accepts(matcher: Matcher, value: str) -> bool:
    """Whether the matcher's value or expression, without its negation, is this one."""
    if matcher.op in (Op.EQUAL, Op.NOT_EQUAL):
        return matcher.value == value
    return _compiled(matcher.value).fullmatch(value.encode(errors="replace").decode()) is not None


def _values(name: str, incident: Incident) -> tuple[str, ...]:
    """Values of the incident under that name; a missing label is empty, as in Prometheus."""
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
def _compiled(text: str) -> Any:
    """The expression, which matches in a time that is linear in the subject. MatcherError where RE2 refuses it."""
    try:
        return re2.compile(text, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) else "not Unicode"
        fault = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise MatcherError(f"{text!r} is no regular expression (RE2 syntax): {fault}") from None
