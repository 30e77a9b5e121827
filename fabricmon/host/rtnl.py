"""Network interfaces over rtnetlink: dumps, and an event for each change.

Sockets and messages are pyroute2's (rtnl_socket.py). They run on one event loop in one daemon thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import importlib
import threading
from collections.abc import Callable
from typing import Any

from fabricmon.host.protocol import HostError, Link, Unsupported

_GROUP_LINK = 1
_LIMIT_SECONDS = 5.0  # for a dump; the kernel may wait for its rtnl lock while a driver resets
_REOPEN_SECONDS = 0.2  # after events were lost; limits the processor time of a storm of events
_EVENT_BUFFER = 1 << 20  # bytes of the kernel's queue of events: about 700 of them


class Rtnetlink:
    """Dumps and events of all interfaces. The thread starts with the first question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: Any = None  # for dumps; used on the loop only
        self._asking: asyncio.Lock | None = None

    def links(self) -> list[Link]:
        """Every interface of this network namespace."""
        where = "rtnetlink RTM_GETLINK"
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(self._dump(), _LIMIT_SECONDS), self._running())
        try:
            return future.result(_LIMIT_SECONDS + 1.0)
        except (TimeoutError, concurrent.futures.CancelledError):
            future.cancel()
            raise HostError(where, errno.ETIMEDOUT, f"no answer within {_LIMIT_SECONDS:g} s") from None
        except OSError as error:
            if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES):
                raise Unsupported(where, error.errno, "rtnetlink is not permitted") from None
            raise HostError(where, error.errno or 0, str(error)) from None
        except Exception as error:  # pyroute2's NetlinkError is not an OSError
            raise HostError(where, getattr(error, "code", 0) or 0, f"{type(error).__name__}: {error}") from None

    def watch(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        """Call `notify(link)` for each RTM_NEWLINK and RTM_DELLINK (the latter with carrier 0) and `notify(None)` where
        some were lost, from the rtnetlink thread; returns the function that stops it."""
        loop = self._running()
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        task = asyncio.run_coroutine_threadsafe(self._listen(notify, ready), loop)
        try:
            ready.result(_LIMIT_SECONDS)
        except TimeoutError:
            task.cancel()
            raise HostError("rtnetlink group LINK", errno.ETIMEDOUT, "cannot join") from None
        except Exception as error:
            raise HostError("rtnetlink group LINK", getattr(error, "errno", 0) or 0, str(error)) from None

        def stop() -> None:
            task.cancel()

        return stop

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        # imports pyroute2 in the caller's thread: seconds on a loaded machine, beyond the limits of the loop
        importlib.import_module("fabricmon.host.rtnl_socket")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name="rtnetlink", daemon=True).start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            loop.close()

    async def _dump(self) -> list[Link]:
        from fabricmon.host.rtnl_socket import links, open_socket  # _running() has imported it

        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if self._socket is None:
                self._socket = open_socket()
            try:
                return await links(self._socket)
            except BaseException:  # after an error or a late answer the socket cannot be used again
                self._socket.close()
                self._socket = None
                raise

    async def _listen(self, notify: Callable[[Link | None], None], ready: concurrent.futures.Future[None]) -> None:
        from fabricmon.host.rtnl_socket import events, open_socket

        while True:
            sock = open_socket(_EVENT_BUFFER)
            try:
                await sock.bind(groups=_GROUP_LINK)
                if ready.done():
                    notify(None)  # messages between the two sockets were lost
                else:
                    ready.set_result(None)
                async for link in events(sock):
                    notify(link)
            except Exception as error:  # usually ENOBUFS: the buffer is full, and pyroute2's socket fails for good
                if not ready.done():
                    ready.set_exception(error)
                    return
            finally:
                sock.close()
            await asyncio.sleep(_REOPEN_SECONDS)
