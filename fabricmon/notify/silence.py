"""Silences: matchers of incidents that are not notified for a while, with author and comment. Pure.

Page and API show a silenced incident all the same; if it still fires at the end, it is notified. Planned work is
`model.Maintenance`, which the engine evaluates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from fabricmon.model import Incident, Maintenance
from fabricmon.notify.matchers import Matcher, covers, parse, unusable

MAX_MATCHERS = 16
MAX_NAMES = 1024
MAX_WORDS = 1024  # characters of an author, a comment, a name
LONGEST = 366 * 86400.0  # seconds; a silence without an end would hide faults


class SilenceError(ValueError):
    """A silence or maintenance window that cannot be accepted; the text names the field."""


class Silence(Struct, frozen=True):
    """All matchers hold and starts <= now < ends (wall seconds): not notified."""

    id: str
    matchers: tuple[Matcher, ...]
    starts: float
    ends: float
    author: str
    comment: str = ""

    def active(self, now: float) -> bool:
        return self.starts <= now < self.ends

    @property
    def disabled(self) -> str:
        """Why it covers nothing, "" where it works: a matcher that was stored and cannot be evaluated is never left
        out, which would widen the silence."""
        return unusable(self.matchers)

    def covers(self, incident: Incident) -> bool:
        return not self.disabled and covers(self.matchers, incident)


def silence(id: str, matchers: Sequence[str], starts: float, ends: float, author: str, comment: str = "") -> Silence:
    """A silence from what a person wrote; SilenceError or MatcherError names what is wrong with it."""
    if not matchers:
        raise SilenceError("matchers: at least one is needed; a silence over everything would hide the fabric")
    if len(matchers) > MAX_MATCHERS:
        raise SilenceError(f"matchers: at most {MAX_MATCHERS}, got {len(matchers)}")
    _period(starts, ends)
    _words("author", author)
    _words("comment", comment)
    return Silence(id, tuple(parse(m) for m in matchers), starts, ends, author, comment)


def maintenance(
    id: str,
    starts: float,
    ends: float,
    hosts: Sequence[str] = (),
    components: Sequence[str] = (),
    author: str = "",
    comment: str = "",
) -> Maintenance:
    """A maintenance window from what a person wrote; SilenceError names what is wrong with it."""
    names = [*hosts, *components]
    if not any(name.strip("* ") for name in names):
        raise SilenceError("hosts, components: at least one name that is not only a wildcard is needed")
    if len(names) > MAX_NAMES:
        raise SilenceError(f"hosts, components: at most {MAX_NAMES} names, got {len(names)}")
    for name in names:
        _words("hosts, components", name)
    _period(starts, ends)
    _words("author", author)
    _words("comment", comment)
    return Maintenance(id, starts, ends, tuple(hosts), tuple(components), author, comment)


def silenced_by(incident: Incident, silences: Iterable[Silence], now: float) -> Silence | None:
    """The first silence that covers this incident now."""
    return next((s for s in silences if s.active(now) and s.covers(incident)), None)


class SilenceMatches:
    """Which silences match each incident, kept from plan to plan: matching is the slow part of one, and only new
    silences and changed incidents are matched anew."""

    def __init__(self) -> None:
        self._silences: tuple[Silence, ...] = ()
        self._of: dict[str, tuple[Incident, tuple[Silence, ...]]] = {}

    def know(self, silences: Sequence[Silence], incidents: Iterable[Incident]) -> None:
        """These are the silences, active or not, and the incidents of the next calls; others are forgotten."""
        silences = tuple(silences)
        before, now = frozenset(self._silences), frozenset(silences)
        order = {silence: at for at, silence in enumerate(silences)}
        others = silences != self._silences
        known, self._of, self._silences = self._of, {}, silences
        for incident in incidents:
            same, matched = known.get(incident.id, (None, ()))
            if same is not incident:
                matched = tuple(s for s in silences if s.covers(incident))
            elif others:
                new = (s for s in silences if s not in before and s.covers(incident))
                matched = tuple(sorted([*(s for s in matched if s in now), *new], key=order.__getitem__))
            self._of[incident.id] = incident, matched

    def of(self, incident: Incident) -> tuple[Silence, ...]:
        """The silences that match an incident, in their order, active or not."""
        return self._of[incident.id][1]

    def silenced_by(self, incident: Incident, now: float) -> Silence | None:
        """The first silence that covers this incident now."""
        return next((s for s in self.of(incident) if s.active(now)), None)


def _period(starts: float, ends: float) -> None:
    if not (math.isfinite(starts) and math.isfinite(ends)):
        raise SilenceError("starts, ends: expected seconds since 1970")
    if ends <= starts:
        raise SilenceError("ends: must be later than starts")
    if ends - starts > LONGEST:
        raise SilenceError(f"ends: at most {LONGEST / 86400:.0f} days after starts")


def _words(name: str, text: str) -> None:
    if len(text) > MAX_WORDS:
        raise SilenceError(f"{name}: at most {MAX_WORDS} characters, got {len(text)}")
