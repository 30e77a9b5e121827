"""Found and expected devices of a node, on the row of the node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, Category, Counter, Growth
from fabricmon.model import Kind

CERTAINTIES = {0: "none", 1: "usual for the machine type", 2: "fixed by the machine type", 3: "configured"}


def _row(name: str, help: str, growth: Growth = Growth.LEVEL, states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(f"node_{name}", Kind.NODE, "", 0, growth, Category.CONFIGURATION, "inventory", (name,), help,
                   family=name, states=states)  # fmt: skip


COUNTERS: tuple[Counter, ...] = (
    _row("hcas_expected", "RDMA devices of the compute network that this machine should have; unknown without a source"),
    _row("hcas_found", "RDMA devices of the compute network that are present"),
    _row("hcas_lost", "RDMA devices that the agent has seen and that are missing now"),
    _row("hcas_certainty", "Source of the expected number", Growth.STATE, CERTAINTIES),
    _row("gpus_expected", "GPUs that this machine should have; unknown without a source"),
    _row("gpus_found", "GPUs with a driver"),
    _row("gpus_lost", "GPUs that the agent has seen and that are missing now"),
    _row("uverbs_missing", "RDMA devices without a uverbs device: programs cannot use them; unknown without ib_uverbs"),
    _row("umad_missing", "InfiniBand devices without a umad device: management tools cannot use them; unknown without "
         "ib_umad"),
    _row("netdevs_misplaced", "RDMA devices whose network interface belongs to another adapter"),
    _row("machine", "The machine's vendor, product and board as a number: nodes of one build have the same",
         Growth.STATE),
)  # fmt: skip

NONE_EXPECTED = "none_expected"
"""Label of a node that may be without fabric hardware."""

COLUMNS: tuple[str, ...] = tuple(c.name for c in COUNTERS)
