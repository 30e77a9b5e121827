"""The reserve of descriptors, in a process of its own whose limit is low."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROCESS = """
import asyncio, io, os, resource
from fabricmon.runtime import logs
from fabricmon.runtime.descriptors import ACCEPTED, RETRY, SHARE, SIZE, DescriptorReserve

lines = io.StringIO()
logs.configure(stream=lines)
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

def take(most):
    got = []
    try:
        while len(got) < most:
            got.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    return got

def give(got):
    for each in got:
        os.close(each)

async def main():
    loop = asyncio.get_running_loop()
    reserve = DescriptorReserve()
    assert not reserve.short and reserve.available() and not reserve.warnings()
    with reserve.lent():
        assert not reserve.short, "others are free"
    others = take(1000)
    assert not reserve.available()
    for _ in range(3):
        with reserve.lent():
            got = take(1000)
            assert len(got) == SHARE
            give(got)
        assert not reserve.short, "taken back"
    assert "128" in reserve.warnings()[0]
    waiting = asyncio.create_task(reserve.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()

    # asyncio cannot accept: a few are given up, and kept free until it has tried again
    reserve.refused(loop, {"exception": OSError(24, "Too many open files"), "message": "accept"})
    reserve.refused(loop, {"exception": OSError(24, "Too many open files"), "message": "accept"})
    assert reserve.short
    reserve.fill(loop.time())
    accepted = take(1000)
    assert len(accepted) == ACCEPTED
    give(accepted)
    reserve.fill(loop.time() + 3 * RETRY)
    assert not reserve.short

    # what was given up and is gone is taken back as soon as it is free
    with reserve.lent():
        lost = take(1000)
    assert reserve.short
    give(lost)
    give(others)
    reserve.fill(loop.time() + 3 * RETRY)
    assert not reserve.short
    async with asyncio.timeout(60):
        await waiting
        watching = asyncio.create_task(reserve.watch())
        while reserve.warnings():
            await asyncio.sleep(0.01)
    watching.cancel()
    seen = []
    loop.set_exception_handler(reserve.refused)
    loop.default_exception_handler = seen.append
    loop.call_exception_handler({"message": "another defect", "exception": ValueError()})
    assert len(seen) == 1, "other errors are reported as before"
    reserve.close()
    print(lines.getvalue().count("out of file descriptors"), lines.getvalue().count(chr(10)))

asyncio.run(main())
"""


def test_the_reserve_is_lent_taken_back_and_reported_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1"], "one line for all of it"


@pytest.mark.parametrize("hard", [300, 1000])
def test_a_server_raises_its_limit_as_far_as_it_may(hard: int) -> None:
    code = (
        "import resource as r; from fabricmon.runtime.descriptors import limit, raise_limit;"
        f"r.setrlimit(r.RLIMIT_NOFILE, (200, {hard})); raise_limit(); print(limit())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) == hard


def test_what_numpy_imports_late_is_there_before_descriptors_run_out() -> None:
    code = (
        "import resource as r, numpy as np, fabricmon.fleet.table;"
        "r.setrlimit(r.RLIMIT_NOFILE, (3, 3)); print(len(np.unique(np.ones(3))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "1\n", done.stderr
