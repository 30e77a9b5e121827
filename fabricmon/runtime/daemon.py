"""The process of a daemon: SIGTERM and SIGINT stop it, SIGHUP reloads its configuration."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Protocol


class Daemon(Protocol):
    """Serves until it is cancelled. `listening` is set once it serves."""

    listening: asyncio.Event

    async def run(self) -> None: ...

    async def reload(self) -> None: ...

    def stopping(self) -> None:
        """Called after a signal to stop."""


async def serve(daemon: Daemon, stop_limit: float, *beside: Coroutine[Any, Any, None]) -> None:
    """Run a daemon, and the coroutines `beside`, until a signal; returns within `stop_limit` seconds of it even if a
    task hangs. Raises the daemon's exception."""
    loop = asyncio.get_running_loop()
    stop, again = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    serving = asyncio.create_task(daemon.run())
    watching = {asyncio.create_task(stop.wait()), asyncio.create_task(_reload(daemon, again))}
    others = watching | set(map(asyncio.create_task, beside))
    await asyncio.wait({serving, *watching}, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    if not serving.done():
        daemon.stopping()
        serving.cancel()
        await asyncio.wait({serving}, timeout=stop_limit)
    if serving.done() and not serving.cancelled():
        serving.result()


async def _reload(daemon: Daemon, again: asyncio.Event) -> None:
    """Reload after each signal, one at a time; signals meanwhile count as one."""
    await daemon.listening.wait()
    while True:
        await again.wait()
        again.clear()
        await daemon.reload()
