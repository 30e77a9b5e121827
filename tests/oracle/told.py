"""What fabricmon reads here, as JSON: GPUs and NVLinks through NVML, or the InfiniBand ports of a tree of files.

    python -m tests.oracle.told nvml          the library that the loader finds first
    python -m tests.oracle.told events N      N Xid errors, as they come
    python -m tests.oracle.told tree SYSFS    a tree of /sys

`after-temperature` as the last argument: the temperatures are asked first, as by another program. nvml-mock counts
these calls, not the ones of fabricmon, until a failure begins.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import sys
from typing import Any

from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Event, Reading

PORTS = ("infiniband_state", "infiniband", "infiniband_errors", "infiniband_rare")
LIMIT = 20.0  # seconds to wait for an event


def _cells(reading: Reading) -> dict[str, dict[str, Any]]:
    """Row -> its labels and known values."""
    found: dict[str, dict[str, Any]] = {}
    at = 0
    for part in reading.parts:
        for row in part.components:
            values = dict(zip(part.columns, reading.values[at : at + len(part.columns)], strict=True))
            at += len(part.columns)
            into = found.setdefault(row.name, {})
            into |= row.labels | {column: value for column, value in values.items() if not math.isnan(value)}
    return found


def read(host: Host, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Every row; "error" where a device does not answer, "faults" where some of its values do not."""
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        module = COLLECTORS[name]
        for device, session in module.open(host, module.config()).sessions().items():
            try:
                reading = session.read()
            except HostError as error:
                rows.setdefault(device, {})[f"error of {name}"] = error.text
                continue
            for row, cells in _cells(reading).items():
                rows.setdefault(row, {}).update(cells)
            if reading.faults:
                rows.setdefault(device, {})[f"faults of {name}"] = [fault.error for fault in reading.faults]
    return rows


def events(count: int) -> list[dict[str, Any]]:
    module = COLLECTORS["gpu"]
    heard: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    stop = module.open(LiveHost(), module.config()).watch(heard.put)
    found = []
    for _ in range(count):
        event = heard.get(timeout=LIMIT)
        assert event is not None
        found.append({"row": event.component, "kind": event.kind, **event.fields})
    stop()
    return found


def ask_temperatures() -> None:
    import pynvml

    pynvml.nvmlInit()
    for index in range(pynvml.nvmlDeviceGetCount()):
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlDeviceGetTemperature(pynvml.nvmlDeviceGetHandleByIndex(index), pynvml.NVML_TEMPERATURE_GPU)


def main(arguments: list[str]) -> None:
    if arguments[-1] == "after-temperature":
        ask_temperatures()
    if arguments[0] == "events":
        told: Any = events(int(arguments[1]))
    elif arguments[0] == "tree":
        told = read(LiveHost(arguments[1], f"{arguments[1]}/proc", "n1"), PORTS)
    else:
        told = read(LiveHost(), ("gpu", "nvlink"))
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
