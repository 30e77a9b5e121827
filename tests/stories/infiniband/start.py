"""Values of a cluster that has run for days: counters that began somewhere, adapters with small habits of their own."""

from __future__ import annotations

import math

import numpy as np

from tests.stories.infiniband.world import ACTIVE, LINK_UP, NAN, Values, World

_BEGAN_ANYWHERE = (
    "out_of_sequence_rx", "duplicate_request", "ack_timeout", "req_cqe_flush_error", "resp_cqe_flush_error",
    "seq_nak_rx", "rdma_rx_write_requests", "req_cqe_error",
)  # fmt: skip
_LIMITS = {
    "module_temperature_limit_high_alarm": 80,
    "module_temperature_limit_high_warning": 75,
    "module_rx_power_limit_low_alarm": 1.5e-4,
    "module_rx_power_limit_low_warning": 2.4e-4,
    "module_rx_power_limit_high_alarm": 3.5e-3,
    "nic_temperature_limit": 105,
}
"""Celsius and watts."""


def start(world: World) -> None:
    """Fill the tables. The order of the draws is part of a story: another order is another day."""
    _ports(world)
    _counters(world)
    size, rng = world.size, world.rng
    world.usual_temperature = rng.normal(52, 3, size)
    world.usual_light = np.exp(rng.normal(math.log(1.1e-3), 0.12, (4, size)))
    for column, limit in _LIMITS.items():
        world.port[column][:] = limit
    _gpus(world)
    _functions(world)
    _nodes(world)
    world.stray_timeouts = _of_some(world, 0.03, 0.005, 0.05)
    world.stray_symbol_errors = _of_some(world, 0.02, 0.001, 0.01)
    world.stray_out_of_buffer = _of_some(world, 0.03, 0.1, 3)
    world.turn = rng.integers(0, 4, len(world.hosts))
    world.clock = rng.uniform(1e5, 9e6, len(world.hosts))


def _of_some(world: World, share: float, least: float, most: float) -> Values:
    """A rate per second that this share of the ports has."""
    has = world.rng.random(world.size) < share
    return np.where(has, world.rng.uniform(least, most, world.size), 0.0)


def _ports(world: World) -> None:
    port = world.port
    port["state"][:], port["phys_state"][:] = ACTIVE, LINK_UP
    port["lid"][:] = np.arange(world.size) % 40000 + 10
    port["sm_lid"][:] = 1
    port["rate"][:] = world.rate
    port["width"][:] = [part.width for part in world.plant.ports]
    port["supported"][:] = 1


def _counters(world: World) -> None:
    port, rng, size = world.port, world.rng, world.size
    sent = rng.random(size) * 3e13
    port["xmit"][:] = np.floor(sent)
    port["rcv"][:] = np.floor(sent * rng.uniform(0.8, 1.2, size))
    port["xmit_wait_ticks"][:] = np.floor(rng.random(size) * 2e9)
    port["xmit_wait_ticks"][rng.random(size) < 0.1] = 2**32 - 1
    port["link_downed"][:] = rng.poisson(1.2, size)
    port["symbol_errors"][:] = np.where(rng.random(size) < 0.05, rng.integers(1, 80, size), 0)
    port["link_error_recoveries"][:] = np.where(rng.random(size) < 0.03, 1, 0)
    for counter in _BEGAN_ANYWHERE:
        port[counter][:] = rng.integers(0, 5000, size)


def _gpus(world: World) -> None:
    gpu, parts = world.gpu, world.plant.gpus
    in_domain = np.array([bool(part.host.domain) for part in parts], bool)
    gpu["gpu_fabric_state"][:] = 3
    for column in ("health_verdict", "partition_assigned", "incorrect_configuration"):
        gpu[f"gpu_fabric_{column}"][:] = 1
    for column in ("gpu_pcie_generation", "gpu_pcie_max_generation"):
        gpu[column][:] = [part.generation for part in parts]
    for column in ("gpu_pcie_width", "gpu_pcie_max_width"):
        gpu[column][:] = 16
    gpu["gpu_last_xid"][:] = gpu["gpu_nvlink_worst"][:] = NAN
    for column in ("gpu_nvlinks", "gpu_nvlinks_active", "gpu_nvlinks_to_switch"):
        gpu[column][:] = [part.nvlinks for part in parts]
    for column in ("effective_ber", "critical_errors"):  # of NVLink 5
        gpu[f"gpu_nvlink_{column}"][:] = np.where(in_domain, 0, NAN)
    for column in ("crc_errors", "replay_errors"):  # of NVLink 4
        gpu[f"gpu_nvlink_{column}"][:] = np.where(in_domain, NAN, 0)


def _functions(world: World) -> None:
    function, rng, size = world.function, world.rng, len(world.plant.pcie_speeds)
    for column in ("pcie_speed", "pcie_max_speed"):
        function[column][:] = world.plant.pcie_speeds
    for column in ("pcie_width", "pcie_max_width"):
        function[column][:] = 16
    function["pcie_path_width"][:] = function["pcie_path_speed"][:] = 1
    function["pcie_aer_correctable_errors"][:] = np.where(rng.random(size) < 0.08, rng.integers(1, 300, size), 0)


def _nodes(world: World) -> None:
    node = world.node
    for host in world.hosts:
        row, adapters = host.row, host.type.adapters - len(host.type.storage)
        node["node_hcas_expected"][row] = node["node_hcas_found"][row] = adapters
        node["node_hcas_certainty"][row] = 3
        node["node_gpus_expected"][row] = node["node_gpus_found"][row] = len(host.gpus)
        node["node_machine"][row] = host.type.machine
