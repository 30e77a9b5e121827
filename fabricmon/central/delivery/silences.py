"""Silences and maintenance windows in store and memory, durable before they take effect; `notify/silence.py` validates
them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from fabricmon.central.store.records import StoredState
from fabricmon.central.store.store import Store
from fabricmon.model import Maintenance
from fabricmon.notify.silence import Silence, SilenceError, maintenance, silence

W = TypeVar("W", Silence, Maintenance)

MAX_WINDOWS = 10_000  # silences, and as many maintenance windows, that have not ended
KEPT = 1000  # ended ones in memory, newest kept; the store keeps 30 days


class KeptWindows(Generic[W]):
    """Windows of one type. Use from one event loop."""

    def __init__(self, store: Store, table: str, kept: Iterable[W]) -> None:
        self._store, self._table = store, table
        self._kept: dict[str, W] = {window.id: window for window in kept}

    def all(self) -> list[W]:
        """All in memory, also recently ended ones: notifications mention the end of a silence."""
        return list(self._kept.values())

    def open(self, now: float) -> list[W]:
        """Windows that have not ended."""
        return [w for w in self._kept.values() if w.ends > now]

    async def _add(self, made: W, now: float) -> W:
        """Add one; durable on return. SilenceError where there are too many, or it ends in the past."""
        if len(self.open(now)) >= MAX_WINDOWS:
            raise SilenceError(f"limit of {MAX_WINDOWS} open windows reached")
        if made.ends <= now:
            raise SilenceError("ends: is in the past")
        await self._save(made)
        ended = sorted((w for w in self._kept.values() if w.ends <= now), key=lambda w: w.ends)
        for window in ended[: max(0, len(ended) - KEPT)]:
            del self._kept[window.id]
        return made

    async def expire(self, id: str, now: float) -> W | None:
        """End one now; None for an unknown id. One that has not started ends before its start."""
        known = self._kept.get(id)
        if known is None or known.ends <= now:
            return known
        return await self._save(replace(known, starts=min(known.starts, now), ends=now))

    async def _save(self, window: W) -> W:
        changed: dict[str, Any] = {self._table: [window]}
        await self._store.commit(**changed)
        self._kept[window.id] = window
        return window


class Silences(KeptWindows[Silence]):
    """The silences."""

    def __init__(self, store: Store, state: StoredState) -> None:
        super().__init__(store, "silences", state.silences)

    def active(self, now: float) -> list[Silence]:
        return [s for s in self._kept.values() if s.active(now)]

    async def add(
        self, matchers: Sequence[str], starts: float, ends: float, author: str, comment: str, now: float
    ) -> Silence:
        """A new silence. SilenceError or MatcherError (both ValueError) for an invalid one."""
        return await self._add(silence(_new_id("s"), matchers, starts, ends, author, comment), now)


class MaintenanceWindows(KeptWindows[Maintenance]):
    """The maintenance windows."""

    def __init__(self, store: Store, state: StoredState) -> None:
        super().__init__(store, "maintenance", state.maintenance)

    async def add(
        self,
        starts: float,
        ends: float,
        now: float,
        hosts: Sequence[str] = (),
        components: Sequence[str] = (),
        author: str = "",
        comment: str = "",
    ) -> Maintenance:
        """A new window. SilenceError for an invalid one."""
        return await self._add(maintenance(_new_id("m"), starts, ends, hosts, components, author, comment), now)


def _new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(6)}"
