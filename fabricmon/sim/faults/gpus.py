"""Faults of NVLinks and of the domain they make. One function each. Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.sim.layout import Ints, Layout
from fabricmon.sim.script import ExpectedIncident, InjectedFault, Step, lasting
from fabricmon.sim.world import World


def nvlink_errors(
    layout: Layout, gpu: str, start: float = 0.0, link: int = 7, rate: float = 150.0,
    inactive_after: float | None = None, lasts: float | None = None,
) -> InjectedFault:
    """One NVLink of a GPU ("host-003/gpu3") has CRC errors, `rate` a second; later it may go inactive."""
    row = gpu_row(layout, gpu)
    if not 0 <= link < layout.nvlinks:
        raise ValueError(f"{gpu} has links 0 to {layout.nvlinks - 1}, not {link}")
    text = f"{gpu} link {link}: {rate:g} CRC errors a second"
    steps = [Step(start, text, lambda w: _ail(w, row, link, rate))]
    expected = ExpectedIncident("nvlink_degraded", f"gpu({gpu})")
    if inactive_after is not None:
        steps.append(Step(start + inactive_after, f"{gpu} link {link}: inactive", lambda w: _link(w, row, link, False)))
        expected = ExpectedIncident("nvlink_down", f"gpu({gpu})")
    if lasts is not None:
        steps.append(Step(start + lasts, f"{gpu} link {link}: works again", lambda w: _heal(w, row, link)))
    return InjectedFault("NVLink errors", tuple(steps), (expected,))


def nvlink_down(
    layout: Layout, gpu: str, start: float = 0.0, link: int = 7, lasts: float | None = None
) -> InjectedFault:
    """One NVLink of a GPU goes inactive."""
    row = gpu_row(layout, gpu)
    return lasting(
        "NVLink inactive", start, lasts, (f"{gpu} link {link}: inactive", lambda w: _link(w, row, link, False)),
        (f"{gpu} link {link}: active again", lambda w: _heal(w, row, link)),
        ExpectedIncident("nvlink_down", f"gpu({gpu})"),
    )  # fmt: skip


def nvlink_domain(
    layout: Layout, host: str, start: float = 0.0, spread: float = 20.0, rate: float = 150.0,
    lasts: float | None = None,
) -> InjectedFault:
    """A switch chip of a host is faulty: links of all its GPUs have errors, beginning within `spread` seconds."""
    at = layout.host(host)
    rows = layout.gpu_rows(at)
    begins = np.sort(np.random.default_rng((at, len(rows))).uniform(0, spread, len(rows)))
    link = at % layout.nvlinks
    steps = [
        Step(start + float(begin), f"{host}/{layout.gpu_names[row]} link {link}: {rate:g} CRC errors a second",
             lambda w, row=row: _ail(w, row, link, rate))  # type: ignore[misc]
        for begin, row in zip(begins, rows.tolist(), strict=True)
    ]  # fmt: skip
    if lasts is not None:
        steps.append(Step(start + lasts, f"{host}: NVLinks work again", lambda w: _heal_all(w, rows, link)))
    return InjectedFault("NVLink domain", tuple(steps), (ExpectedIncident("fault_domain", f"nvlink_domain({host})"),))


def gpu_row(layout: Layout, gpu: str) -> int:
    """Row of "host-003/gpu3". ValueError for none."""
    host, _, name = gpu.rpartition("/")
    if not host:
        raise ValueError(f"no GPU {gpu!r}; they are named like {layout.hosts[0]}/gpu0")
    rows = layout.gpu_rows(layout.host(host)).tolist()
    found: list[int] = [row for row in rows if layout.gpu_names[row] == name]
    if not found:
        raise ValueError(f"no GPU {gpu!r}; {host} has {len(rows)}")
    return found[0]


def _ail(world: World, row: int, link: int, rate: float) -> None:
    world.inside.crc[row, link], world.inside.replays[row, link] = rate, rate / 10


def _link(world: World, row: int, link: int, active: bool) -> None:
    world.inside.linked[row, link] = active


def _heal_all(world: World, rows: Ints, link: int) -> None:
    for row in rows.tolist():
        _heal(world, row, link)


def _heal(world: World, row: int, link: int) -> None:
    world.inside.crc[row, link] = world.inside.replays[row, link] = 0.0
    if not world.inside.linked[row, link]:
        world.inside.linked[row, link] = True
        world.inside.nvlinks.count("nvlink_recovery_errors", np.ones(1), np.array([row * world.layout.nvlinks + link]))
