"""Restart of child tasks. A vital child is a plain task of the TaskGroup: its exception ends the process. A child that
serves one device or one peer runs under `keep`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

MINIMUM_RUN = 5.0
"""Seconds from one start of a child to the next, at least: bounds the cost of a child that fails at once."""


async def keep(
    run: Callable[[], Awaitable[object]],
    failed: Callable[[Exception], None],
    minimum: float = MINIMUM_RUN,
) -> None:
    """Run a child until it returns; after a failure call `failed` and start it again, `minimum` seconds after its last
    start at the earliest.

    A child that fails while this task is cancelled ends it: before Python 3.13 a TaskGroup raises only the failure."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    while True:
        started = loop.time()
        try:
            await run()
        except Exception as e:
            failed(e)
            if task is not None and task.cancelling():
                raise asyncio.CancelledError from e
        else:
            return
        await asyncio.sleep(max(0.0, started + minimum - loop.time()))


def first_cause(error: BaseException) -> BaseException:
    """The first exception in (nested) exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
