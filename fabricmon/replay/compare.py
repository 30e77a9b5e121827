"""Compares the results of two configurations on one recording. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from fabricmon.replay.story import Episode, Story

SAME_TIME = 1e-6  # seconds


class Row(Struct, frozen=True):
    """One incident in both stories, or in one of them.

    what    "only in A", "only in B", "differs" or "same"
    fields  differences as text
    delay   seconds by which B opened it later than A; None where it is in one only
    """

    what: str
    id: str
    component: str
    kind: str
    severity: str
    onset: float
    opened: float
    ended: float | None
    fields: tuple[str, ...] = ()
    delay: float | None = None
    notified: tuple[int, int] = (0, 0)


class Comparison(Struct, frozen=True):
    """rows: by onset; notifications: receiver -> number by A and by B."""

    rows: tuple[Row, ...]
    notifications: dict[str, tuple[int, int]]

    def counts(self) -> dict[str, int]:
        """Rows by `what`."""
        found = Counter(row.what for row in self.rows)
        return {what: found[what] for what in ("same", "differs", "only in A", "only in B")}


def compare(a: Story, b: Story) -> Comparison:
    """Pair the episodes of each incident that overlap in time."""
    mine, theirs = _by_id(a.episodes), _by_id(b.episodes)
    rows: list[Row] = []
    for id in sorted(mine.keys() | theirs.keys()):
        rows += _paired(mine.get(id, []), theirs.get(id, []))
    rows.sort(key=lambda row: (row.onset, row.component, row.id, row.what))
    names = sorted(a.notifications.keys() | b.notifications.keys())
    return Comparison(tuple(rows), {n: (a.notifications.get(n, 0), b.notifications.get(n, 0)) for n in names})


def _by_id(episodes: Iterable[Episode]) -> dict[str, list[Episode]]:
    found: dict[str, list[Episode]] = {}
    for episode in episodes:
        found.setdefault(episode.id, []).append(episode)
    return found


def _paired(mine: Sequence[Episode], theirs: Sequence[Episode]) -> list[Row]:
    rows, left = [], list(theirs)
    for one in mine:
        other = next((e for e in left if _shared(one, e)), None)
        if other is None:
            rows.append(_single("only in A", one))
        else:
            left.remove(other)
            rows.append(_both(one, other))
    return rows + [_single("only in B", episode) for episode in left]


def _shared(a: Episode, b: Episode) -> bool:
    """Whether two episodes overlap in time."""
    begin, end = max(a.onset, b.onset), min(a.ended or float("inf"), b.ended or float("inf"))
    return begin <= end


def _single(what: str, e: Episode) -> Row:
    notified = (e.notified, 0) if what == "only in A" else (0, e.notified)
    return Row(what, e.id, e.component, e.kind, e.severity.value, e.onset, e.opened, e.ended, notified=notified)


def _both(a: Episode, b: Episode) -> Row:
    later = None if a.ended is None or b.ended is None else b.ended - a.ended
    fields = [
        text
        for differs, text in (
            (a.severity is not b.severity, f"severity {a.severity.value} -> {b.severity.value}"),
            (a.kinds != b.kinds, f"kind {' '.join(a.kinds)} -> {' '.join(b.kinds)}"),
            (a.component != b.component, f"component {a.component} -> {b.component}"),
            (abs(b.onset - a.onset) > SAME_TIME, f"onset {b.onset - a.onset:+.1f} s"),
            (abs(b.opened - a.opened) > SAME_TIME, f"opened {b.opened - a.opened:+.1f} s"),
            ((a.ended is None) != (b.ended is None), "still fires in " + ("A" if a.ended is None else "B")),
            (abs(later or 0.0) > SAME_TIME, f"ended {later or 0.0:+.1f} s"),
            (a.notified != b.notified, f"notified {a.notified} -> {b.notified} times"),
        )
        if differs
    ]
    return msgspec.structs.replace(
        _single("differs" if fields else "same", a), fields=tuple(fields), delay=b.opened - a.opened,
        notified=(a.notified, b.notified),
    )  # fmt: skip
