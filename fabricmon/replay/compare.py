"""What two configurations make of one recording, side by side. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from fabricmon.replay.story import Episode, Story

SAME_TIME = 1e-6  # seconds


class Row(Struct, frozen=True):
    """One incident in both stories, or in one of them.

    what    "only in A", "only in B", "differs" or "same"
    fields  what differs, in words
    delay   seconds by which B told it later than A; None where one did not tell it
    """

    what: str
    id: str
    component: str
    kind: str
    severity: str
    onset: float
    told: float
    ended: float | None
    fields: tuple[str, ...] = ()
    delay: float | None = None
    notified: tuple[int, int] = (0, 0)


class Comparison(Struct, frozen=True):
    """rows: by onset; notifications: receiver -> how many it would have got by A and by B."""

    rows: tuple[Row, ...]
    notifications: dict[str, tuple[int, int]]

    def counts(self) -> dict[str, int]:
        """Rows by `what`."""
        found = Counter(row.what for row in self.rows)
        return {what: found[what] for what in ("same", "differs", "only in A", "only in B")}


def compare(a: Story, b: Story) -> Comparison:
    """Pair the episodes of each incident by the time they share."""
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
    """Whether two episodes of one incident are about the same time."""
    begin, end = max(a.onset, b.onset), min(a.ended or float("inf"), b.ended or float("inf"))
    return begin <= end


def _single(what: str, e: Episode) -> Row:
    notified = (e.notified, 0) if what == "only in A" else (0, e.notified)
    return Row(what, e.id, e.component, e.kind, e.severity.value, e.onset, e.told, e.ended, notified=notified)


def _both(a: Episode, b: Episode) -> Row:
    fields = []
    if a.severity is not b.severity:
        fields.append(f"severity {a.severity.value} -> {b.severity.value}")
    if a.kinds != b.kinds:
        fields.append(f"kind {' '.join(a.kinds)} -> {' '.join(b.kinds)}")
    if a.component != b.component:
        fields.append(f"component {a.component} -> {b.component}")
    if abs(b.onset - a.onset) > SAME_TIME:
        fields.append(f"onset {b.onset - a.onset:+.1f} s")
    if abs(b.told - a.told) > SAME_TIME:
        fields.append(f"told {b.told - a.told:+.1f} s")
    if (a.ended is None) != (b.ended is None):
        fields.append("still fires in " + ("A" if a.ended is None else "B"))
    elif a.ended is not None and b.ended is not None and abs(b.ended - a.ended) > SAME_TIME:
        fields.append(f"ended {b.ended - a.ended:+.1f} s")
    if a.notified != b.notified:
        fields.append(f"notified {a.notified} -> {b.notified} times")
    return Row(
        "differs" if fields else "same",
        a.id,
        a.component,
        a.kind,
        a.severity.value,
        a.onset,
        a.told,
        a.ended,
        tuple(fields),
        b.told - a.told,
        (a.notified, b.notified),
    )
