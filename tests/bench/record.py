"""What recording adds to a frame at the server: on its event loop, and in the thread that writes.

8,000 nodes with frames of 1,500 values of which every tenth carries 40 % of them and the rest a few, as agents send
whose counters are read every 10 s and whose states are every second.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from fabricmon import frame as wire
from fabricmon.engine.engine import Engine
from fabricmon.frame import Frame
from fabricmon.recording.tape import Tape
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.replay.settings import RecordConfig
from fabricmon.rules.rule import Scope
from tests.bench.frame import VALUES, changed, snapshot

NODES, ROUNDS = 2000, 5
BUSY = 10  # one frame in so many carries the counters


def _frames() -> list[Frame]:
    """One round of frames, decoded from their messages as the server does."""
    rng = np.random.default_rng(5)
    one = snapshot()
    full = wire.encode_delta(changed(one), one.values, one.taken)
    frames = []
    for number in range(NODES):
        if number % BUSY == 0:
            busy = wire.decode(full)
            values = busy.values + rng.integers(0, 10**6, len(busy.values))
            frames.append(Frame(1, 2, 1.8e9, busy.taken, busy.index, values, VALUES))
        else:
            index = np.sort(rng.choice(VALUES, 16, replace=False)).astype(np.uint32)
            frames.append(Frame(1, 2, 1.8e9, np.full(3, 2.0), index, rng.random(16), VALUES))
    return frames


def _feed(engine: Engine, frames: list[Frame], names: list[str]) -> float:
    """Processor microseconds of this thread for a frame."""
    spent = []
    for k in range(ROUNDS):
        begin = time.thread_time_ns()
        for name, frame in zip(names, frames, strict=True):
            engine.frame(name, frame, 1.8e9 + k)
        spent.append((time.thread_time_ns() - begin) / 1e3 / len(frames))
        time.sleep(NODES / 8000)
    return statistics.median(spent)


def main() -> list[tuple[str, float, str]]:
    names = [f"host-{n:04d}" for n in range(NODES)]
    inventory, frames = snapshot().inventory, _frames()
    plain = Engine(Scope.FLEET)
    with tempfile.TemporaryDirectory() as directory:
        tape = Tape(RecordConfig(directory=directory))
        recorded = RecordedEngine(tape, "bench", 1.8e9)
        full = Frame(1, 1, 1.8e9, np.ones(3), None, np.ones(VALUES), VALUES)
        for engine in (plain, recorded):
            for name in names:
                engine.inventory(name, inventory, 1.8e9)
                engine.frame(name, full, 1.8e9)
        time.sleep(2.0)
        before, process, lost = _feed(plain, frames, names), time.process_time(), tape.lost()
        loop = time.thread_time()
        after = _feed(recorded, frames, names)
        mine = time.thread_time() - loop
        tape.close()
        writer = (time.process_time() - process - mine) * 1e6 / (ROUNDS * NODES)
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        small = tape.status.records
    return [
        ("Engine.frame", before, "us CPU"),
        ("Engine.frame of an engine that is recorded", after, "us CPU"),
        ("  of this, recording", after - before, "us CPU (bar 5)"),
        ("the writing thread, compression included", writer, "us CPU a frame"),
        ("records lost", float(tape.lost() - lost), ""),
        ("the recording", size / small, "bytes a record"),
    ]
