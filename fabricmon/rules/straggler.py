"""straggler: an adapter carries less than its rail peers at the same work, or holds them up, minute after minute."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet.peers import EVERY, GAP, WINDOWS, Z
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import unsaid
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of straggler. z, gap and the size of a group of peers are those of detection-methods 2.5.

    windows  of the last 12 windows of 10 s at work, so many must be low (10: 4/5, detection-methods 2.5)
    calm     at most so many of them when it ends (2: design)
    idle     s; without work for so long there is nothing left to compare, and it ends (600: design)
    hold     how long they must be: with them two minutes at least (30 s: detection-methods 2.6)
    clear    how long it must keep up with its peers (30 s: three windows)
    """

    windows: Annotated[int, Meta(ge=1, le=WINDOWS)] = 10
    calm: Annotated[int, Meta(ge=0, lt=WINDOWS)] = 2
    idle: Duration = Duration(600)
    hold: Duration = Duration(30)
    clear: Duration = Duration(30)


def test(view: View, params: Params) -> Outcome:
    n, peers = view.n, view.tracks.peers
    low, judged = peers.low[:n], peers.judged[:n]
    fire = low >= params.windows
    with np.errstate(invalid="ignore"):
        idle = view.now - judged > params.idle
    fire &= ~idle
    if fire.any():
        fire &= ~_with_their_host(view, fire)
    known = view.present & ((peers.seen[:n] == WINDOWS) | idle)
    return Outcome(fire=fire, clear=~fire & (idle | (low <= params.calm)), known=known, value=_ratio(view))


def _ratio(view: View) -> NDArray[np.float64]:
    """Share of the peers' median, NaN before the first window."""
    peers = view.tracks.peers
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(peers.share[: view.n] / peers.median[: view.n], np.float64)


def _with_their_host(view: View, fire: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows whose host is slow on most of its ports: without jobs that is another job's host, no slow adapter."""
    peers, node = view.tracks.peers, view.node
    hosts = np.zeros(int(node.max(initial=-1)) + 1, np.bool_)
    hosts[node[fire]] = True
    rows = np.flatnonzero((node >= 0) & hosts[node] & (peers.seen[: view.n] == WINDOWS) & view.present)
    at_work = np.bincount(node[rows], minlength=len(hosts))
    slow = np.bincount(node[rows], 2 * peers.low[rows] >= WINDOWS, minlength=len(hosts))
    whole = (at_work > 1) & (2 * slow > at_work)
    return np.asarray(fire & whole[node] & ~peers.in_job[: view.n])


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, peers = str(view.table.ids[row]), view.tracks.peers
    if np.isnan(peers.judged[row]):
        return (Evidence(component, "never compared: idle, or fewer than 8 peers at work", for_it=False),)
    share, median = float(peers.share[row]), float(peers.median[row])
    rail = view.group_name("rail", int(view.group("rail")[row]))
    whose = "of its job" if peers.in_job[row] else "at work"
    low = int(peers.low[row])
    text = (
        f"{share:.1%} of the line rate, {peers.size[row]} ports {whose} on rail {rail} have a median of {median:.1%}; "
        f"low in {low} of {int(peers.seen[row])} windows of {EVERY:g} s"
    )
    formula = (
        f"|x - median| > {Z:g} x max(1.4826 MAD, 2 %) and a gap above {GAP:.0%} in {params.windows} of {WINDOWS} "
        f"windows (detection-methods 2.5)"
    )
    found = [Evidence(component, text, formula, share, median, low >= params.windows)]
    if peers.pausing[row] > peers.usual[row] + GAP / 2:
        text = f"paused others for {peers.pausing[row]:.0%} of the time, its peers for {peers.usual[row]:.0%}"
        found.append(Evidence(component, text, formula, float(peers.pausing[row]), float(peers.usual[row])))
    return tuple(found)


RULE = Rule(
    name="straggler",
    kind="straggler",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    hold=30.0,
    clear=30.0,
    title="Adapter slower than its peers",
    why=(
        "Of all ports at work on this rail, this one carries clearly less, or pauses the others clearly more, in at "
        "least ten of twelve windows of ten seconds. Compared are ports of one rail and make, and of one job where "
        "jobs are known; idle ports are no peers, and a host that is low on most of its ports is taken for another "
        "job's. Most stragglers are no network fault, so this alone is information; where a link, a PCIe path or an "
        "error of the same adapter explains it, it is part of that incident."
    ),
    action=(
        "Look at what the same host does besides: CPU and PCIe load, throttled GPUs, a data loader that starves. "
        "Compare PCIe width and speed of the adapter with its peers (`lspci -vv`), and its pause and CNP counters. "
        "Run a bandwidth test between this adapter and a peer of the rail when the job is over."
    ),
    yields_to=(
        "link_down",
        "link_flapping",
        "link_errors",
        "link_degrading",
        "link_degraded",
        "nic_fault",
    ),
    promql=unsaid(
        "peers are the ports of a rail that work for one job at the same moment, and the median of each of twelve "
        "windows is kept; a ruler knows neither jobs nor when a port was idle within a window"
    ),
)
