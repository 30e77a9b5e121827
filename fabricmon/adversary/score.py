"""Compares the incidents and notifications of one composite with its truth. Pure.

What counts as what: docs/scenarios.md#scoring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from fabricmon.adversary.classes import CLASSES, NAMED_GROUPS, SINGLE
from fabricmon.adversary.names import split
from fabricmon.adversary.truth import LISTED, MEMBER_SHARE, Cause, Truth
from fabricmon.model import Incident, Severity

SURE = 0.9
FIVE_MINUTES = 300.0
DEATHS = ("dead host", "host reboot")
BROAD = 0.5
"""Share of a named group's members that must be touched, else it is too broad."""
GROUP_WORDS = frozenset(word for one in CLASSES if one.place in NAMED_GROUPS for word in one.words)
ABOUT_READINGS = ("agent_silent", "telemetry_quality")
ABOUT_MAPS = ("topology_mismatch",)
ABOUT_LINKS = ("link_down", "link_flapping", "link_errors", "link_degraded", "repeat_offender", "packet_loss")
ANNOUNCED = ("maintenance",)


class SeenVersion(Struct, frozen=True):
    """An incident as it was from second `at` of the composite."""

    at: float
    incident: Incident


class SentMessage(Struct, frozen=True):
    """A notification as a receiver got it at second `at`."""

    at: float
    reason: str
    incidents: tuple[Incident, ...]


class CauseScore(Struct, frozen=True):
    """How one cause was reported.

    visible   it changed readings, so that it was required
    found     named and notified in time; late: later; listed: never named, but one incident has its members
    delay     seconds from `Cause.seen` to the notification of an incident that names it; None: never
    asked     its group had to be named; named: it was, in time or not
    messages  incidents in notifications, other than resolved ones, about it
    """

    name: str
    sort: str
    visible: bool
    found: bool
    late: bool
    listed: bool
    delay: float | None
    asked: bool
    named: bool
    death: bool
    messages: int


class CompositeScore(Struct, frozen=True):
    """One composite. `wrong`, `false`: texts; `calibration`: confidence and whether right, one an incident;
    `claims`: named groups claimed at confidence >= SURE, and `false_claims` of them; `burst`: messages in the busiest
    five minutes; `other`: incidents in notifications about no cause."""

    seed: int
    number: int
    stress: str
    shape: str
    hosts: int
    causes: tuple[CauseScore, ...]
    lookalikes: tuple[str, ...]
    wrong: tuple[str, ...]
    false: tuple[str, ...]
    calibration: tuple[tuple[float, bool], ...]
    claims: int
    false_claims: int
    burst: int
    other: int
    seconds: float = 0.0


class Classified(Struct, frozen=True):
    """What one incident is: "named", "listed", "fragment", "true" (no fault, but so), "false"; of which cause; too
    broad."""

    what: str
    cause: int = -1
    broad: bool = False


def classify(truth: Truth, incident: Incident, at: float) -> Classified:
    """Classify an incident as it was at second `at`."""
    listed = truth.names.parts(incident.parts)
    own = truth.names.parts([incident.component])
    parts = listed or own or truth.names.group(incident.component)
    for cause in truth.causes:
        if _names(truth, cause, incident, parts, at):
            return Classified("named", cause.number)
    if incident.kind in ANNOUNCED or _is_true(truth, incident, parts):
        return Classified("true")
    for cause in truth.causes:
        if cause.group and _same(truth, cause, incident, parts, at):
            return Classified("listed", cause.number)
    reach = truth.touched | truth.names.as_hosts(truth.touched)
    if parts and len(parts & reach) >= MEMBER_SHARE * len(parts):
        group = truth.names.group(incident.component)
        broad = bool(group) and len(group & reach) < BROAD * len(group)
        nearest = max(truth.causes, key=lambda cause: _overlap(truth, cause, parts))
        return Classified("fragment", nearest.number, broad)
    if not parts and any(cause.visible and cause.seen <= at for cause in truth.causes):
        return Classified("listed" if incident.kind == "mass_alarm" else "fragment", truth.causes[0].number)
    return Classified("false")


def _names(truth: Truth, cause: Cause, incident: Incident, parts: set[str], at: float) -> bool:
    word, inner = split(incident.component)
    if not cause.visible:
        return False
    for name in cause.names:
        its_word, its_inner = split(name)
        if word == its_word and (inner == its_inner or (word == "link" and its_inner in inner.split(", "))):
            return True
    if word in cause.words or cause.by_parts:
        return _same(truth, cause, incident, parts, at)
    if not cause.group and cause.sort not in SINGLE:
        mine = _as_members(truth, cause, parts)
        return bool(mine) and mine <= cause.shown.keys()
    return False


def _as_members(truth: Truth, cause: Cause, parts: set[str]) -> set[str]:
    """Parts in the terms of the cause's members: hosts, or ports, GPUs and cables."""
    if cause.by_hosts:
        return truth.names.as_hosts(parts)
    hosts = truth.names.ports_of_hosts() if any(part[0] == "h" for part in parts) else {}
    return truth.names.as_ports(parts, hosts)


def _same(truth: Truth, cause: Cause, incident: Incident, parts: set[str], at: float) -> bool:
    """Whether the incident's members are those of the cause that had shown it by then."""
    every = set(cause.shown)
    now = {part for part, shown in cause.shown.items() if shown <= at}
    mine = _as_members(truth, cause, parts)
    if not mine or not now:
        return False
    right = len(mine & every)
    counted = max(right, incident.members.bad)
    least = cause.needed if cause.group else 1
    enough = right >= max(least, MEMBER_SHARE * min(len(now), LISTED)) and counted >= MEMBER_SHARE * len(now)
    return enough and right >= MEMBER_SHARE * len(mine)


def _overlap(truth: Truth, cause: Cause, parts: set[str]) -> int:
    shown, as_hosts = set(cause.shown), truth.names.as_hosts
    return len(parts & (shown | as_hosts(shown))) * 1000 + len(as_hosts(parts) & as_hosts(shown))


def _is_true(truth: Truth, incident: Incident, parts: set[str]) -> bool:
    """No fault, but so: a silent agent, a stray fall, a wrong map; at most a warning."""
    if incident.severity.rank > Severity.WARNING.rank or not parts:
        return incident.kind in ABOUT_MAPS and truth.wrong_map
    hosts = truth.names.as_hosts(parts)
    if incident.kind in ABOUT_READINGS and hosts <= truth.odd | truth.silent:
        return True
    if incident.kind in ABOUT_MAPS:
        return truth.wrong_map
    return incident.kind in ABOUT_LINKS and parts <= truth.fallen


def alarming(incident: Incident) -> bool:
    return incident.status == "firing" and incident.severity.rank >= Severity.WARNING.rank


def cause_scores(truth: Truth, versions: Sequence[SeenVersion], sent: Sequence[SentMessage]) -> tuple[CauseScore, ...]:
    """How each cause was reported."""
    first_sent: dict[str, float] = {}
    messages = dict.fromkeys((cause.number for cause in truth.causes), 0)
    for message in sent:
        for incident in message.incidents:
            if message.reason == "resolved":
                continue
            first_sent.setdefault(incident.id, message.at)
            of = classify(truth, incident, message.at).cause
            if of >= 0:
                messages[of] += 1
    named: dict[int, list[float]] = {number: [] for number in messages}
    listed: set[int] = set()
    for version in versions:
        if alarming(version.incident) and version.incident.id in first_sent:
            found = classify(truth, version.incident, version.at)
            if found.what == "named":
                named[found.cause].append(max(version.at, first_sent[version.incident.id]))
            elif found.what == "listed":
                listed.add(found.cause)
    return tuple(
        _score(cause, named[cause.number], cause.number in listed, messages[cause.number]) for cause in truth.causes
    )


def _score(cause: Cause, named: Sequence[float], listed: bool, messages: int) -> CauseScore:
    when = min(named, default=None)
    found = when is not None and when <= cause.due + 1e-6
    return CauseScore(
        cause.name, cause.sort, cause.visible, found, when is not None and not found, when is None and listed,
        None if when is None else round(max(0.0, when - cause.seen), 3), cause.asked, when is not None,
        cause.name in DEATHS and cause.visible, messages,
    )  # fmt: skip


def busiest(sent: Iterable[SentMessage]) -> int:
    """Messages of the busiest five minutes, resolutions included."""
    times = sorted(message.at for message in sent)
    most, first = 0, 0
    for at, time in enumerate(times):
        while times[first] <= time - FIVE_MINUTES:
            first += 1
        most = max(most, at - first + 1)
    return most


def score(
    truth: Truth, versions: Sequence[SeenVersion], sent: Sequence[SentMessage], *, seed: int = 0, number: int = 0,
    stress: str = "", shape: str = "", hosts: int = 0, lookalikes: Sequence[str] = (),
) -> CompositeScore:
    """Score one composite. `versions` in the order of time, each incident at each change."""
    last: dict[str, SeenVersion] = {}
    wrong: dict[str, str] = {}
    false: dict[str, str] = {}
    for version in versions:
        incident = version.incident
        if not alarming(incident):
            continue
        last[incident.id] = version
        what = classify(truth, incident, version.at)
        text = f"{incident.kind} {incident.component} {incident.severity} {incident.confidence:.2f} {version.at:.0f} s"
        if what.what == "false":
            false.setdefault(incident.id, text)
        if (what.what == "false" or what.broad) and incident.confidence >= SURE:
            wrong.setdefault(incident.id, text)
    final = [(v, classify(truth, v.incident, v.at)) for v in last.values()]
    claims = [j.what != "named" for v, j in final if split(v.incident.component)[0] in GROUP_WORDS - {"power", "rack"}
              and v.incident.confidence >= SURE]  # fmt: skip
    about = [classify(truth, i, m.at).cause for m in sent if m.reason != "resolved" for i in m.incidents]
    return CompositeScore(
        seed, number, stress, shape, hosts, cause_scores(truth, versions, sent), tuple(lookalikes),
        tuple(wrong.values()), tuple(false.values()),
        tuple((v.incident.confidence, j.what in ("named", "true")) for v, j in final if j.what != "listed"),
        len(claims), sum(claims), busiest(sent), sum(cause < 0 for cause in about),
    )  # fmt: skip
