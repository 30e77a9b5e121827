"""Faults of whole hosts and of adapters in them. One function each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fabricmon.sim.effects import Burst
from fabricmon.sim.layout import Ints, Layout
from fabricmon.sim.script import ExpectedIncident, InjectedFault, Step, lasting
from fabricmon.sim.world import World

CROWD = 4.0
"""Offered load of the senders of an incast together, in line rates of the receiver."""
DEVICE_ERRORS = 0.5
"""Unrecoverable errors per second of a bad device."""


def host_crash(layout: Layout, host: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """A host crashes: no answer, its links are down at both ends, its peers wait for it. `lasts`: until its boot."""
    at = layout.host(host)
    return lasting(
        "host crash", start, lasts, (f"{host}: crashes", lambda w: w.switch_off(at)),
        (f"{host}: is back", lambda w: w.switch_on(at)), ExpectedIncident("host_unreachable", f"host({host})"),
    )  # fmt: skip


def node_reboot(layout: Layout, host: str, start: float = 0.0, lasts: float = 360.0) -> InjectedFault:
    """A host reboots, benign in maintenance: silence, both ends of its links drop, counters and clock start anew."""
    found = host_crash(layout, host, start, lasts)
    steps = (Step(start, f"{host}: reboots", found.steps[0].do), found.steps[1])
    return InjectedFault("node reboot (benign)", steps)


def power_loss(layout: Layout, domain: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """All hosts of a power domain ("power-2") lose power at once."""
    hosts = layout.power_hosts(domain)
    return lasting(
        "power loss", start, lasts, (f"{domain}: {len(hosts)} hosts lose power", lambda w: _each(w.switch_off, hosts)),
        (f"{domain}: is back", lambda w: _each(w.switch_on, hosts)),
        ExpectedIncident("fault_domain", f"power({domain})"),
    )  # fmt: skip


def nic_lost(layout: Layout, port: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """A device vanishes from a running host, after a fatal error of its firmware. `lasts`: until it is reset."""
    rows = device_rows(layout, port)
    name = layout.nic_name(int(rows[0]))
    return lasting(
        "NIC lost", start, lasts, (f"{name}: the device is gone", lambda w: w.remove(rows)),
        (f"{name}: is back", lambda w: w.bring_back(rows)), ExpectedIncident("nic_fault", f"nic({name})"),
    )  # fmt: skip


def bad_nic(
    layout: Layout, port: str, start: float = 0.0, link_fails: bool = False, ratio: float = 0.005,
    lasts: float | None = None,
) -> InjectedFault:
    """An adapter's device has errors: its health check fails, packets through it are lost; its link may go down."""
    row = layout.port(port)
    rows, name = device_rows(layout, port), layout.nic_name(row)
    cause = f"bad nic {name} {start:g}"

    def break_(world: World) -> None:
        world.lose(cause, ports=dict.fromkeys(rows.tolist(), ratio))
        world.ailing.put(cause, rows, DEVICE_ERRORS)
        text = f"mlx5_core {layout.labels(row)['pci']}: health compromised - reached miss count"
        world.emit(row, "mlx5_health_lost", text)
        if link_fails:
            world.hold_down(rows)

    def mend(world: World) -> None:
        world.stop_losing(cause)
        world.ailing.take(cause)
        if link_fails:
            world.let_up(rows)

    text = f"{name}: device errors" + (", link down" if link_fails else "")
    works = f"{name}: works again", mend
    return lasting("bad NIC", start, lasts, (text, break_), works, ExpectedIncident("nic_fault", f"nic({name})"))


def lossy_nic(
    layout: Layout, port: str, start: float = 0.0, ratio: float = 0.005, lasts: float | None = None
) -> InjectedFault:
    """Packets through one adapter are lost, without any other sign."""
    row = layout.port(port)
    cause = f"lossy nic {row} {start:g}"
    name = layout.port_name(row)
    return lasting(
        "lossy NIC", start, lasts,
        (f"{name}: loses {ratio:.2%} of packets", lambda w: w.lose(cause, ports={row: ratio})),
        (f"{name}: packet loss ends", lambda w: w.stop_losing(cause)),
        ExpectedIncident("packet_loss", f"nic({layout.nic_name(row)})"),
    )  # fmt: skip


def straggler(
    layout: Layout, port: str, start: float = 0.0, share: float = 0.6, lasts: float | None = 1800.0
) -> InjectedFault:
    """An adapter runs at a share of its rail peers' rate, without any other sign."""
    row, cause = layout.port(port), f"straggler {port} {start:g}"
    name = layout.port_name(row)

    def slow(world: World) -> None:
        world.speed.put(cause, np.array([row]), share)
        world.arrives.put(cause, np.array([row]), share)

    def mend(world: World) -> None:
        world.speed.take(cause)
        world.arrives.take(cause)

    return lasting(
        "straggler", start, lasts, (f"{name}: {share:.0%} of its peers' rate", slow),
        (f"{name}: as fast as its peers", mend), ExpectedIncident("straggler", f"nic({layout.nic_name(row)})"),
    )  # fmt: skip


def pcie_retrain(
    layout: Layout, port: str, start: float = 0.0, width: int = 4, gigatransfers: float = 16.0,
    lasts: float | None = None,
) -> InjectedFault:
    """An adapter's PCIe link trains with fewer lanes, or slower: its host receives less than arrives."""
    row = layout.port(port)
    link, name = int(layout.pcie_of[row]), layout.port_name(row)
    text = f"{name}: PCIe link retrains to x{width} at {gigatransfers:g} GT/s"
    return lasting(
        "slow receiver", start, lasts, (text, lambda w: w.train_pcie(link, width, gigatransfers * 1e9)),
        (f"{name}: PCIe link is whole again", lambda w: w.train_pcie(link)),
        ExpectedIncident("pcie_degraded", f"nic({layout.nic_name(row)})"),
    )  # fmt: skip


def pause_storm(layout: Layout, port: str, start: float = 0.0, lasts: float | None = 300.0) -> InjectedFault:
    """An adapter pauses its switch nearly all the time: its receive path hangs, its PCIe link is healthy."""
    row, cause = layout.port(port), f"storm {port} {start:g}"
    name = layout.port_name(row)
    return lasting(
        "pause storm", start, lasts, (f"{name}: pauses its switch", lambda w: w.choke(cause, row, 0.05)),
        (f"{name}: receives again", lambda w: w.unchoke(cause)),
        ExpectedIncident("pfc_storm", f"nic({layout.nic_name(row)})"),
    )  # fmt: skip


def incast(
    layout: Layout, port: str, start: float = 0.0, senders: int | Sequence[str] = 24, lasts: float = 600.0,
    seed: int = 0,
) -> InjectedFault:
    """Many ports of one rail send to one at the same time, each at full rate. `senders`: their number or names."""
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
    return lasting(
        "incast", start, lasts, (f"{len(rows)} ports send to {name}", lambda w: w.burst(cause, burst)),
        (f"{name}: incast ends", lambda w: w.calm(cause)),
        ExpectedIncident("incast", f"link({layout.link_name(row)})"),
    )  # fmt: skip


def storage_slow(
    layout: Layout, start: float = 0.0, hosts: Sequence[str] = (), share: float = 0.2, wait: float = 0.4,
    lasts: float | None = 1800.0,
) -> InjectedFault:
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

    text = f"storage of {len(chosen)} hosts: {share:.0%} of its usual rate"
    usual = "storage is at its usual rate", mend
    return lasting("slow storage", start, lasts, (text, slow), usual, ExpectedIncident("storage_path", ""))


def device_rows(layout: Layout, port: str) -> Ints:
    """All ports of the device that a port is on."""
    row = layout.port(port)
    mine = layout.host_rows(int(layout.host_of[row]))
    return np.asarray(mine[layout.pcie_of[mine] == layout.pcie_of[row]])


def _each(do: Callable[[int], None], hosts: Iterable[int]) -> None:
    for host in hosts:
        do(host)
