"""A simulated RoCE fabric with faults, its agents' pages and a server: `python -m tests.dashboards.plant`.

    --listen ADDR   of the server
    --bench ADDR    a further node that has every counter of the catalogue, at this address; none without it
    --quiet         a fabric without a fault

Runs until it is ended. The first host runs the real agent, so that what only an agent tells of itself is there, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
import time
from array import array
from pathlib import Path

from aiohttp import web

from fabricmon import __version__, config
from fabricmon.agent.app import Agent
from fabricmon.agent.metrics.pages import Pages
from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category, Growth
from fabricmon.central.app import Central
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.runtime import logs
from fabricmon.sim.faults import gpus, hosts, links, switches
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault
from fabricmon.sim.world import World
from fabricmon.simulate.agents import TEXT, Agents
from fabricmon.simulate.host import SimulatedHost
from tests.rigs import served

POLL = 2.0  # seconds between two reads of a node's counters
BENCH = "bench-1"
TROUBLE = b"""\
fabricmon_collector_success{collector="optics"} 0
fabricmon_collector_stuck_devices{collector="optics"} 1
"""
"""What an agent says of a device that hangs."""


def faults(layout: Layout) -> tuple[InjectedFault, ...]:
    """Something of everything, each on a host of its own."""

    def port(host: int, number: int) -> str:
        return layout.port_name(int(layout.first[host]) + number)

    leaf = layout.leaf_name(int(layout.leaf[int(layout.first[20]) + 5]))
    return (
        links.link_errors(layout, port(1, 2), 10, 1e-10),
        links.link_errors(layout, port(2, 3), 15, 1e-11),
        links.link_flap(layout, port(3, 1), 20, (0, 60, 120, 180, 240, 300)),
        links.link_down(layout, port(4, 0), 30),
        links.dirty_optic(layout, port(5, 4), 10, 400, -9.0, 12.0),
        links.slow_link(layout, port(6, 1), 40),
        hosts.pause_storm(layout, port(7, 2), 60, 200),
        hosts.incast(layout, port(8, 6), 120, 24, 300),
        hosts.pcie_retrain(layout, port(9, 3), 50),
        hosts.lossy_nic(layout, port(10, 7), 40),
        hosts.nic_lost(layout, port(11, 1), 70),
        hosts.host_crash(layout, layout.hosts[12], 90),
        hosts.straggler(layout, port(13, 4), 30),
        gpus.nvlink_errors(layout, f"{layout.hosts[14]}/gpu3", 20),
        gpus.nvlink_down(layout, f"{layout.hosts[15]}/gpu5", 60),
        switches.rail_congestion(layout, leaf, 100, 400),
    )


class Bench:
    """A node that has two of everything and every counter of the catalogue: the errors rise slowly, the bytes fast."""

    def __init__(self) -> None:
        port = {"port": "1", "link_layer": "Ethernet", "role": "compute", "board": "MT_0000000838",
                "firmware": "28.39.1002"}  # fmt: skip
        rows = {
            Kind.PORT: [Component(f"mlx5_{n}/1", {**port, "device": f"mlx5_{n}", "netdev": f"eth{n}",
                                                   "neighbour": f"leaf-1/swp{n}",
                                                   "node_guid": f"0000:0000:0000:000{n}"}) for n in range(2)],
            Kind.GPU: [Component(f"gpu{n}", {"gpu": str(n)}) for n in range(2)],
            Kind.NVLINK: [Component(f"gpu{n}/link0", {"gpu": str(n), "link": "0"}) for n in range(2)],
            Kind.PCIE: [Component(f"0000:1{n}:00.0", {"device": f"0000:1{n}:00.0", "class": "nic",
                                                       "owner": f"mlx5_{n}"}) for n in range(2)],
            Kind.NODE: [Component("")],
        }  # fmt: skip
        columns = {kind: tuple(name for name, c in CATALOGUE.items() if c.kind is kind) for kind in rows}
        parts = tuple(Part("bench", kind, columns[kind], tuple(some), 2.0) for kind, some in rows.items())
        self.snapshot = Snapshot(
            Inventory(1, Identity(BENCH, "boot", BENCH, __version__, time.time()), parts), 0, 0.0, [], array("d")
        )
        self._began = time.monotonic()

    def page(self, pages: Pages) -> bytes:
        passed = time.monotonic() - self._began
        values = array("d")
        for part in self.snapshot.inventory.parts:
            for row in range(len(part.components)):
                values.extend(_value(column, row, passed) for column in part.columns)
        self.snapshot.values = values
        self.snapshot.taken = [passed] * len(self.snapshot.inventory.parts)
        return pages(self.snapshot) + TROUBLE


SET = {
    "state": (4, 1), "phys_state": (5, 2), "rate": (50e9, 50e9), "width": (4, 4), "carrier": (1, 0), "admin_up": (1, 1),
    "nvlink_state": (1, 0), "gpu_nvlinks": (18, 18), "gpu_nvlinks_active": (18, 17), "gpu_nvlinks_to_switch": (18, 18),
    "gpu_fabric_state": (3, 2), "gpu_fabric_health_verdict": (1, 2), "gpu_recovery_action": (0, 1),
    "gpu_nvlink_effective_ber": (1e-16, 1e-11), "pcie_path_width": (1, 0.5), "pcie_path_speed": (1, 0.5),
    "module_temperature": (52, 73), "kernel_log_readable": (1, 1), "node_kernel_log_readable": (1, 1),
    "hcas_expected": (8, 8), "hcas_found": (7, 7), "gpus_expected": (8, 8), "gpus_found": (8, 8),
    "nic_temperature": (61, 66), "pfc_enabled": (8, 8), "dscp_trusted": (1, 1), "qos_mtu": (9000, 4200),
}  # fmt: skip
"""Values of levels and states of the first and the second component."""


def _value(column: str, row: int, passed: float) -> float:
    counter = CATALOGUE[column]
    name = column.removeprefix("node_")
    if column in SET or name in SET:
        return float((SET.get(column) or SET[name])[row])
    if "_limit_" in column:
        return {"high_alarm": 75.0, "high_warning": 70.0, "low_alarm": 1e-4, "low_warning": 2e-4}.get(
            counter.labels[0][1] if counter.labels else "", 75.0
        )
    if "power_lane" in column:
        return 1e-3 if row == 0 or not column.endswith("0") else 0.0
    if not counter.growth.counts:
        return 1.0
    if counter.unit == "seconds":
        return passed * 0.3 * (1 + row)
    if counter.growth is Growth.SATURATES and not math.isnan(counter.top):
        return min(passed * 0.2 * (1 + row), counter.top)
    if counter.category is Category.TRAFFIC:
        return passed * 2e9 * (1 + row)
    return passed * (3 + len(column) % 7) * (1 + row)


async def serve(listen: str, bench: str, quiet: bool) -> None:
    logs.configure(level="error")
    layout = Layout.named(
        "rail-optimised", units=2, hosts=16, rails=8, spines=4, gpus=8, storage=0, link_layer="Ethernet"
    )
    world = World(layout, 1, POLL)
    pages = Pages()
    agents = Agents(world, interval=POLL, without=(0,), page=pages)
    await agents.start()
    root = config.load(None, {"agent.listen": ["127.0.0.1:0"]}, uses=("agent", "collect", "rules"))
    own = Agent(root, SimulatedHost(world, 0))
    work = [asyncio.create_task(own.run())]
    await own.listening.wait()
    if bench:
        await _bench(bench, Bench(), pages)
    with tempfile.TemporaryDirectory() as directory:
        targets = {**agents.targets, layout.hosts[0]: str(own.addresses[0])}
        found = Path(directory) / "agents.json"
        found.write_text(json.dumps([{"targets": [a], "labels": {"node": node}} for node, a in targets.items()]))
        central = Central(config.load(None, {
            "central.listen": [listen], "central.state": str(Path(directory) / "state"), "central.fabric": "bench",
            "central.target_files": [str(found)], "central.external_url": f"http://{listen}",
            "central.record.directory": str(Path(directory) / "record"),
            "senders.away": {"kind": "webhook", "url": "http://127.0.0.1:9/"},
            "senders.refuses": {"kind": "webhook", "url": f"http://{listen}/refuses"},
        }))  # fmt: skip
        work.append(asyncio.create_task(central.run()))
        await central.listening.wait()
        await asyncio.sleep(3)
        if not quiet:
            agents.play(faults(layout))
        print("plays", flush=True)
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        for task in work:
            if task.done():
                task.result()


async def _bench(address: str, bench: Bench, pages: Pages) -> None:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=bench.page(pages), headers={"Content-Type": TEXT})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    host, _, port = address.rpartition(":")
    await served.serve(app, host, int(port))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--bench", default="")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    asyncio.run(serve(args.listen, args.bench, args.quiet))
