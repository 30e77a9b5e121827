"""Runs inside the test VM: sets what pretend mlx5-like ports show through ethtool and dcbnl, beside a real agent.

It only writes what was set, what the agent's page said and what its stream sent into /out; the tests on
the outside compare. Everything the VM does is in `main`, in order.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from fabricmon.collect import COLLECTORS
from tests.vm.guest import FAKE, OUT, PATIENCE, page, put, say, sh, wait_page

PORTS = [f"fabeth{n}" for n in range(8)]
ODD, SMALL, SLOW, DOWN, MODULE = "fabeth5", "fabeth6", "fabeth2", "fabeth7", "fabeth0"
ADDRESS = "127.0.0.1:9790"
READ = {"roce": "2s", "ethernet_phy": "3s", "qos": "4s", "optics": "5s", "ethernet": "5s"}
SETTINGS = {"carrier", "mbps", "lanes", "pfc_en", "ext_state", "ext_substate", "delay_ms", "unsupported", "pause_rx",
            "pause_tx", "names_follow_pfc"}  # fmt: skip


def names(port: str) -> list[str]:
    """Everything that counts on a pretend port."""
    found = [row.split()[0] for row in (FAKE / port / "set").read_text().splitlines()]
    return [name for name in found if name not in SETTINGS and not name.startswith("ets_")]


def start_agent() -> subprocess.Popen[bytes]:
    lines = ["agent: {evaluate: false}", "collect:"]
    lines += [f"  {name}: {{interval: {every}, deadline: 3s}}" for name, every in READ.items()]
    lines += [f"  {name}: {{enabled: false}}" for name in COLLECTORS if name not in READ]
    config = Path("/run/agent.yaml")
    config.write_text("\n".join(lines) + "\n")
    log = (OUT / "agent-ethernet.log").open("wb")
    command = [sys.executable, "-m", "fabricmon.cli", "agent", "--config", str(config), "--listen", ADDRESS]
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def module() -> bytes:
    """An OSFP module's memory: the lower half, then the upper half of each page."""
    memory = bytearray(128 * 257)

    def upper(page: int, at: int, raw: bytes) -> None:
        start = 128 * (1 + page) + at - 128
        memory[start : start + len(raw)] = raw

    memory[0:4] = bytes((0x19, 0x52, 0, 0b0111))
    memory[14:18] = struct.pack(">hH", 54 * 256, 33000)
    upper(0, 129, b"MAKER".ljust(16))
    upper(0, 210, b"\xf0")
    upper(1, 159, bytes((3, 7)))
    upper(2, 128, struct.pack(">4h", 75 * 256, -5 * 256, 70 * 256, 0))
    for n, base in enumerate((10000, 4000, 9000)):
        upper(0x11, 154 + 16 * n, struct.pack(">8H", *(base + lane for lane in range(8))))
    return bytes(memory)


def mixed(duration: float) -> list[str]:
    """Pages while flow control of one port moves on through five priorities.

    Names that are equal before and after a read tell that nothing moved between, unless everything moved and came back.
    An operator cannot do that within one read; here it would take a whole turn of a second.
    """
    pages, until, n = [], time.monotonic() + duration, 0
    while time.monotonic() < until:
        n += 1
        put("fabeth1", pfc_en=8 << n % 5)
        if n % 5 == 0:
            pages.append(page(ADDRESS))
        time.sleep(0.2)
    put("fabeth1", pfc_en=8)
    say(f"flow control moved {n} times")
    return pages


async def flap() -> dict[str, object]:
    """Seconds from a lost carrier until the stream tells of it."""
    async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{ADDRESS}/stream", max_msg_size=0) as ws:
        begun = 0.0
        async for message in ws:
            if message.type is aiohttp.WSMsgType.BINARY and not begun:
                begun = time.monotonic()
                put("fabeth4", carrier=0)
            elif message.type is aiohttp.WSMsgType.TEXT and "mlx5_4/1" in message.data:
                told = json.loads(message.data)
                if told.get("type") == "event":
                    return {"seconds": time.monotonic() - begun, "event": told}
    return {}


def main() -> None:
    if FAKE.exists():
        sh("rmmod fabfake")  # as another script left it
    sh("modprobe fabfake roce=8 ib=1")
    for port in PORTS:
        sh(f"ip link set {port} up")
        sh(f"dcb app add dev {port} dscp-prio 26:3")
    sh(f"ip link set {SMALL} mtu 1500")
    put(ODD, pfc_en=16)
    put("fabeth3", pause_rx=1, ets_bw3=60, ets_tsa3=2)
    (FAKE / MODULE / "eeprom").write_bytes(module())

    facts: dict[str, object] = {"ports": PORTS, "kernel": os.uname().release}
    values = {port: {name: 1_000_000 * (i + 1) + 17 * j for j, name in enumerate(names(port))}
              for i, port in enumerate(PORTS)}  # fmt: skip
    for port in PORTS:
        values[port] |= {"outbound_pci_stalled_rd": 7, "outbound_pci_stalled_wr": 9}
        put(port, **values[port])
    facts["set"] = values

    agent = start_agent()
    try:
        last = ("port_pfc_rx_frames_total", "port_fec_corrected_blocks_total", "port_qos_fingerprint")
        ready = [f'{name}{{device="mlx5_{n}"' for n in range(8) for name in last]
        text = wait_page(agent, ADDRESS, "all ports read", *ready, "module_temperature_celsius")
        (OUT / "first.prom").write_text(text)

        say("flow control moves between priorities")
        for port in PORTS:
            put(port, names_follow_pfc=1)
        shown = 'port_pfc_rx_frames_total{device="mlx5_1",port="1",priority="%d"}'
        for enabled, (there, away) in {8: (3, 4), 16: (4, 3), 24: (3, 5), 8 + 128: (7, 4)}.items():
            put("fabeth1", pfc_en=enabled)
            text = wait_page(agent, ADDRESS, f"bitmap {enabled}", shown % there, without=(shown % away,))
            (OUT / f"pfc-{enabled}.prom").write_text(text)
        for n, text in enumerate(mixed(8.0)):
            (OUT / f"mixed-{n}.prom").write_text(text)
        put("fabeth1", pfc_en=8)

        say("one driver is slow, one link has no cable")
        put(SLOW, delay_ms=2500)
        put(DOWN, ext_state=4, carrier=0)
        for port in PORTS:
            put(port, rx_discards_phy=77_000 + int(port[-1]))
        fresh = [f'phy_rx_discards_total{{device="mlx5_{n}",port="1"}} {77_000 + n}\n' for n in range(8) if n != 2]
        text = wait_page(agent, ADDRESS, "all others moved on", *fresh, 'link_down_reason{device="mlx5_7"')
        (OUT / "slow.prom").write_text(text)
        put(SLOW, delay_ms=0)

        facts["flap"] = asyncio.run(asyncio.wait_for(flap(), PATIENCE))
        say(f"a lost carrier was told after {1000 * facts['flap']['seconds']:.0f} ms")  # type: ignore[index]
    finally:
        agent.terminate()
        facts["exit"] = agent.wait(PATIENCE)
        (OUT / "facts-ethernet.json").write_text(json.dumps(facts))
    say("done")


main()
