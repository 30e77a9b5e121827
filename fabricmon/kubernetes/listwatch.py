"""LIST and then WATCH of one collection of the API, as in the official clients.

A watch that the server ends continues from its last resource version; after 410 Gone it begins with a new LIST.
Bookmarks keep the version recent while no object changes. An error does not discard the known objects.
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

from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.kubernetes.client import GONE, ApiError, KubernetesClient
from fabricmon.runtime.reader import Busy, Overdue, Reader

T = TypeVar("T")

PAGE = 500  # objects of one page, as kubectl asks for
MAX_PAGES = 4000  # of one LIST: two million objects
MAX_OBJECTS = 200_000  # objects in memory
WATCH = 240.0  # seconds of a watch (timeoutSeconds)
GRACE = 30.0  # seconds without data beyond that
COALESCE = 1.0  # seconds between two notifications of changes
RELIST = 1.0  # seconds before a watch is renewed, and the first pause after a failure


class _ListMeta(Struct, frozen=True):
    resourceVersion: str = ""
    next: str = msgspec.field(name="continue", default="")


class _Page(Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _ObjectMeta(Struct, frozen=True):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    resourceVersion: str = ""


class _Object(Struct, frozen=True):
    metadata: _ObjectMeta = _ObjectMeta()


class _WatchStatus(Struct, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class ListWatch(Generic[T]):
    """The current objects of one collection.

    client  for the requests
    items   uid -> result of `read`; empty before the first LIST
    odd     uid -> why an object could not be parsed; it is skipped
    listed  whether `items` was complete once
    """

    def __init__(
        self,
        client: KubernetesClient,
        path: str,
        read: Callable[[Any], T | None],
        selectors: Mapping[str, str] | None = None,
        watch: float = WATCH,
    ) -> None:
        """`read` parses an object (`msgspec.Raw`): None to skip it; ValueError for an invalid one. It runs in a thread
        during LIST. `selectors`: `fieldSelector`, `labelSelector`. `watch`: seconds of one watch; its renewal shows
        that the server responds."""
        self.items: dict[str, T] = {}
        self.odd: dict[str, str] = {}
        self.listed = False
        self.client, self._path, self._read = client, path, read
        self._selectors, self._watch = dict(selectors or {}), min(WATCH, watch)
        self._version = ""
        self._reader: Reader | None = None

    def close(self) -> None:
        """Release the thread."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def keep(
        self, report: Callable[[], None], failed: Callable[[str], None], retry_max: float, jitter: random.Random
    ) -> None:
        """Follow until cancelled. Calls `report` whenever the objects are current, `failed` with the reason of a failed
        request; pauses after failures double up to `retry_max` seconds, 50..100 % jitter."""
        pause = RELIST
        answered = False

        def changed() -> None:
            nonlocal answered
            answered = True
            report()

        while True:
            answered = False
            wait = RELIST
            try:
                await self.follow(changed)
            except ApiError as error:
                failed(str(error))
                pause = RELIST if answered else min(2 * pause, retry_max)
                wait = max(pause, min(error.retry_after, retry_max))
            await asyncio.sleep(wait * jitter.uniform(0.5, 1.0))

    async def follow(self, report: Callable[[], None]) -> None:
        """LIST if needed, then one WATCH to its end. Raises ApiError."""
        try:
            if not self._version:
                await self._list()
                report()
            await self._follow(report)
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
                # In a thread: parsing a page of pods takes some hundred milliseconds.
                meta = await self._reader.call(partial(self._page, data, items, odd), self.client.deadline)
            except (Overdue, Busy) as error:
                raise ApiError(f"takes too long to read: {error}") from error
            except Undecodable as error:
                raise ApiError(f"no list of objects: {error}") from error
            following = meta.next
            if not following:
                self.items, self.odd, self._version, self.listed = items, odd, meta.resourceVersion, True
                return
        raise ApiError(f"a list of more than {MAX_PAGES} pages")

    def _page(self, data: bytes, items: dict[str, T], odd: dict[str, str]) -> _ListMeta:
        """Add the objects of a page."""
        page = json_value(data, _Page)
        for raw in page.items or ():
            self._put(_meta(raw), raw, items, odd)
        return page.metadata

    def _put(self, meta: _ObjectMeta, raw: msgspec.Raw, items: dict[str, T], odd: dict[str, str]) -> None:
        key = _key(meta)
        items.pop(key, None)
        odd.pop(key, None)
        try:
            one = self._read(raw)
        except ValueError as error:
            if len(odd) < MAX_OBJECTS:
                odd[key] = f"{meta.namespace + '/' if meta.namespace else ''}{meta.name}: {error}"
            return
        if one is not None:
            if len(items) >= MAX_OBJECTS:
                raise ApiError(f"more than {MAX_OBJECTS} objects of {self._path}")
            items[key] = one

    # ---------------------------------------------------------------- WATCH

    async def _follow(self, report: Callable[[], None]) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(self._watch))),
            **self._selectors,
        }
        loop = asyncio.get_running_loop()
        pending: asyncio.TimerHandle | None = None
        reported_at = loop.time()
        try:
            async with aclosing(self.client.watch(self._path, query, self._watch + GRACE)) as lines:
                async for line in lines:
                    if not line:
                        report()
                    elif self._take(line) and (pending is None or pending.when() <= loop.time()):
                        reported_at = max(loop.time(), reported_at + COALESCE)
                        pending = loop.call_at(reported_at, report)
        except ApiError as error:
            if error.status:  # the server cannot continue from this version: LIST again
                self._version = ""
            raise
        finally:
            if pending is not None and pending.when() > loop.time():
                pending.cancel()
                report()

    def _take(self, line: bytes) -> bool:
        """Process one event of a watch; whether it changed an object."""
        try:
            event = json_value(line, _Event)
            if event.type == "ERROR":
                status = json_value(event.object, _WatchStatus)
                gone = status.code == GONE or status.reason in ("Expired", "Gone")
                words = status.message or status.reason or "without a reason"
                raise ApiError(f"watch ended: {words}", GONE if gone else status.code or 500)
            meta = _meta(event.object)
        except Undecodable as error:
            self._version = ""  # an event was lost: LIST again
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


def _meta(raw: msgspec.Raw) -> _ObjectMeta:
    return json_value(raw, _Object).metadata


def _key(meta: _ObjectMeta) -> str:
    return meta.uid or f"{meta.namespace}/{meta.name}"
