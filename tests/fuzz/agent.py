"""What a hostile agent may say, as bytes decide: inventories, frames and events that are well-formed and hold anything.

`attack(data)` gives them to the real `Pull` beside a healthy node, evaluates, and forgets the agent. No socket is
opened: the stream's messages come from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from fabricmon import frame
from fabricmon.catalogue import CATALOGUE
from fabricmon.central.streams.connection import MessageKind
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.streams.stream import Ended, Stream
from fabricmon.central.targets.discovery import Target
from fabricmon.engine.engine import Engine
from fabricmon.frame import FrameError
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.rules.rule import Scope
from tests.hostile.good import good_part

NOW = 1.7e9
NAMES = (
    "mlx5_0/1", "mlx5_1/1", "gpu0", "gpu0/link1", "0000:17:00.0", "", "a/b/c", "mlx5_0/1>good-0/mlx5_0/1", "eth0",
    "x" * 253, "x" * 254, "\n", "é", "mlx5_0/" + "9" * 30, "../../etc", "leaf-1/1",
)  # fmt: skip
LABELS = (
    "device", "port", "node_guid", "port_guid", "remote_guid", "remote_port", "swept", "ports", "link_layer", "role",
    "peer", "path", "bond", "cluster", "clique", "pci", "gpu", "numa", "lldp_chassis", "lldp_port", "firmware",
)  # fmt: skip
TEXTS = (
    "1", "0", "-1", "999999", "9" * 7, "9" * 5000, "mlx5_0", "0x000000000000b000", "zz", "", "InfiniBand", "Ethernet",
    "switch", "adapter", "compute", "good-0", "mlx5_0/1", "a:33 b:1", "PIX", "\x1b[2J", "<script>", "٣", "1e99",
)  # fmt: skip
NUMBERS = (
    0.0, 1.0, 4.0, 5.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**53, 2.0**64, 1e21, 3e21,
    50e9, 0.5,
)  # fmt: skip
COLUMNS = (
    "state", "phys_state", "link_downed", "rate", "symbol_errors", "xmit", "rcv", "xmit_wait_ticks", "carrier",
    "netdev_rate", "cnp_sent", "pfc_rx_pause_prio3", "module_temperature", "module_rx_power_lane0", "nvlink_state",
    "nvlink_crc_errors", "gpu_xid_events", "gpu_nvlinks_active", "pcie_speed", "pcie_aer_fatal_FCP", "flow_packets",
    "flow_lost", "node_hcas_expected", "node_hcas_found", "raw:hw_counters/x", "raw:hw_counters/y", "unknown", "",
    "presence",
)  # fmt: skip
"""Each also has a number in files of the corpus, which does not change when the catalogue grows; all others of the
catalogue come after them."""
EVERY = tuple(CATALOGUE)
KINDS = (Kind.PORT, Kind.NVLINK, Kind.GPU, Kind.PCIE, Kind.NODE, Kind.FLOW)
COLLECTORS = (
    "infiniband", "infiniband_state", "infiniband_errors", "ethernet", "roce", "qos", "optics", "gpu", "nvlink", "pcie",
    "fabric", "kernel_log", "inventory", "flow", "neighbours", "later", "",
)  # fmt: skip


class Choices:
    """Bytes as choices; zeros after their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def below(self, number: int) -> int:
        """0 to `number` - 1."""
        wide = 2 if number > 256 else 1
        piece = self._data[self._at : self._at + wide]
        self._at += wide
        return int.from_bytes(piece, "big") % number

    def of(self, these: Any) -> Any:
        return these[self.below(len(these))]


def _column(choose: Choices) -> str:
    found: str | None = choose.of((*COLUMNS, None))
    return str(choose.of(EVERY)) if found is None else found


def _part(choose: Choices) -> Part:
    kind, collector = choose.of(KINDS), choose.of(COLLECTORS)
    columns = tuple(_column(choose) for _ in range(choose.below(6)))
    components = tuple(
        Component(choose.of(NAMES), {choose.of(LABELS): choose.of(TEXTS) for _ in range(choose.below(5))})
        for _ in range(choose.below(4))
    )
    return Part(collector, kind, columns, components, choose.of((0.5, 1.0, 10.0, 0.0, -1.0, 86401.0)))


def _messages(choose: Choices, node: str) -> Iterator[str | bytes]:
    """An inventory, then whatever comes; after a goodbye perhaps nothing, so that the next stream has the rest."""
    number, snapshot = 1, None
    while number == 1 or choose.more():
        what = choose.below(8) if number > 1 else 0
        if what == 0:
            own = (good_part(1),) if choose.below(2) else ()
            inventory = Inventory(
                number, Identity(node, choose.of(("b", "c")), "a", "0", 1.0),
                (*own, *(_part(choose) for _ in range(choose.below(4)))),
            )  # fmt: skip
            number += 1
            yield frame.encode_hello(inventory)
        elif what == 1:
            yield frame.encode_event(Event(
                choose.of((1, 2, 3, 2**62, -1)), choose.of((NOW, 0.0, 1e18)), choose.of(("link", "xid", "sxid", "")),
                choose.of(NAMES), choose.of(TEXTS), {choose.of(LABELS): choose.of((1.0, 1e300))},
                choose.of(KINDS),
            ))  # fmt: skip
        elif what == 2:
            yield frame.encode_goodbye(frame.Goodbye(choose.of(TEXTS)))
            if choose.below(2):
                return
        else:
            values = array("d", (choose.of(NUMBERS) for _ in range(min(inventory.size, 64))))
            values.extend([1.0] * (inventory.size - len(values)))
            taken = [choose.of((1.0, 2.0, 3.0, 100.0, math.nan, 1e300, -5.0)) for _ in inventory.parts]
            now = Snapshot(inventory, choose.below(300), choose.of((NOW, 1e300, 0.0)), taken, values)
            before, snapshot = snapshot, now
            with contextlib.suppress(FrameError):
                if what < 6 or before is None or before.inventory is not inventory:
                    yield frame.encode_full(now)
                else:
                    yield frame.encode_delta(now, before.values, before.taken)


async def _stream(
    pull: Pull, address: str, node: str, messages: Iterator[str | bytes], between: Any = None
) -> None:
    """One stream as `Pull` reads it, then its end, which is no error. After every fourth message the server
    evaluates, as its ticks would."""
    peer = pull.register.peers.get(address) or pull.register.expect(Target(address, {"node": node}), node, NOW)
    reading = pull.reader.open(Stream(peer, None, None))
    for number, one in enumerate(messages, 1):
        if between is not None and number % 4 == 0:
            between()
        if isinstance(one, str):
            reading.message(MessageKind.TEXT, one)
        else:
            reading.binary(one)
        while reading.takes_turn and not reading.over.done():
            await asyncio.sleep(0)
    reading.closed(None)
    ended = await reading.over
    pull.reader.over(reading)
    if not isinstance(ended, Ended):
        raise ended
    pull.register.failed(peer, ended.presence, ended.detail, NOW)


def _healthy(node: str) -> Iterator[str | bytes]:
    inventory = Inventory(1, Identity(node, "b", "g", "0", 1.0), (good_part(0),))
    yield frame.encode_hello(inventory)
    for seq in range(3):
        values = array("d", [4.0, 5.0, 0.0, 50e9] * 8)[: inventory.size]
        yield frame.encode_full(Snapshot(inventory, seq, NOW + seq, [float(seq + 1)], values))


def held(engine: Engine, pull: Pull) -> dict[str, int]:
    """Numbers of what streams leave behind."""
    tables = engine.fleet.tables
    return {
        **{f"{kind} rows": sum(bool(c.node) for c in tables[kind].ids) for kind in Kind},
        **{f"{kind} columns": len(tables[kind].columns) for kind in Kind},
        "nodes": len(engine.fleet.nodes),
        "raw columns": pull.admission.columns.raw,
        "GUIDs": len(pull.admission.claims._owner),
    }


def _nothing(engine: Engine, pull: Pull) -> None:
    """What `watch` is where nobody looks."""


async def attack_now(data: bytes, watch: Callable[[Engine, Pull], None] = _nothing) -> None:
    """`attack`; `watch` is called after each evaluation until the agent is forgotten."""
    clock = [NOW]
    engine = Engine(Scope.FLEET)
    pull = Pull(PullConfig(), engine, lambda: clock[0])
    await _stream(pull, "good:1", "good-0", _healthy("good-0"))
    engine.tick(NOW)
    before = held(engine, pull)

    def tick() -> None:
        clock[0] += 0.5
        pull.land()
        engine.tick(clock[0])
        if "bad:1" in pull.register.peers:
            watch(engine, pull)

    choose = Choices(data)
    for _ in range(2):
        await _stream(pull, "bad:1", "bad-0", _messages(choose, "bad-0"), tick)
        tick()
    assert engine.failures() == {}, engine.failures()
    pull.register.drop(pull.register.peers["bad:1"], clock[0])
    for _ in range(3):
        tick()
    after = held(engine, pull)
    assert after == before, {name: (before[name], number) for name, number in after.items() if number != before[name]}
    await pull.close()


def attack(data: bytes) -> None:
    """AssertionError where a rule or a step of the evaluation raised, or where something of the agent is left."""
    asyncio.run(attack_now(data))
