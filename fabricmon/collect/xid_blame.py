"""Which Xid is a fault and which follows from another one. Decides only; takes the time it is told.

A GPU that fails takes others along: its own later Xids (45 after the fault, 154 with the action it needs now) and
Xid 74 of its NVLink peers. One fault must not be told several times (kernel-log.md sections 4.1 to 4.3).
"""

from __future__ import annotations

from enum import StrEnum

from fabricmon.catalogue import xid

TOGETHER = 5.0
"""Seconds within which Xids of one node are one event (kernel-log.md 4.2: 45 came 0.3 s, 154 came 0.4 s later)."""

_HARD = frozenset({48, 79, 119})  # a GPU that also says one of these is the one that failed (4.3)
_MOST_GPUS = 256


class Role(StrEnum):
    ROOT = "root"
    CONSEQUENCE = "consequence"
    NOTE = "note"  # says what is to be done, or what an application did


class Blame:
    """The Xids of one node, in the order of the log."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}  # GPU -> when its last root was, and its number

    def role(self, gpu: str, number: int, details: xid.Details, now: float) -> Role:
        """`now` is seconds of any one clock that does not jump."""
        known = xid.xid(number)
        if known.group == "recovery":
            return Role.NOTE
        if details.caused_by is not None or details.blame in ("follows", "peer"):
            return Role.CONSEQUENCE
        recent = {g: n for g, (at, n) in self._last.items() if now - at <= TOGETHER}
        if number == 45 and gpu in recent:
            return Role.CONSEQUENCE
        if number == 74 and any(g != gpu and n in (_HARD | {74}) for g, n in recent.items()) and gpu not in recent:
            return Role.CONSEQUENCE
        if known.group == "application" or details.blame == "purpose":
            return Role.NOTE
        if gpu not in self._last and len(self._last) >= _MOST_GPUS:
            del self._last[min(self._last, key=lambda g: self._last[g][0])]
        if gpu not in recent or number in _HARD:
            self._last[gpu] = (now, number)
        else:
            self._last[gpu] = (now, recent[gpu])
        return Role.ROOT
