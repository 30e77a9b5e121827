"""Silences and maintenance windows of a running centre: made, ended, listed; durable before they count.

What is valid is decided in `notify/silence.py`; this keeps them in the store and in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from fabricmon.central.store import State, Store
from fabricmon.model import Maintenance
from fabricmon.notify.silence import Silence, SilenceError, maintenance, silence

W = TypeVar("W", Silence, Maintenance)

MAX_WINDOWS = 10_000  # silences, and as many maintenance windows, that have not ended
KEPT = 1000  # ended ones still listed, newest kept; the store has all of 30 days


class Silences:
    """The centre's silences and maintenance windows. Use from one event loop."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        self._silences = {s.id: s for s in state.silences}
        self._maintenance = {m.id: m for m in state.maintenance}

    # ---------------------------------------------------------------- silences

    def all(self) -> list[Silence]:
        """Every known one, also those that ended a while ago: `plan.decide` uses them to say that a silence ended."""
        return list(self._silences.values())

    def active(self, now: float) -> list[Silence]:
        return [s for s in self._silences.values() if s.active(now)]

    async def add(
        self, matchers: Sequence[str], starts: float, ends: float, author: str, comment: str, now: float
    ) -> Silence:
        """A new silence, durable when this returns. SilenceError or MatcherError (both ValueError) for a bad one."""
        _room(self._silences.values(), now)
        made = silence(_new_id("s"), matchers, starts, ends, author, comment)
        if ends <= now:
            raise SilenceError("ends: is in the past")
        await self._store.commit(silences=[made])
        self._silences[made.id] = made
        self._silences = _trimmed(self._silences, now)
        return made

    async def expire(self, id: str, now: float) -> Silence | None:
        """End a silence now; None where there is none of that id. One that has not begun ends before it begins."""
        known = self._silences.get(id)
        if known is None or known.ends <= now:
            return known
        ended = replace(known, starts=min(known.starts, now), ends=now)
        await self._store.commit(silences=[ended])
        self._silences[id] = ended
        return ended

    # ---------------------------------------------------------------- maintenance

    def all_maintenance(self) -> list[Maintenance]:
        return list(self._maintenance.values())

    def windows(self, now: float) -> list[Maintenance]:
        """Those that have not ended, for `Engine.maintenance`."""
        return [m for m in self._maintenance.values() if m.ends > now]

    async def add_maintenance(
        self,
        starts: float,
        ends: float,
        now: float,
        hosts: Sequence[str] = (),
        components: Sequence[str] = (),
        author: str = "",
        comment: str = "",
    ) -> Maintenance:
        """A new window, durable when this returns. SilenceError for a bad one."""
        _room(self._maintenance.values(), now)
        made = maintenance(_new_id("m"), starts, ends, hosts, components, author, comment)
        if ends <= now:
            raise SilenceError("ends: is in the past")
        await self._store.commit(maintenance=[made])
        self._maintenance[made.id] = made
        self._maintenance = _trimmed(self._maintenance, now)
        return made

    async def expire_maintenance(self, id: str, now: float) -> Maintenance | None:
        """End a window now; None where there is none of that id."""
        known = self._maintenance.get(id)
        if known is None or known.ends <= now:
            return known
        ended = replace(known, starts=min(known.starts, now), ends=now)
        await self._store.commit(maintenance=[ended])
        self._maintenance[id] = ended
        return ended


def _new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(6)}"


def _room(windows: Iterable[W], now: float) -> None:
    if sum(w.ends > now for w in windows) >= MAX_WINDOWS:
        raise SilenceError(f"there are {MAX_WINDOWS} already that have not ended")


def _trimmed(windows: dict[str, W], now: float) -> dict[str, W]:
    """Without the longest ended, where more than KEPT have ended."""
    ended = sorted((w for w in windows.values() if w.ends <= now), key=lambda w: w.ends)
    gone = {w.id for w in ended[: max(0, len(ended) - KEPT)]}
    return {id: w for id, w in windows.items() if id not in gone}
