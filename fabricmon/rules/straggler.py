"""straggler: an adapter carries less than its rail peers in the same job, or pauses them, for minutes."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import FASTEST_BYTES
from fabricmon.fleet.peers import ACTIVE, CHANGED, EVERY, GAP, GAP_OWN, WINDOWS, Z_OWN, Z
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import not_expressible
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

KEEP_UP = 0.75
"""Share of the other ports of a host that keep up, from which a slow one is slow by itself (design choice)."""
NEARLY = 1e-6
"""By which sums of parts of adapters differ from whole numbers."""


class StragglerParams(RuleParams, frozen=True):
    """Limits of straggler (docs/methods.md#straggler).

    z, gap and the size of a group of peers are those of docs/methods.md#peer-comparison.

    windows  low windows of the last 12 windows of 10 s at work (4/5)
    calm     most low windows when it ends
    idle     s; it ends without work for so long
    hold     with the windows two minutes at least
    clear    time for which it must keep up with its peers (three windows)
    """

    windows: Annotated[int, Meta(ge=1, le=WINDOWS)] = 10
    calm: Annotated[int, Meta(ge=0, lt=WINDOWS)] = 2
    idle: Duration = Duration(600)
    hold: Duration = Duration(30)
    clear: Duration = Duration(30)


def test(view: View, params: StragglerParams) -> Outcome:
    n, peers = view.n, view.tracks.peers
    low = peers.low[:n]
    idle = view.now - peers.evaluated[:n] > params.idle
    fire = (low >= params.windows) & ~idle
    if fire.any():
        fire &= ~_with_their_host(view, fire)
    read = view.tracks.pressure.traffic.known(n, view.now)
    compared = (peers.seen[:n] == WINDOWS) & (view.now - peers.evaluated[:n] <= 2 * EVERY)
    known = view.present & read & (compared | idle | _without_work(view))
    alone = _alone_on_its_host(view, fire, low, params) if fire.any() else fire
    severity = np.where(alone, Severity.WARNING.rank, Severity.INFO.rank)
    return Outcome(
        fire=fire, clear=~fire & (idle | (low <= params.calm)), known=known, value=_ratio(view),
        severity=severity.astype(np.int8), nearing=low > params.calm,
    )  # fmt: skip


def _without_work(view: View) -> NDArray[np.bool_]:
    """Rows that are read and do not both send and receive: what is slow later was not from the first reading on."""
    pressure, n = view.tracks.pressure, view.n
    least = np.fmin(pressure.traffic.latest[0, :n], pressure.traffic.latest[1, :n])
    return np.asarray(np.where(np.isnan(least), pressure.unrated.latest[0, :n], least) < ACTIVE)


def _ratio(view: View) -> NDArray[np.float64]:
    """Share of the peers' median, NaN before the first window."""
    peers = view.tracks.peers
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(peers.share[: view.n] / peers.median[: view.n], np.float64)


def _alone_on_its_host(
    view: View, fire: NDArray[np.bool_], low: NDArray[np.int8], params: StragglerParams
) -> NDArray[np.bool_]:
    """Rows that fire of which KEEP_UP of the other ports of the host keep up with their peers and carry what they
    usually do, and that carry less than usual themselves, in relation to how those changed, or have a known job: what
    slows a host slows them all, and what has other work is a host of another job, on all its ports. Or rows that carry
    less than these others, as their peers do not: that needs no past. Or the only adapter of a host at work, if it
    carries less than usual while no port of another host carries other than usual: work that changes is that of two
    hosts at least. A port of the same adapter that does not keep up is no other port: it is the same fault."""
    peers = view.tracks.peers
    rows, host = _on_their_hosts(view, fire)
    rows = rows[(view.now - peers.evaluated[rows] <= 2 * EVERY) | fire[rows]]
    host, low, of_own = host[rows], low[rows], peers.of_own[rows].astype(np.float64)
    hosts, adapter = int(host.max(initial=-1)) + 1, np.unique(peers.adapter[rows], return_inverse=True)[1]
    unchanged = (low <= params.calm) & (np.abs(of_own - 1.0) <= CHANGED)

    def of_others(value: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sum over the host without the ports of its own adapter that do not keep up."""
        own = np.bincount(adapter, np.where(unchanged, 0.0, value))[adapter]
        return np.asarray(np.bincount(host, value, hosts)[host] - own)

    others = of_others(np.ones(len(rows)))
    carried = of_others(np.minimum(of_own, 1.0)) / np.maximum(1.0, others)
    other_than_usual = peers.in_job[rows] | (of_own < (1.0 - GAP_OWN) * carried)
    needed = np.maximum(1.0, KEEP_UP * others)
    beside = (low <= params.calm) & (peers.of_host[rows] >= 1.0 - CHANGED)
    slower = (peers.low_on_host[rows] >= params.windows) & (np.bincount(host, beside, hosts)[host] >= needed)
    only = (others == 0) & peers.lone[rows] & (of_own < 1.0 - GAP_OWN)
    found = np.zeros(view.n, np.bool_)
    found[rows] = slower | only | (other_than_usual & (np.bincount(host, unchanged, hosts)[host] >= needed))
    return np.asarray(fire & found)


def _on_their_hosts(view: View, fire: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Rows at work on the hosts of rows that fire; and of all rows the number of the host."""
    node = view.node
    hosts = np.zeros(int(node.max(initial=-1)) + 2, np.bool_)  # the last is that of free rows: -1
    hosts[node[fire]], hosts[-1] = True, False
    return np.flatnonzero(hosts[node] & (view.tracks.peers.seen[: view.n] == WINDOWS) & view.present), node


def _with_their_host(view: View, fire: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows whose host is slow on most of its adapters: without known jobs the host of another job."""
    peers = view.tracks.peers
    rows, node = _on_their_hosts(view, fire)
    hosts = int(node.max(initial=-1)) + 1
    _, of, ports = np.unique(peers.adapter[rows], return_inverse=True, return_counts=True)
    at_work = np.bincount(node[rows], 1.0 / ports[of], hosts)
    slow = np.bincount(node[rows], (2 * peers.low[rows] >= WINDOWS) / ports[of], hosts)
    whole = (at_work > 1.5) & (slow > at_work / 2 + NEARLY)
    return np.asarray(fire & whole[node] & ~peers.in_job[: view.n])


def evidence(view: View, row: int, params: StragglerParams) -> tuple[Evidence, ...]:
    peers = view.tracks.peers
    if np.isnan(peers.evaluated[row]):
        return (reading("not compared: idle, or fewer than 8 peers at work", for_it=False),)
    share, median = float(peers.share[row]), float(peers.median[row])
    rail = f"rail {view.group_name('rail', int(view.group('rail')[row]))}"
    rail = "rails of few ports" if peers.across[row] else rail
    whose = "of its job" if peers.in_job[row] else "at work"
    low = int(peers.low[row])
    rated = not np.isnan(view.tracks.pressure.line[row])
    carries, theirs = (f"{x:.1%}" if rated else f"{8e-9 * FASTEST_BYTES * x:.1f} Gb/s" for x in (share, median))
    text = (
        f"{carries}{' of the line rate' if rated else ''}, {peers.size[row]} ports {whose} on {rail} have a median of "
        f"{theirs}, of which it usually has {float(peers.own[row]):.0%}; low in {low} of {int(peers.seen[row])} "
        f"windows of {EVERY:g} s"
    )
    formula = (
        f"|x - median| > {Z:g} x max(1.4826 MAD, 2 %) and a gap above {GAP:.0%} in {params.windows} of {WINDOWS} "
        f"windows"
    )
    found = [reading(text, formula, for_it=low >= params.windows)]
    if rated:
        found = [reading(text, formula, share, median, low >= params.windows, "straggler.share")]
    if peers.low_on_host[row] >= params.windows:
        of_host = f"{float(peers.of_host[row]):.0%}"
        text = f"{of_host} of what another adapter of its host carries at least, in relation to its peers"
        formula = f"it, or its share of usual, below their median by {Z_OWN:g} x max(1.4826 MAD, 2 %) and {GAP_OWN:.0%}"
        found.append(reading(text, formula))
    if peers.pausing[row] > peers.usual[row] + GAP / 2:
        text = f"PFC pause sent for {peers.pausing[row]:.0%} of the time, its peers {peers.usual[row]:.0%}"
        pausing = float(peers.pausing[row]), float(peers.usual[row])
        found.append(reading(text, formula, *pausing, measure="straggler.pausing"))
    return tuple(found)


RULE = Rule(
    name="straggler",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=StragglerParams,
    test=test,
    evidence=evidence,
    why=(
        "This port carries much less traffic than the other ports of its rail. Jobs wait for the slowest port; the "
        "reason is often the host, not the network."
    ),
    decision=(
        "This port carries clearly less than the other active ports of its rail, or sends clearly more pause, in at "
        "least ten of twelve windows of ten seconds; or it carries less than their median, and clearly less of it than "
        "it usually does, or clearly less than the other adapters of its host, as its peers do not. The peers are the "
        "ports of one rail and make, and of one job where jobs are known; idle ports are no peers, and a host that is "
        "low on most of its ports counts as another job's. Most stragglers are no network fault, so this alone is "
        "information; a warning where most other ports of the host keep up and carry what they usually do, and the "
        "port carried more before, in relation to them, or carries less than they do, or the job is known. Where a "
        "link, a PCIe path or an error of the same adapter explains it, it is part of that incident."
    ),
    action=(
        "Check the host: CPU and PCIe load, throttled GPUs, a data loader that starves. "
        "Compare PCIe width and speed of the adapter with its peers (`lspci -vv`), and its pause and CNP counters. "
        "Run a bandwidth test between this adapter and a peer of the rail when the job is over."
    ),
    yields_to=(
        "link_down", "link_flapping", "link_errors", "link_degrading", "link_degraded", "nic_fault",
        "packet_loss", "congestion",  # what a port loses or waits for it cannot carry
        "telemetry_quality",  # of counters that cannot be trusted the rate is not known
    ),
    promql=not_expressible(
        "peers are the ports of a rail that work for one job at the same time, and the median of each of twelve "
        "windows is kept; a rule evaluator knows neither jobs nor the idle ports of a window"
    ),
    slow=True,
)
