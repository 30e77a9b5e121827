"""Root and consequential Xid errors. Pure.

A failing GPU causes further Xids: its own (45 after the fault, 154 with the recovery action) and Xid 74 of its NVLink
peers. One fault must not be reported several times (docs/methods.md#xid-errors).
"""

from __future__ import annotations

from enum import StrEnum

from fabricmon.catalogue import xid

TOGETHER = 5.0
"""Seconds within which Xids of one node are one event (docs/methods.md#xid-errors)."""

_HARD = frozenset({48, 79, 119})  # a GPU with one of these is the one that failed
_MOST_GPUS = 256


class XidRole(StrEnum):
    ROOT = "root"
    CONSEQUENCE = "consequence"
    NOTE = "note"  # a recovery action, or an application's error


class Blame:
    """The Xids of one node, in the order of the log."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}  # GPU -> when its last root was, and its number

    def role(self, gpu: str, number: int, details: xid.Details, now: float) -> XidRole:
        """`now` is seconds of any one clock that does not jump."""
        known = xid.xid(number)
        if known.group == "recovery":
            return XidRole.NOTE
        if details.caused_by is not None or details.blame in ("follows", "peer"):
            return XidRole.CONSEQUENCE
        recent = {g: n for g, (at, n) in self._last.items() if now - at <= TOGETHER}
        if number == 45 and gpu in recent:
            return XidRole.CONSEQUENCE
        if number == 74 and any(g != gpu and n in (_HARD | {74}) for g, n in recent.items()) and gpu not in recent:
            return XidRole.CONSEQUENCE
        if known.group == "application" or details.blame == "purpose":
            return XidRole.NOTE
        if gpu not in self._last and len(self._last) >= _MOST_GPUS:
            del self._last[min(self._last, key=lambda g: self._last[g][0])]
        if gpu not in recent or number in _HARD:
            self._last[gpu] = (now, number)
        else:
            self._last[gpu] = (now, recent[gpu])
        return XidRole.ROOT
