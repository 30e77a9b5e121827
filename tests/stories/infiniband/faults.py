"""What happens to hosts, switches and jobs, beyond the change of one value."""

from __future__ import annotations

from fabricmon.model import Presence
from tests.stories.infiniband.columns import OF_GPUS, PORT_ERRORS, PORT_KERNEL_LOG, PORT_TRAFFIC
from tests.stories.infiniband.parts import Host, HostPort, Job, SwitchPort
from tests.stories.infiniband.world import DOWN, INIT, NAN, POLLING, STEP, World

UNANSWERED = (Presence.UNREACHABLE, "no answer: timed out")
REFUSED = (Presence.REFUSED, "connection refused")
NOTICED = 4.0
"""Seconds after which the server sees that an agent does not answer."""

_COUNTERS = tuple(counter for counter in PORT_TRAFFIC + PORT_ERRORS if counter != "supported")
_ZERO_AFTER_A_BOOT = ("link_downed", *_COUNTERS, *PORT_KERNEL_LOG)
_ZERO_IN_A_NEW_SWITCH = ("xmit", "rcv", "symbol_errors", "link_downed", "xmit_wait_ticks", "rcv_errors")


# Hosts


def silence(world: World, host: Host, seen: tuple[Presence, str] = UNANSWERED) -> None:
    """Its agent does not answer any more; the host goes on."""
    host.answers = False
    host.lost = (world.now + NOTICED, *seen)


def power_off(world: World, host: Host, seen: tuple[Presence, str] = UNANSWERED) -> None:
    silence(world, host, seen)
    host.up = False
    for row in host.ports:
        world.end_down(int(world.peer[row]))
        world.port["state"][row], world.port["phys_state"][row] = DOWN, POLLING


def power_on(world: World, host: Host, configured: bool = True) -> None:
    """It has booted: its counters are zero, its links come up.

    configured  False: no subnet manager makes its ports active; they stay in INIT
    """
    host.up = host.answers = True
    host.boot += 1
    host.booted = world.now - 25
    world.clock[host.row] = 25 - world.now
    for counter in _ZERO_AFTER_A_BOOT:
        world.port[counter][host.ports] = 0
    for row in host.ports:
        _link_up(world, row, configured)


def _link_up(world: World, row: int, configured: bool) -> None:
    port, other = world.port, int(world.peer[row])
    part = world.plant.ports[other]
    if isinstance(part, SwitchPort) and not part.switch.up:
        port["state"][row], port["phys_state"][row], port["rate"][row] = DOWN, POLLING, NAN
        return
    world.bring_up(row)
    if not configured:
        port["state"][[row, other]] = INIT
        port["sm_lid"][row], port["lid"][row] = 0, 65535


def reboot(
    world: World, host: Host, begin: float, end: float, *, configured: bool = True, firmware: str = ""
) -> None:
    """Its agent ends in order at `begin`; it is back at `end`, with that firmware of its adapters where it is new."""

    def back() -> None:
        host.firmware = firmware or host.firmware
        power_on(world, host, configured)

    world.at(begin, lambda: power_off(world, host, REFUSED))
    world.at(end, back)


def restart_counters(world: World, host: Host) -> None:
    """The driver is loaded anew: the counters of its ports begin at 0."""
    for counter in _COUNTERS:
        world.port[counter][host.ports] = 0


def reload_driver(world: World, host: Host, begin: float, end: float) -> None:
    """All adapters vanish at `begin` and return at `end` with new counters."""
    adapters = len(host.ports)

    def unload() -> None:
        host.hidden = set(host.ports)
        _adapters_found(world, host, 0, adapters)
        for row in host.ports:
            world.take_down(row)

    def load() -> None:
        host.hidden = set()
        _adapters_found(world, host, adapters, 0)
        restart_counters(world, host)
        for row in host.ports:
            world.bring_up(row)

    world.at(begin, unload)
    world.at(end, load)


def _adapters_found(world: World, host: Host, found: int, lost: int) -> None:
    world.node["node_hcas_found"][host.row], world.node["node_hcas_lost"][host.row] = found, lost


def lose_adapters(world: World, host: Host, numbers: list[int]) -> None:
    """They are no longer on the PCIe bus."""
    host.hidden = {host.ports[number] for number in numbers}
    _adapters_found(world, host, len(host.ports) - len(numbers), len(numbers))


def lose_gpus(world: World, host: Host, numbers: list[int]) -> None:
    """They are no longer on the PCIe bus."""
    host.lost_gpus = {host.gpus[number] for number in numbers}
    world.node["node_gpus_found"][host.row] = len(host.gpus) - len(numbers)
    world.node["node_gpus_lost"][host.row] = len(numbers)


def unread_gpu(world: World, row: int) -> None:
    """The driver answers no question about this GPU."""
    for column in OF_GPUS:
        if not column.startswith("gpu_fabric_"):
            world.gpu[column][row] = NAN


# Switches


def switch_down(world: World, name: str) -> None:
    switch = world.plant.switches[name]
    switch.up = False
    for row in switch.ports:
        world.end_down(int(world.peer[row]))
        world.end_down(row, counted=False)


def switch_up(world: World, name: str) -> None:
    """It has booted: links to what is up become active, its counters are zero."""
    switch = world.plant.switches[name]
    switch.up = True
    for row in switch.ports:
        other = world.plant.ports[world.peer[row]]
        if other.host.up if isinstance(other, HostPort) else other.switch.up:
            world.bring_up(row)
            for counter in _ZERO_IN_A_NEW_SWITCH:
                world.port[counter][row] = 0


# Links and jobs


def flap(world: World, row: int, begin: float, lasts: float) -> None:
    """The cable of this port is down for that many seconds."""
    world.at(begin, lambda: world.take_down(row))
    world.at(begin + lasts, lambda: world.bring_up(row))


def abort(world: World, job: Job, row: int, begin: float, ends: float, back: float) -> None:
    """A port of the job dies: the two next to it in its ring time out, then the job ends and starts again.

    ends, back  seconds after `begin` at which the job's connections end, and at which it sends again
    """
    port = world.plant.ports[row]
    assert isinstance(port, HostPort)
    place, adapter = job.hosts.index(port.host), port.host.ports.index(row)
    beside = [job.hosts[(place + step) % len(job.hosts)].ports[adapter] for step in (-1, 1)]
    job.halt(begin + 1, begin + back)

    def effect(now: float) -> None:
        if begin + 2 <= now < begin + ends:
            world.add("ack_timeout", beside, 4 * STEP)
        if begin + ends <= now < begin + ends + STEP:
            world.add("retries_exceeded", beside, 8)
            world.add("req_cqe_error", beside, 8)
            world.add("req_cqe_flush_error", world.rows_of(job.hosts), 300)
            world.add("resp_cqe_flush_error", world.rows_of(job.hosts), 300)

    world.effects.append(effect)
