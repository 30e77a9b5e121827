"""A blocking call has a deadline, a thread of its own and no way to hold up anything else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from fabricmon.runtime.reader import Busy, Overdue, Reader, Readers


async def test_a_call_gives_its_result_or_its_error() -> None:
    reader = Reader("r")
    assert await reader.call(lambda: 7, 5.0) == 7
    with pytest.raises(ZeroDivisionError):
        await reader.call(lambda: 1 / 0, 5.0)
    assert await reader.call(threading.current_thread, 5.0) is await reader.call(threading.current_thread, 5.0)
    reader.close()


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
async def test_errors_that_mean_something_else_to_the_loop_arrive_as_plain_ones(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("x")

    reader = Reader("r")
    with pytest.raises(RuntimeError, match=error.__name__):
        await reader.call(fail, 5.0)
    assert await reader.call(lambda: 1, 5.0) == 1
    reader.close()


async def test_a_stuck_call_is_overdue_and_keeps_its_thread_to_itself() -> None:
    gate, late = threading.Event(), Reader("stuck")
    with pytest.raises(Overdue, match="stuck"):
        await late.call(gate.wait, 0.02)
    threads = threading.active_count()
    for _ in range(5):
        with pytest.raises(Busy):
            await late.call(lambda: 1, 0.02)
    assert threading.active_count() == threads
    other = Reader("other")
    assert await other.call(lambda: 2, 5.0) == 2
    gate.set()
    async with asyncio.timeout(60):
        while late.busy:
            await asyncio.sleep(0.005)
    assert await late.call(lambda: 3, 5.0) == 3
    late.close()
    other.close()


async def test_the_late_failure_of_an_overdue_call_is_dropped() -> None:
    gate, reader = threading.Event(), Reader("r")
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))

    def fail() -> None:
        gate.wait()
        raise ValueError("late")

    with pytest.raises(Overdue):
        await reader.call(fail, 0.02)
    gate.set()
    async with asyncio.timeout(60):
        while reader.busy:
            await asyncio.sleep(0.005)
    reader.close()
    assert unhandled == []


async def test_threads_are_bounded_stuck_ones_included_and_come_back() -> None:
    readers, gate = Readers(limit=2), threading.Event()
    a, b = readers.open("a"), readers.open("b")
    assert a is not None
    assert b is not None
    with pytest.raises(Overdue):
        await a.call(gate.wait, 0.02)
    a.close()  # closed, yet its thread is stuck: it still counts
    assert readers.open("c") is None
    b.close()
    async with asyncio.timeout(60):
        while readers.alive == 2:
            await asyncio.sleep(0.005)
        assert readers.open("c") is not None
        gate.set()
        while readers.alive == 2:
            await asyncio.sleep(0.005)


async def test_the_last_thing_runs_after_the_call_that_still_runs() -> None:
    gate, reader, order = threading.Event(), Reader("r"), list[str]()

    def slow() -> None:
        gate.wait()
        order.append("call")

    done = threading.Event()
    with pytest.raises(Overdue):
        await reader.call(slow, 0.02)
    reader.close(lambda: (order.append("last"), done.set()))
    reader.close(lambda: order.append("twice"))
    gate.set()
    assert await asyncio.to_thread(done.wait, 10)
    assert order == ["call", "last"]


def test_a_process_ends_although_a_read_hangs_for_ever() -> None:
    code = (
        "import asyncio, threading\n"
        "from fabricmon.runtime.reader import Overdue, Reader\n"
        "async def main():\n"
        "    try: await Reader('r').call(threading.Event().wait, 0.05)\n"
        "    except Overdue: print('overdue')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("overdue\n", "")
