"""A kept child is restarted, not faster than its minimum; its end and a cancellation are respected."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fabricmon.runtime.supervise import first_cause, keep


async def test_a_failing_child_is_restarted_but_not_in_a_loop() -> None:
    starts: list[float] = []
    failures: list[Exception] = []
    loop = asyncio.get_running_loop()

    async def child() -> None:
        starts.append(loop.time())
        raise OSError("refused")

    task = asyncio.create_task(keep(child, failures.append, minimum=0.05))
    while len(starts) < 4:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(b - a >= 0.049 for a, b in pairwise(starts))
    assert len(failures) >= 3


async def test_a_child_that_returns_is_not_restarted() -> None:
    runs: list[int] = []

    async def child() -> None:
        runs.append(1)

    await keep(child, lambda e: None, minimum=0.0)
    assert runs == [1]


def test_the_first_cause_is_found_in_nested_groups() -> None:
    inner = ValueError("x")
    assert first_cause(ExceptionGroup("a", [ExceptionGroup("b", [inner, OSError()])])) is inner
    assert first_cause(inner) is inner


async def test_a_cancelled_child_that_fails_on_its_way_out_is_not_restarted() -> None:
    """A child whose task group fails while it is cancelled reports the failure and ends all the same."""
    failures: list[Exception] = []
    running = asyncio.Event()

    async def stubborn() -> None:
        try:
            running.set()
            await asyncio.sleep(60)
        finally:
            raise OSError("the device is gone")

    async def child() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stubborn())

    task = asyncio.create_task(keep(child, failures.append, minimum=0.0))
    await running.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=120)
    assert done
    assert task.cancelled()
    assert [type(first_cause(e)) for e in failures] == [OSError]
