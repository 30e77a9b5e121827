"""Machines of files of which some cannot be read: what decides about a component is never guessed, and nothing else is
lost.

Each tree is a machine of three adapters; one to three things of it are spoilt, each a file, all error counters of a
port, or a directory. What decides is written down here, not taken from the catalogue.
"""

from __future__ import annotations

import asyncio
import math
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from fabricmon.agent.node import LocalNode, NodeSettings, identify
from fabricmon.agent.readings.report import Health
from fabricmon.agent.settings import AgentConfig
from fabricmon.collect import COLLECTORS
from fabricmon.commands.check import CODES
from fabricmon.host.live import LiveHost
from tests.host.trees import HW, PMA, build_hca_tree, link, put
from tests.rigs.spoilt_files import HOW, spoil

ERRORS = {
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors",
    "resp_local_length_error", "resp_cqe_error", "req_cqe_error", "req_remote_invalid_request",
    "req_remote_access_errors", "resp_remote_access_errors", "resp_cqe_flush_error", "req_cqe_flush_error",
    "req_transport_retries_exceeded", "req_rnr_retries_exceeded",
}  # fmt: skip
"""Files of error counters of an InfiniBand port."""

PCIE = {"current_link_speed", "current_link_width", "max_link_speed", "max_link_width"}
SHOWN = {"state", "phys_state", "rate", "lid", "sm_lid"}
DEVICES = 3


class Spoilt(NamedTuple):
    """Below the root: what was spoilt and how, and whether a component cannot be checked without it."""

    paths: frozenset[str]
    how: str
    decides: bool


def build(tree: Path) -> None:
    build_hca_tree(tree, devices=DEVICES, netdevs=False)
    for n in range(DEVICES):
        function = next(tree.glob(f"devices/pci*/*/*/infiniband/mlx5_{n}")).parent.parent
        for of in (function, function.parent):
            for name, text in (("current_link_speed", "32.0 GT/s PCIe"), ("current_link_width", "16"),
                               ("max_link_speed", "32.0 GT/s PCIe"), ("max_link_width", "16")):  # fmt: skip
                put(of / name, f"{text}\n")
        put(function / "class", "0x020700\n")
        put(function / "vendor", "0x15b3\n")
        put(function / "aer_dev_correctable", "RxErr 0\nTOTAL_ERR_COR 0\n")
        link(tree / f"bus/pci/devices/{function.name}", function)
        link(tree / f"bus/pci/devices/{function.parent.name}", function.parent)


def function_of(tree: Path, n: int) -> Path:
    return next(tree.glob(f"devices/pci*/*/*/infiniband/mlx5_{n}")).parent.parent


def choose(tree: Path, rng: random.Random) -> Spoilt:
    """One thing to spoil."""
    how = rng.choice(list(HOW))
    n = rng.randrange(DEVICES)
    function = function_of(tree, n)
    port = function / f"infiniband/mlx5_{n}/ports/1"
    sort = rng.choice(("state", "layer", "errors", "some", "counter", "shown", "pcie", "port", "directory", "class"))
    folders = {"counters": PMA, "hw_counters": HW}
    counters = [port / folder / name for folder, names in folders.items() for name in names]
    paths, decides = {
        "state": ([port / "state"], True),
        "layer": ([port / "link_layer"], how not in ("binary", "not available")),
        "errors": ([path for path in counters if path.name in ERRORS], True),
        "some": (rng.sample([path for path in counters if path.name in ERRORS], len(ERRORS) - 1), False),
        "counter": ([rng.choice(counters)], False),
        "shown": ([port / rng.choice(sorted(SHOWN - {"state"}))], False),
        # a speed or width that does not exist is one that the machine does not show
        "pcie": ([rng.choice([function, function.parent]) / rng.choice(sorted(PCIE))], how != "gone"),
        "port": ([path for path in port.iterdir() if path.is_file() and path.name != "link_layer"] + counters, True),
        "directory": ([port / "counters", port / "hw_counters"], True),
        "class": ([function / "class"], how != "gone"),
    }[sort]
    return Spoilt(frozenset(str(path.relative_to(tree)) for path in paths), how, decides)


async def read(tree: Path) -> tuple[Health, dict[tuple[str, str], float]]:
    """The health of the machine, and every value by row and column."""
    host = LiveHost(str(tree), str(tree / "proc"), "n1")
    settings = NodeSettings(AgentConfig(), {}, {})
    kinds = {name: kind for name, kind in COLLECTORS.items() if not kind.wide and name != "kernel_log"}
    node = LocalNode(settings, host, await identify(host, "n1"), kinds, at_once=True)
    reads = asyncio.create_task(node.schedule.run())
    await asyncio.wait_for(node.schedule.board.first_round.wait(), 240)
    node.tick()
    health, snapshot = node.health(), node.state.snapshot
    reads.cancel()
    await asyncio.gather(reads, return_exceptions=True)
    host.close()
    cells = [(c.name, column) for p in snapshot.inventory.parts for c in p.components for column in p.columns]
    values: dict[tuple[str, str], float] = {}
    for cell, value in zip(cells, snapshot.values, strict=True):
        if not math.isnan(value) or cell not in values:
            values[cell] = value
    return health, values


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("machine") / "sys"
    build(tree)
    return tree


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


Values = dict[tuple[str, str], float]


async def tried(machine: Path, before: Values, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    tree = folder / "sys"
    shutil.copytree(machine, tree, symlinks=True)
    things = [choose(tree, rng) for _ in range(rng.randint(1, 3))]
    for thing in things:
        for path in sorted(thing.paths):
            if (tree / path).exists() and not (tree / path).is_fifo():
                spoil(tree / path, thing.how)
    health, values = await read(tree)
    # a function whose class is gone is none that is checked, whatever else of it is spoilt
    gone = {path.removesuffix("class") for thing in things if thing.how == "gone" for path in thing.paths
            if path.endswith("/class")}  # fmt: skip
    if any(thing.decides and not {f"{path.rpartition('/')[0]}/" for path in thing.paths} <= gone for thing in things):
        assert CODES[health.status] != 0, (seed, things)
        assert health.reason or health.symptoms, (seed, things)
    # what was not spoilt is not lost: rows of adapters without a spoilt file have all their values
    touched = {n for n in range(DEVICES) for thing in things for path in thing.paths
               if str(function_of(machine, n).parent.relative_to(machine)) in path}  # fmt: skip
    for n in set(range(DEVICES)) - touched:
        address = function_of(machine, n).name
        mine = {cell: value for cell, value in before.items() if cell[0] in (f"mlx5_{n}/1", address)}
        lost = {cell: values.get(cell, math.nan) for cell, value in mine.items()
                if not same(values.get(cell, math.nan), value)}  # fmt: skip
        assert lost == {}, (seed, things)
    names = {Path(path).name for thing in things for path in thing.paths}
    if len(things) == 1 and names <= (set(PMA) | set(HW)):
        lost_values = [c for c, v in before.items() if not math.isnan(v) and math.isnan(values.get(c, math.nan))]
        assert len(lost_values) == len(names), (seed, things, lost_values)
    shutil.rmtree(tree)


async def test_a_whole_machine_is_checked(machine: Path) -> None:
    health, values = await read(machine)
    assert (health.status, health.unread) == ("pass", ())
    assert {(one.technology, one.checked, one.unknown) for one in health.checked} == {
        ("infiniband", DEVICES, 0), ("pcie", DEVICES, 0)
    }
    assert sum(not math.isnan(value) for value in values.values()) > 150


@pytest.mark.parametrize("seeds", [range(25)], ids=["25"])
async def test_no_unreadable_file_that_decides_is_ok(machine: Path, tmp_path: Path, seeds: range) -> None:
    _, before = await read(machine)
    for seed in seeds:
        await tried(machine, before, tmp_path, seed)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seeds", [range(1000, 1500)], ids=["500"])
async def test_no_unreadable_file_that_decides_is_ok_in_500_trees(
    machine: Path, tmp_path: Path, seeds: range
) -> None:
    _, before = await read(machine)
    for seed in seeds:
        await tried(machine, before, tmp_path, seed)
