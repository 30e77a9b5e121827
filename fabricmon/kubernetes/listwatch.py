"""LIST and then WATCH of one collection of the API, as the API's own clients do.

A watch that the server ends is taken up from its last resource version; one that is too old (410 Gone) begins with a
new LIST. Bookmarks keep the version young while no object changes. What was read last stands until something better
comes: an error empties nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from fabricmon.kubernetes.client import GONE, ApiError, Client
from fabricmon.runtime.reader import Busy, Overdue, Reader

T = TypeVar("T")

PAGE = 500  # objects of one page, as kubectl asks for
MAX_PAGES = 4000  # of one LIST: two million objects
MAX_OBJECTS = 200_000  # objects of interest that are kept
WATCH = 240.0  # seconds after which the server is asked to end a watch
GRACE = 30.0  # seconds a watch may be silent beyond that
COALESCE = 1.0  # seconds in which changes are told once
RELIST = 1.0  # seconds before a watch that ended is taken up again, and the first pause after a failure


class _ListMeta(Struct, frozen=True):
    resourceVersion: str = ""
    next: str = msgspec.field(name="continue", default="")


class _Page(Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _Meta(Struct, frozen=True):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    resourceVersion: str = ""


class _Object(Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Status(Struct, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class ListWatch(Generic[T]):
    """The objects of one collection as they are now.

    client  who asks
    items   what `read` made of each object, by uid; empty before the first LIST
    odd     uid -> why an object could not be understood; it costs itself only
    listed  whether `items` was complete once
    """

    def __init__(
        self,
        client: Client,
        path: str,
        read: Callable[[Any], T | None],
        selectors: Mapping[str, str] | None = None,
        watch: float = WATCH,
    ) -> None:
        """`read` makes something of an object's JSON (`msgspec.Raw`): None of one that is of no interest; ValueError
        for one that cannot be understood. It runs in a thread while objects are listed. `selectors`: `fieldSelector`,
        `labelSelector`. `watch`: seconds of one watch; without news it is taken up again after them, which shows that
        the server is there."""
        self.items: dict[str, T] = {}
        self.odd: dict[str, str] = {}
        self.listed = False
        self.client, self._path, self._read = client, path, read
        self._selectors, self._watch = dict(selectors or {}), min(WATCH, watch)
        self._version = ""
        self._reader: Reader | None = None

    def close(self) -> None:
        """Nothing is asked any more."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def keep(
        self, told: Callable[[], None], failed: Callable[[str], None], retry_max: float, jitter: random.Random
    ) -> None:
        """Follow until cancelled. `told` whenever the objects are known to be these, `failed` with the reason when the
        server cannot be asked; pauses after failures double up to `retry_max` seconds, 50..100 % jitter."""
        pause = RELIST
        heard = False

        def hear() -> None:
            nonlocal heard
            heard = True
            told()

        while True:
            heard = False
            wait = RELIST
            try:
                await self.follow(hear)
            except ApiError as error:
                failed(str(error))
                pause = RELIST if heard else min(2 * pause, retry_max)
                wait = max(pause, min(error.retry_after, retry_max))
            await asyncio.sleep(wait * jitter.uniform(0.5, 1.0))

    async def follow(self, told: Callable[[], None]) -> None:
        """LIST where that is needed, then one WATCH to its end. ApiError where the server does not play along."""
        try:
            if not self._version:
                await self._list()
                told()
            await self._follow(told)
        except ApiError as error:
            if error.status != GONE:
                raise
            self._version = ""

    # ---------------------------------------------------------------- LIST

    async def _list(self) -> None:
        items: dict[str, T] = {}
        odd: dict[str, str] = {}
        following = ""
        if self._reader is None:
            self._reader = Reader("kubernetes")
        for _ in range(MAX_PAGES):
            query = {"limit": str(PAGE), **self._selectors, **({"continue": following} if following else {})}
            data = await self.client.get(self._path, query)
            try:
                # A page of pods takes a thread of its own some hundred milliseconds, in which the fleet is judged.
                meta = await self._reader.call(partial(self._page, data, items, odd), self.client.deadline)
            except (Overdue, Busy) as error:
                raise ApiError(f"takes too long to read: {error}") from error
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ApiError(f"no list of objects: {error}") from error
            following = meta.next
            if not following:
                self.items, self.odd, self._version, self.listed = items, odd, meta.resourceVersion, True
                return
        raise ApiError(f"a list of more than {MAX_PAGES} pages")

    def _page(self, data: bytes, items: dict[str, T], odd: dict[str, str]) -> _ListMeta:
        """Put a page's objects to the others."""
        page = msgspec.json.decode(data, type=_Page)
        for raw in page.items or ():
            self._put(_meta(raw), raw, items, odd)
        return page.metadata

    def _put(self, meta: _Meta, raw: msgspec.Raw, items: dict[str, T], odd: dict[str, str]) -> None:
        key = _key(meta)
        items.pop(key, None)
        odd.pop(key, None)
        try:
            one = self._read(raw)
        except (ValueError, RecursionError) as error:
            if len(odd) < MAX_OBJECTS:
                odd[key] = f"{meta.namespace + '/' if meta.namespace else ''}{meta.name}: {error}"
            return
        if one is not None:
            if len(items) >= MAX_OBJECTS:
                raise ApiError(f"more than {MAX_OBJECTS} objects of {self._path}")
            items[key] = one

    # ---------------------------------------------------------------- WATCH

    async def _follow(self, told: Callable[[], None]) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(self._watch))),
            **self._selectors,
        }
        loop = asyncio.get_running_loop()
        pending: asyncio.TimerHandle | None = None
        told_at = loop.time()
        try:
            async with aclosing(self.client.watch(self._path, query, self._watch + GRACE)) as lines:
                async for line in lines:
                    if not line:
                        told()
                    elif self._take(line) and (pending is None or pending.when() <= loop.time()):
                        told_at = max(loop.time(), told_at + COALESCE)
                        pending = loop.call_at(told_at, told)
        except ApiError as error:
            if error.status:  # what the server no longer wants to tell from there is asked for anew
                self._version = ""
            raise
        finally:
            if pending is not None and pending.when() > loop.time():
                pending.cancel()
                told()

    def _take(self, line: bytes) -> bool:
        """One event of a watch; whether it says anything of an object."""
        try:
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=_Status)
                gone = status.code == GONE or status.reason in ("Expired", "Gone")
                words = status.message or status.reason or "without a reason"
                raise ApiError(f"watch ended: {words}", GONE if gone else status.code or 500)
            meta = _meta(event.object)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._version = ""  # an event was lost: begin anew
            raise ApiError(f"no watch event: {error}") from error
        self._version = meta.resourceVersion or self._version
        if event.type == "BOOKMARK":
            return False
        if event.type in ("ADDED", "MODIFIED"):
            self._put(meta, event.object, self.items, self.odd)
        else:
            self.items.pop(_key(meta), None)
            self.odd.pop(_key(meta), None)
        return True


def _meta(raw: msgspec.Raw) -> _Meta:
    return msgspec.json.decode(raw, type=_Object).metadata


def _key(meta: _Meta) -> str:
    return meta.uid or f"{meta.namespace}/{meta.name}"
