"""Keeping children alive: what serves one remote thing is restarted, what the process cannot do without ends it.

Both live in one TaskGroup. A child that the process cannot do without is a plain task there: its exception ends
the group and with it the process. A child that serves one device or one peer runs under `keep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

MINIMUM_RUN = 5.0
"""Seconds from one start of a kept child to the next, at least: a child that fails at once costs next to nothing."""


async def keep(
    run: Callable[[], Awaitable[object]],
    failed: Callable[[Exception], None],
    minimum: float = MINIMUM_RUN,
) -> None:
    """Run a child for ever; start it anew when it fails, never sooner than `minimum` seconds after its last start.

    `failed` is told each failure. Returns when the child returns; cancellation goes through.
    """
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        try:
            await run()
        except Exception as e:
            failed(e)
        else:
            return
        await asyncio.sleep(max(0.0, started + minimum - loop.time()))


def first_cause(error: BaseException) -> BaseException:
    """The exception that a person should read first out of (nested) exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
