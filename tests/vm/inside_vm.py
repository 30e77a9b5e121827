"""Runs inside the test VM (tests/rigs/rdma_vm): drives the kernel's fake and soft RDMA ports beside real agents.

It only writes what was set, what the agents' pages said and what their streams sent into /out; the tests
on the outside compare. Everything the VM does is in `main`, in order.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from tests.vm.guest import FAKE, OUT, PATIENCE, metric, put, run, say, sh, wait_page

SYSFS = Path("/sys/class/infiniband")
ELSEWHERE = Path("/run/elsewhere")  # the same /sys below another root: there an agent may use files only
ROCE, IB = 8, 1
DEVICES = [f"mlx5_{n}" for n in range(ROCE + IB)]
SLOW, FAILING = "mlx5_2", "mlx5_3"
RXE = ("rxe0", "rxe1")
NETEM = {"clean": "", "loss": "loss 2%", "reordering": "delay 10ms reorder 5%"}  # on the wire from rxe0 to rxe1
MOVED = ("sent_pkts", "rcvd_pkts", "out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err")
NETLINK, FILES = "127.0.0.1:9790", "127.0.0.1:9792"
AGENTS: dict[str, subprocess.Popen[bytes]] = {}
STATE_WORDS = {"state", "phys_state", "speed", "width", "lid", "sm_lid", "delay_ms", "fail"}


def names(device: str) -> list[str]:
    """Counters of a fake port: PMA counters first, then hw_counters."""
    rows = (FAKE / device / "set").read_text().splitlines()
    return [row.split()[0] for row in rows if row.split()[0] not in STATE_WORDS]


def shown(device: str) -> list[str]:
    """How the samples of every counter of a fake port begin on the page."""
    return [f'{metric(name)}{{device="{device}"' for name in names(device)]


def start_agent(address: str, *flags: str) -> None:
    config = Path("/run/agent.yaml")
    config.write_text(
        "agent: {evaluate: false}\n"  # only reading is tested; evaluation costs the emulated machine time
        "collect:\n"
        "  infiniband: {interval: 3s, deadline: 3s}\n"
        "  infiniband_errors: {interval: 3s, deadline: 3s}\n"
        "  infiniband_rare: {interval: 3s, deadline: 3s}\n"
        "  infiniband_state: {interval: 1s, deadline: 3s}\n"
        "  ethernet: {interval: 5s, rediscover: 5s}\n"  # its start may take longer here than the agent waits for it
    )
    log = (OUT / f"agent-{address.rpartition(':')[2]}.log").open("wb")
    command = [sys.executable, "-m", "fabricmon.cli", "agent", "--config", str(config), "--listen", address, *flags]
    AGENTS[address] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


async def link_events(fresh: asyncio.Event) -> list[dict[str, object]]:
    """Text messages of the stream from now until an event tells of the first port."""
    told: list[dict[str, object]] = []
    async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{NETLINK}/stream", max_msg_size=0) as ws:
        async for message in ws:
            if message.type is aiohttp.WSMsgType.BINARY:
                fresh.set()  # the greeting is over: what comes now is live
            elif message.type is aiohttp.WSMsgType.TEXT:
                told.append(json.loads(message.data))
                if told[-1].get("type") == "event" and "mlx5_0" in message.data:
                    break
    return told


async def flap() -> list[dict[str, object]]:
    fresh = asyncio.Event()
    listening = asyncio.create_task(link_events(fresh))
    await asyncio.wait_for(fresh.wait(), PATIENCE)
    put("fabeth0", carrier=0)
    return await asyncio.wait_for(listening, PATIENCE)


def files(device: str, directory: str) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in (SYSFS / device / "ports/1" / directory).iterdir()}


def counted() -> dict[str, dict[str, str]]:
    return {device: files(device, "hw_counters") for device in RXE}


def settled() -> dict[str, dict[str, str]]:
    """Counters of the two soft-RoCE ports when they stand still: what was on the wire at the end has arrived."""
    before, end = counted(), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(1)
        now = counted()
        if now == before:
            return now
        before = now
    raise SystemExit("soft-RoCE does not come to rest")


def traffic(name: str, netem: str) -> dict[str, object]:
    """Messages from rxe0 to rxe1 over a wire that does as `netem` says, and the page when it shows what they moved."""
    say(f"RDMA traffic over soft-RoCE, {name}")
    before = counted()
    if netem:
        sh(f"tc qdisc add dev v0 root netem {netem}")
    perftest = run("rxe-pair bw 300 4096")
    if netem:
        sh("tc qdisc del dev v0 root")
    after = settled()
    told = {device: json.loads(sh(f"rdma -j statistic show link {device}/1"))[0] for device in RXE}
    moved = [f'{metric(key)}{{device="{device}",port="1"}} {value}\n' for device, counters in after.items()
             for key, value in counters.items() if key in MOVED]  # fmt: skip
    (OUT / f"traffic-{name}.prom").write_text(wait_page(AGENTS[NETLINK], NETLINK, "counted", *moved))
    return {"exit": perftest.returncode, "told": perftest.stdout + perftest.stderr, "before": before, "after": after,
            "rdma": told}  # fmt: skip


def main() -> None:
    sh(f"modprobe fabfake roce={ROCE} ib={IB}")
    for n in range(ROCE):
        sh(f"ip link set fabeth{n} up")
    sh("rxe-pair up")
    ELSEWHERE.mkdir()
    sh(f"mount --rbind /sys {ELSEWHERE}")

    facts: dict[str, object] = {"devices": DEVICES, "slow": SLOW, "failing": FAILING, "kernel": os.uname().release}
    # a value of its own for every counter; 3 bits are the most that the narrowest (4 bits) holds without being full
    first = {d: {name: 1 + (17 * i + 31 * j) % 7 for j, name in enumerate(names(d))} for i, d in enumerate(DEVICES)}
    for i, device in enumerate(DEVICES):
        first[device].update(port_xmit_data=10**12 + i, port_rcv_packets=2**40 + i, np_cnp_sent=70_000 + i)
        first[device].update(symbol_error=600 + i, port_xmit_wait=10**9 + i)
        put(device, **first[device])
    put("mlx5_8", link_downed=999)  # wider than its 8 bits: the kernel shows 255
    facts["first"] = first

    try:
        ready = [f'port_{name}{{device="{d}"' for d in DEVICES for name in ("state", "rate_bytes_per_second")]
        ready += [start for device in DEVICES for start in shown(device)]
        elsewhere = ("--path.sysfs", str(ELSEWHERE))
        for address, kind, flags in ((FILES, "files", elsewhere), (NETLINK, "netlink", ())):
            start_agent(address, "--node", "vm", *flags)
            (OUT / f"first-{kind}.prom").write_text(wait_page(AGENTS[address], address, "all ports read", *ready))

        AGENTS.pop(FILES).terminate()  # what follows needs one agent; two cost the emulated machine time

        say("one port slow, one failing, the others move")
        put(SLOW, delay_ms=4000)
        put(FAILING, fail=110)
        moved = {device: {**first[device], "symbol_error": 700 + i} for i, device in enumerate(DEVICES)}
        for device in DEVICES:
            put(device, symbol_error=moved[device]["symbol_error"])
        facts["moved"] = moved
        healthy = [device for device in DEVICES if device not in (SLOW, FAILING)]
        fresh = [f'symbol_errors_total{{device="{d}",port="1"}} {moved[d]["symbol_error"]}\n' for d in healthy]
        time.sleep(6)  # longer than the slow port's answer and the failing port's period: their worst is visible now
        told = f'collector_device_faults{{collector="infiniband_errors",device="{FAILING}"'
        text = wait_page(AGENTS[NETLINK], NETLINK, "healthy ports moved on", *fresh, told, without=shown(FAILING))
        (OUT / "faulty.prom").write_text(text)

        say("both well again")
        put(SLOW, delay_ms=0)
        put(FAILING, fail=0)
        fresh = [f'symbol_errors_total{{device="{d}",port="1"}} {moved[d]["symbol_error"]}\n' for d in DEVICES]
        fresh += [start for device in (SLOW, FAILING) for start in shown(device)]
        (OUT / "recovered.prom").write_text(wait_page(AGENTS[NETLINK], NETLINK, "all ports read again", *fresh))

        facts["traffic"] = {name: traffic(name, netem) for name, netem in NETEM.items()}

        wait_page(AGENTS[NETLINK], NETLINK, "interfaces are watched", 'port_carrier{device="mlx5_0",port="1"} 1')
        say("a carrier flap")
        facts["events"] = asyncio.run(flap())
        facts["down"] = sh("cat /sys/class/net/fabeth0/carrier").strip()
    finally:
        for process in AGENTS.values():
            process.terminate()
        facts["exit"] = [process.wait(PATIENCE) for process in AGENTS.values()]
        (OUT / "facts.json").write_text(json.dumps(facts))
    say("done")


main()
