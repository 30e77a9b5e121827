"""The clusters of the stories. Hosts and switches have the names that their operators gave them."""

from __future__ import annotations

from tests.stories.infiniband.parts import HostType, Job
from tests.stories.infiniband.plant import Plant
from tests.stories.infiniband.start import start
from tests.stories.infiniband.world import World

RAILS = 8
DGX = HostType(adapters=8)
DGX_WITH_STORAGE = HostType(adapters=10, storage=(8, 9))
CPU_NODE = HostType(
    adapters=1, gpus=0, rate=100, width=2, hca="MT4123", board="MT_0000000222", machine=3.0, nvlinks=12,
    pcie_speed=16e9, gpu_generation=4,
)  # fmt: skip
GPU_NODE = HostType(
    adapters=1, gpus=4, rate=100, width=2, hca="MT4123", board="MT_0000000222", machine=4.0, nvlinks=12,
    pcie_speed=16e9, gpu_generation=4,
)  # fmt: skip
GB200_TRAY = HostType(adapters=4, gpus=4, hca="MT4131", board="MT_0000001244", machine=9.0)
TWIN_PORTS = HostType(adapters=8, rate=200, ports_a_card=2, board="MT_0000001085", machine=5.0)
A100 = HostType(
    adapters=9, rate=200, storage=(8,), hca="MT4123", board="MT_0000000223", machine=4.0, nvlinks=12, pcie_speed=16e9,
    gpu_generation=4,
)  # fmt: skip
H100 = DGX_WITH_STORAGE


def dgx(seed: int, units: int = 2, *, sweep: bool = False, storage: bool = False, kernel_log: bool = True) -> World:
    """Units of 32 DGX H100, a leaf a rail in each, eight spines; four hosts a rack; three jobs, the last hosts idle."""
    plant = Plant(kernel_log)
    leaves = [f"leaf-su{unit + 1}-r{rail}" for unit in range(units) for rail in range(RAILS)]
    spines = [f"spine-{number + 1:02d}" for number in range(8)]
    for leaf in leaves:
        plant.switch(leaf, 0)
    for spine in spines:
        plant.switch(spine, 1)
    for number in range(32 * units):
        kind = DGX_WITH_STORAGE if storage else DGX
        host = plant.host(f"dgx-{number + 1:03d}", kind, f"rack-{number // 4 + 1:02d}")
        for rail in range(RAILS):
            plant.cable(host, rail, f"leaf-su{number // 32 + 1}-r{rail}")
    if storage:
        _storage_leaves(plant)
    for leaf in leaves:
        for spine in spines:
            plant.trunk(leaf, spine, 2)
    world = World(plant, seed, crossing=0.25)
    start(world)
    hosts, half = world.hosts, 16 * units
    world.jobs = [
        Job(hosts[:half], 7.3, 0.45, 0.75),
        Job(hosts[half : half + half // 2], 4.1, 0.3, 0.6),
        Job(hosts[half + half // 2 : -half // 8], 11, 0.6, 0.8),
    ]
    hosts[-1].sweeps = sweep
    return world


def _storage_leaves(plant: Plant) -> None:
    """Two switches that are connected to the storage adapters of all hosts, and to nothing else."""
    for adapter, leaf in ((8, "st-leaf-1"), (9, "st-leaf-2")):
        plant.switch(leaf, 0)
        for host in plant.hosts:
            plant.cable(host, adapter, leaf)


def hdr(seed: int, leaves: int = 6, *, sweep: bool = True) -> World:
    """An HDR fat tree of copper cables: leaves of 20 hosts of one adapter, three spines, eight scattered jobs."""
    plant = Plant(reads_kernel_log=False)
    names = [f"ibsw-l{number + 1}" for number in range(leaves)]
    spines = [f"ibsw-s{number + 1}" for number in range(3)]
    for level, switches in enumerate((names, spines)):
        for name in switches:
            plant.switch(name, level, 80)
    for number in range(1, 20 * leaves + 1):
        leaf = (number - 1) // 20
        host = plant.host(f"cn{number:04d}", CPU_NODE if number % 10 else GPU_NODE, f"r{leaf + 1}")
        plant.cable(host, 0, names[leaf])
    for name in names:
        for spine in spines:
            plant.trunk(name, spine, 4, 200)
    world = World(plant, seed, crossing=0.6, optics=False)
    start(world)
    _scattered_jobs(world)
    world.hosts[0].sweeps = sweep
    return world


def _scattered_jobs(world: World) -> None:
    rng, first = world.rng, 0
    order = rng.permutation(len(world.hosts))
    for size in (16, 8, 24, 4, 12, 6, 16, 10):
        hosts = [world.hosts[number] for number in order[first : first + size]]
        world.jobs.append(Job(hosts, rng.uniform(1.5, 20), rng.uniform(0.15, 0.6), rng.uniform(0.2, 0.7)))
        first += size


def nvl72(seed: int) -> World:
    """Four racks of 18 trays with four GB200 each, an NVLink domain a rack, four rails, four spines."""
    plant = Plant()
    for rail in range(4):
        plant.switch(f"xl-r{rail}-0", 0, 144)
    for spine in range(4):
        plant.switch(f"xs-{spine}", 1, 144)
    for rack in range(1, 5):
        for tray in range(1, 19):
            host = plant.host(
                f"gb-{rack:02d}-{tray:02d}", GB200_TRAY, f"nvl72-{rack:02d}", f"nvl-{rack:02d}-uuid", tray
            )
            for rail in range(4):
                plant.cable(host, rail, f"xl-r{rail}-0")
    for rail in range(4):
        for spine in range(4):
            plant.trunk(f"xl-r{rail}-0", f"xs-{spine}", 4)
    world = World(plant, seed, crossing=0.3)
    start(world)
    world.jobs = [Job(world.hosts[:36], 6, 0.4, 0.7), Job(world.hosts[36:68], 9, 0.5, 0.6)]
    return world


def dual_plane(seed: int) -> World:
    """48 hosts with four twin-port cards: even devices on plane a, odd ones on plane b; two leaves a plane."""
    plant = Plant()
    for plane in "ab":
        for leaf in (1, 2):
            plant.switch(f"{plane}-leaf{leaf}", 0, 128)
        for spine in (1, 2):
            plant.switch(f"{plane}-spine{spine}", 1)
    for number in range(48):
        host = plant.host(f"n{number + 1:03d}", TWIN_PORTS, f"row{number // 8 + 1}")
        for adapter in range(8):
            plant.cable(host, adapter, f"{'ab'[adapter % 2]}-leaf{number // 24 + 1}")
    for plane in "ab":
        for leaf in (1, 2):
            for spine in (1, 2):
                plant.trunk(f"{plane}-leaf{leaf}", f"{plane}-spine{spine}", 12)
    world = World(plant, seed, crossing=0.2)
    start(world)
    world.jobs = [Job(world.hosts[:24], 5, 0.4, 0.7), Job(world.hosts[24:44], 8, 0.5, 0.6)]
    return world


def mixed(seed: int) -> World:
    """32 HDR hosts and 24 NDR hosts below leaves of their own, and one switch for the storage of all."""
    plant = Plant()
    for rail in range(RAILS):
        plant.switch(f"qm87-r{rail}", 0, 40)
        plant.switch(f"qm97-r{rail}", 0, 64)
    for core in range(4):
        plant.switch(f"core{core}", 1)
    for prefix, kind, rack, leaves, hosts in (("a100", A100, "A", "qm87", 32), ("h100", H100, "H", "qm97", 24)):
        for number in range(hosts):
            host = plant.host(f"{prefix}-{number + 1:02d}", kind, f"{rack}{number // 4 + 1}")
            for rail in range(RAILS):
                plant.cable(host, rail, f"{leaves}-r{rail}")
    plant.switch("stor-1", 0, 80)
    for host in plant.hosts:
        plant.cable(host, 8, "stor-1")
    for host in plant.hosts[32:]:
        plant.cable(host, 9, "stor-1")
    for rail in range(RAILS):
        for core in range(4):
            plant.trunk(f"qm87-r{rail}", f"core{core}", 2, 200)
            plant.trunk(f"qm97-r{rail}", f"core{core}", 2, 400)
    world = World(plant, seed, crossing=0.3)
    start(world)
    world.jobs = [Job(world.hosts[:16], 5, 0.4, 0.6), Job(world.hosts[16:28], 9, 0.3, 0.7)]
    world.jobs.append(Job(world.hosts[32:52], 7, 0.5, 0.75))
    return world
