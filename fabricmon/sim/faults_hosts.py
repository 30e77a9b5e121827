"""Faults of whole hosts and of what hangs on one: power, crashes, adapters. One function each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fabricmon.sim.layout import Ints, Layout
from fabricmon.sim.script import Expected, Fault, Step


def host_crash(layout: Layout, host: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """A host dies: nothing answers, its links are down at both ends, its peers wait for it. `lasts`: until its boot."""
    at = layout.host(host)
    steps = [Step(start, f"{host}: crashes", lambda w: w.switch_off(at))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"{host}: is back", lambda w: w.switch_on(at)))
    return Fault("host crash", tuple(steps), (Expected("host_unreachable", f"host({host})"),))


def node_reboot(layout: Layout, host: str, start: float = 0.0, lasts: float = 360.0) -> Fault:
    """Benign: the agent is silent, both ends of the host's links drop, counters and clock start anew."""
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


def device_rows(layout: Layout, port: str) -> Ints:
    """All ports of the device that a port is on."""
    row = layout.port(port)
    mine = layout.host_rows(int(layout.host_of[row]))
    return mine[layout.pcie_of[mine] == layout.pcie_of[row]]


def _each(do: Callable[[int], None], hosts: Iterable[int]) -> None:
    for host in hosts:
        do(host)
