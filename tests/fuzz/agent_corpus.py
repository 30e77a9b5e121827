"""`python -m tests.fuzz.agent_corpus`: write the corpus of the reader `agent` from what its files are to say.

A file is the choices of `agent._messages`, as bytes. Here each is a list of what is chosen, in the order in which it is
asked for: names, numbers, and how many of something follow.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

from fabricmon.model import Kind
from tests.fuzz import agent
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.agent import NOW

INVENTORY, EVENT, GOODBYE, FULL, DIFFERENCE = 0, 1, 2, 3, 6
LEAP = 2.0**53


class Dictated(agent.Choices):
    """Chooses what it is told, and keeps the bytes that choose the same."""

    def __init__(self, chosen: list[Any]) -> None:
        super().__init__(b"")
        self._left = list(chosen)
        self.data = bytearray()

    def more(self) -> bool:
        return bool(self._left)

    def below(self, number: int) -> int:
        at: int = self._left.pop(0)
        assert 0 <= at < number, (at, number)
        self.data += at.to_bytes(2 if number > 256 else 1, "big")
        return at

    def of(self, these: Any) -> Any:
        self._left[0] = list(these).index(self._left[0])
        return these[self.below(len(these))]


def data_of(chosen: list[Any]) -> bytes:
    dictated = Dictated(chosen)
    while dictated.more():
        list(agent._messages(dictated, "bad-0"))
    return bytes(dictated.data)


def inventory(*parts: list[Any], own: bool = False, boot: str = "b", first: bool = False) -> list[Any]:
    return [*([] if first else [INVENTORY]), int(own), boot, len(parts), *chain(*parts)]


def part(kind: Kind, collector: str, columns: tuple[str, ...], *components: list[Any]) -> list[Any]:
    return [kind, collector, len(columns), *columns, len(components), *chain(*components), 1.0]


def component(name: str, **labels: str) -> list[Any]:
    return [name, len(labels), *chain(*labels.items())]


def values(*numbers: float, taken: tuple[float, ...], seq: int, form: int = FULL) -> list[Any]:
    return [form, *numbers, *taken, seq, NOW]


def event(seq: int, kind: str, of: Kind, name: str) -> list[Any]:
    return [EVENT, seq, NOW, kind, name, "mlx5_0", "role", 1.0, of]


def ports(downs: float, state: float = 4.0) -> list[float]:
    """All values of the healthy part: eight ports."""
    return [state, 5.0, downs, 50e9] + [4.0, 5.0, 0.0, 50e9] * 7


END = [GOODBYE, "1", 1]
LINKS = (
    part(Kind.NVLINK, "nvlink", ("nvlink_state", "nvlink_crc_errors"), component("gpu0/link1", gpu="mlx5_0")),
    part(Kind.PCIE, "pcie", ("pcie_speed",), component("0000:17:00.0", pci="mlx5_0")),
    part(Kind.FLOW, "flow", ("flow_packets", "flow_lost"), component("mlx5_0/1>good-0/mlx5_0/1", port="mlx5_0/1")),
)
PORT = component("mlx5_0/1", device="mlx5_0", port="1", link_layer="InfiniBand")

FILES: dict[str, list[Any]] = {
    "a_counter_of_downs_that_leaps": [
        *inventory(own=True, first=True),
        *chain(*(values(*ports(downs), taken=(taken,), seq=seq) for seq, (downs, taken) in enumerate((
            (0.0, 1.0), (0.0, 2.0), (0.0, 2.0), (0.0, 3.0), (LEAP, 100.0), (LEAP, 100.0), (LEAP, 100.0))))),
    ],
    "differences": [
        *inventory(own=True, first=True), *values(*ports(0.0), taken=(1.0,), seq=1),
        *values(*ports(1.0, state=1.0), taken=(2.0,), seq=2, form=DIFFERENCE),
        *values(*ports(1.0, state=-1.0), taken=(3.0,), seq=3, form=DIFFERENCE),
    ],
    "rows_of_links_devices_and_flows": inventory(*LINKS, own=True, first=True),
    "rows_of_gpus_and_the_node": inventory(
        part(Kind.GPU, "gpu", ("gpu_xid_events", "gpu_nvlinks_active"), component("gpu0", gpu="mlx5_0")),
        part(Kind.NODE, "inventory", ("node_hcas_expected", "node_hcas_found"), component("")), first=True,
    ),
    "names_that_come_and_go": [
        *inventory(part(Kind.PORT, "infiniband", ("link_downed",), PORT), first=True),
        *inventory(part(Kind.PORT, "infiniband", ("link_downed",), component("mlx5_1/1"), component("eth0"))),
        *inventory(part(Kind.PORT, "infiniband", ("link_downed", "xmit"), PORT)),
    ],
    "a_boot_between_two_streams": [
        *inventory(own=True, first=True), *values(*ports(LEAP), taken=(100.0,), seq=9), *END,
        *inventory(own=True, first=True, boot="c"), *values(*ports(0.0), taken=(1.0,), seq=1),
    ],
    "kernel_events": [
        *inventory(own=True, first=True), *event(1, "link", Kind.PORT, "mlx5_0/1"), *event(2, "xid", Kind.GPU, "gpu0"),
        *event(3, "sxid", Kind.NODE, ""),
    ],
    "raw_and_unknown_columns": inventory(
        part(Kind.PORT, "infiniband", ("raw:hw_counters/x", "raw:hw_counters/y", "unknown", "link_downed"), PORT),
        first=True,
    ),
    "a_sweep": inventory(
        part(Kind.PORT, "fabric", ("state",), component("leaf-1/1", swept="switch", device="mlx5_0", port="1")),
        first=True,
    ),
    "a_port_of_too_many_digits": inventory(part(Kind.PORT, "infiniband", ("state",), component("eth0", port="9" * 7)),
                                           first=True),
    "values_that_no_counter_has": [
        *inventory(own=True, first=True), *values(*ports(3e21), taken=(1.0,), seq=1),
        *values(*ports(math.inf, state=-1e308), taken=(2.0,), seq=2),
    ],
    "a_read_at_no_time": [*inventory(own=True, first=True), *values(*ports(0.0), taken=(1e300,), seq=1)],
}  # fmt: skip


if __name__ == "__main__":
    for name, chosen in FILES.items():
        (CORPUS / "agent" / name).write_bytes(data_of(chosen))
