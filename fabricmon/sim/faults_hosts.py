"""Faults of whole hosts and of adapters in them. One function each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fabricmon.sim.effects import Burst
from fabricmon.sim.layout import Ints, Layout
from fabricmon.sim.script import Expected, Fault, Step
from fabricmon.sim.world import World

CROWD = 4.0
"""What the senders of an incast would like to send together, in line rates of the receiver."""
DEVICE_ERRORS = 0.5
"""Errors per second of a bad device that it cannot mend."""


def host_crash(layout: Layout, host: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """A host dies: nothing answers, its links are down at both ends, its peers wait for it. `lasts`: until its boot."""
    at = layout.host(host)
    steps = [Step(start, f"{host}: crashes", lambda w: w.switch_off(at))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{host}: is back", lambda w: w.switch_on(at)))
    return Fault("host crash", tuple(steps), (Expected("host_unreachable", f"host({host})"),))


def node_reboot(layout: Layout, host: str, start: float = 0.0, lasts: float = 360.0) -> Fault:
    """Benign where it is announced: silence, both ends of the host's links drop, counters and clock start anew."""
    found = host_crash(layout, host, start, lasts)
    steps = (Step(start, f"{host}: reboots", found.steps[0].do), found.steps[1])
    return Fault("node reboot (benign)", steps)


def power_loss(layout: Layout, domain: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """All hosts of a power domain ("power-2") go at once."""
    hosts = layout.power_hosts(domain)
    steps = [Step(start, f"{domain}: {len(hosts)} hosts lose power", lambda w: _each(w.switch_off, hosts))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{domain}: is back", lambda w: _each(w.switch_on, hosts)))
    return Fault("power loss", tuple(steps), (Expected("fault_domain", f"power({domain})"),))


def nic_lost(layout: Layout, port: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """A device vanishes from a running host, after a fatal error of its firmware. `lasts`: until it is reset."""
    rows = device_rows(layout, port)
    name = layout.port_name(int(rows[0])).rpartition("/")[0]
    steps = [Step(start, f"{name}: the device is gone", lambda w: w.remove(rows))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: is back", lambda w: w.bring_back(rows)))
    return Fault("NIC lost", tuple(steps), (Expected("nic_fault", f"nic({name})"),))


def bad_nic(
    layout: Layout, port: str, start: float = 0.0, link_fails: bool = False, ratio: float = 0.005,
    lasts: float | None = None,
) -> Fault:
    """An adapter's device has errors: its health check fails, packets through it are lost; its link may go, too."""
    row = layout.port(port)
    rows, name = device_rows(layout, port), layout.port_name(layout.port(port)).rpartition("/")[0]
    cause = f"bad nic {name} {start:g}"

    def break_(world: World) -> None:
        world.lose(cause, ports=dict.fromkeys(rows.tolist(), ratio))
        world.ailing.put(cause, rows, DEVICE_ERRORS)
        text = f"mlx5_core {layout.labels(row)['pci']}: health compromised - reached miss count"
        world.tell(row, "mlx5_health_lost", text)
        if link_fails:
            world.hold_down(rows)

    def mend(world: World) -> None:
        world.stop_losing(cause)
        world.ailing.take(cause)
        if link_fails:
            world.let_up(rows)

    steps = [Step(start, f"{name}: device errors" + (", link down" if link_fails else ""), break_)]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: works again", mend))
    return Fault("bad NIC", tuple(steps), (Expected("nic_fault", f"nic({name})"),))


def lossy_nic(
    layout: Layout, port: str, start: float = 0.0, ratio: float = 0.005, lasts: float | None = None
) -> Fault:
    """Packets through one adapter are lost, without any other sign."""
    row = layout.port(port)
    cause = f"lossy nic {row} {start:g}"
    name = layout.port_name(row)
    steps = [Step(start, f"{name}: loses {ratio:.2%} of packets", lambda w: w.lose(cause, ports={row: ratio}))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: loses nothing any more", lambda w: w.stop_losing(cause)))
    return Fault("lossy NIC", tuple(steps), (Expected("packet_loss", f"nic({name.rpartition('/')[0]})"),))


def straggler(
    layout: Layout, port: str, start: float = 0.0, share: float = 0.6, lasts: float | None = 1800.0
) -> Fault:
    """An adapter moves a share of what its rail peers move, without any other sign."""
    row, cause = np.array([layout.port(port)]), f"straggler {port} {start:g}"
    name = layout.port_name(int(row[0]))

    def slow(world: World) -> None:
        world.speed.put(cause, row, share)
        world.arrives.put(cause, row, share)

    def mend(world: World) -> None:
        world.speed.take(cause)
        world.arrives.take(cause)

    steps = [Step(start, f"{name}: moves {share:.0%} of what its peers move", slow)]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: as fast as its peers", mend))
    return Fault("straggler", tuple(steps), (Expected("straggler", f"nic({name.rpartition('/')[0]})"),))


def pcie_retrain(
    layout: Layout, port: str, start: float = 0.0, width: int = 4, gigatransfers: float = 16.0,
    lasts: float | None = None,
) -> Fault:
    """An adapter's PCIe link trains with fewer lanes, or slower: its host takes less than what arrives."""
    row = layout.port(port)
    link, name = int(layout.pcie_of[row]), layout.port_name(row)
    text = f"{name}: PCIe link retrains to x{width} at {gigatransfers:g} GT/s"
    steps = [Step(start, text, lambda w: w.train_pcie(link, width, gigatransfers * 1e9))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: PCIe link is whole again", lambda w: w.train_pcie(link)))
    return Fault("slow receiver", tuple(steps), (Expected("pcie_degraded", f"nic({name.rpartition('/')[0]})"),))


def pause_storm(layout: Layout, port: str, start: float = 0.0, lasts: float | None = 300.0) -> Fault:
    """An adapter pauses its switch nearly without end: its receive path hangs, whatever PCIe says."""
    row, cause = layout.port(port), f"storm {port} {start:g}"
    name = layout.port_name(row)
    steps = [Step(start, f"{name}: pauses without end", lambda w: w.choke(cause, row, 0.05))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{name}: takes what arrives again", lambda w: w.unchoke(cause)))
    return Fault("pause storm", tuple(steps), (Expected("pfc_storm", f"nic({name.rpartition('/')[0]})"),))


def incast(
    layout: Layout, port: str, start: float = 0.0, senders: int | Sequence[str] = 24, lasts: float = 600.0,
    seed: int = 0,
) -> Fault:
    """Many ports of one rail send to one at the same time, each as if it were alone; a number or their names."""
    row, cause = layout.port(port), f"incast {port} {start:g}"
    name = layout.port_name(row)
    if isinstance(senders, int):
        mates = layout.rail_rows(int(layout.rail[row]))
        mates = mates[layout.host_of[mates] != layout.host_of[row]]
        if len(mates) < senders:
            raise ValueError(f"{name} has {len(mates)} possible senders, not {senders}")
        picked = np.random.default_rng((seed, row)).permutation(mates)[:senders]
        rows = tuple(int(mate) for mate in np.sort(picked))
    else:
        rows = tuple(layout.port(sender) for sender in senders)
    burst = Burst(rows, row, float(layout.rate[row]) * CROWD / max(1, len(rows)))
    return Fault(
        "incast",
        (
            Step(start, f"{len(rows)} ports send to {name}", lambda w: w.burst(cause, burst)),
            Step(start + lasts, f"{name}: nobody crowds it any more", lambda w: w.calm(cause)),
        ),
        (Expected("incast", f"nic({name.rpartition('/')[0]})"),),
    )


def storage_slow(
    layout: Layout, start: float = 0.0, hosts: Sequence[str] = (), share: float = 0.2, wait: float = 0.4,
    lasts: float | None = 1800.0,
) -> Fault:
    """The storage network of some hosts (none given: all) is slow and makes its ports wait."""
    chosen = [layout.host(host) for host in hosts] or list(range(len(layout.hosts)))
    rows = np.flatnonzero(layout.storage & np.isin(layout.host_of, chosen))
    if not len(rows):
        raise ValueError("these hosts have no storage adapters")
    cause = f"storage {start:g} {len(rows)}"

    def slow(world: World) -> None:
        world.speed.put(cause, rows, share)
        world.stall.put(cause, rows, wait)

    def mend(world: World) -> None:
        world.speed.take(cause)
        world.stall.take(cause)

    steps = [Step(start, f"storage of {len(chosen)} hosts: {share:.0%} of its usual rate", slow)]
    if lasts is not None:
        steps.append(Step(start + lasts, "storage is as fast as ever", mend))
    return Fault("slow storage", tuple(steps), (Expected("storage_path", ""),))


def device_rows(layout: Layout, port: str) -> Ints:
    """All ports of the device that a port is on."""
    row = layout.port(port)
    mine = layout.host_rows(int(layout.host_of[row]))
    return np.asarray(mine[layout.pcie_of[mine] == layout.pcie_of[row]])


def _each(do: Callable[[int], None], hosts: Iterable[int]) -> None:
    for host in hosts:
        do(host)
