"""storage_path: a storage port is held back for longer than a checkpoint takes. Kept apart from collectives."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.pressure import MARKS, PACKETS, RECEIVE, TRANSMIT
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_PORT, SHORTEST, Alert, Translation, any_of, increase, metric, span
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Share = Annotated[float, Meta(gt=0, le=1)]
Floats = NDArray[np.float64]

ROLE = "storage"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of storage_path, as shares of the last half minute.

    stalled   of time in which the port had to wait with data to send (0.15: the medium band of detection-methods 3.1)
    pausing   of time in which it kept its switch from sending (0.10: slow receiver, detection-methods 3.2)
    marked    of arriving packets with a congestion mark (0.05: detection-methods 3.1)
    doubt     times `stalled` where that share is only estimated: an adapter's tick is not published (2: design)
    hold      how long it must last: checkpoints of minutes at full rate are what storage is for (10 min: design)
    clear     how long it must be free again (2 min: detection-methods 3.1)
    """

    stalled: Share = 0.15
    pausing: Share = 0.10
    marked: Share = 0.05
    doubt: Annotated[float, Meta(ge=1)] = 2.0
    hold: Duration = Duration(600)
    clear: Duration = Duration(120)


def shares(view: View, rows: NDArray[np.intp], params: Params) -> tuple[Floats, Floats, Floats]:
    """Per row: share stalled, pausing and marked, each over its limit; NaN unknown."""
    pressure = view.tracks.pressure
    limit = np.where(pressure.estimated[rows], params.doubt * params.stalled, params.stalled)
    arrived = pressure.arrivals.recent
    with np.errstate(invalid="ignore", divide="ignore"):
        marked = np.where(arrived[PACKETS, rows] > 0, arrived[MARKS, rows] / arrived[PACKETS, rows], np.nan)
    return (
        np.asarray(pressure.stalled.recent[0, rows] / limit, np.float64),
        np.asarray(pressure.pausing.recent[0, rows] / params.pausing, np.float64),
        np.asarray(marked / params.marked, np.float64),
    )


def test(view: View, params: Params) -> Outcome:
    n, facts, pressure = view.n, view.tracks.facts, view.tracks.pressure
    fire, known, value = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n)
    if ROLE in facts.role_names:
        rows = np.flatnonzero((facts.role[:n] == facts.role_names[ROLE]) & view.present & ~facts.swept[:n])
        worst = np.fmax.reduce(shares(view, rows, params)) if len(rows) else np.zeros(0)
        fresh = pressure.traffic.known(n, view.now)[rows] & (view.tracks.link[rows] == link.UP)
        known[rows] = fresh & np.isfinite(worst)
        with np.errstate(invalid="ignore"):
            fire[rows] = worst > 1.0
        value[rows] = np.nan_to_num(worst)
    return Outcome(fire=fire, clear=~fire & (value < 0.7), known=known, value=value)


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, pressure, at = str(view.table.ids[row]), view.tracks.pressure, np.array([row])
    found = []
    told = (
        ("of the time it had to wait with data to send", params.stalled),
        ("of the time it kept its switch from sending", params.pausing),
        ("of the packets arrived with a congestion mark", params.marked),
    )
    for (words, limit), over in zip(told, shares(view, at, params), strict=True):
        if np.isfinite(over[0]):
            formula = f"mean of half a minute, for {float(params.hold):g} s (detection-methods 3.1, 3.2)"
            text, share = f"{over[0] * limit:.0%} {words}", float(over[0] * limit)
            found.append(Evidence(component, text, formula, share, limit, bool(over[0] > 1.0)))
    receive, transmit = (float(pressure.traffic.recent[way, row]) for way in (RECEIVE, TRANSMIT))
    if np.isfinite(transmit):
        found.append(Evidence(component, f"sends at {transmit:.0%} and receives at {receive:.0%} of its line rate"))
    return tuple(found) or (Evidence(component, "no reading of its pressure"),)


def promql(params: Params) -> Translation:
    def paused(column: str) -> str:
        return f"max without (priority) (rate({metric(column).partition('{')[0]}[{span(SHORTEST)}]))"

    marked = f"{increase('ecn_marked_rx', SHORTEST)} / {increase('rdma_rx_packets', SHORTEST)}"
    held = any_of(
        f"{paused('pfc_rx_pause_prio0')} >= {params.stalled:g}",
        f"{paused('pfc_tx_pause_prio0')} >= {params.pausing:g}",
        f"{marked} >= {params.marked:g}",
    )
    return Translation(
        (Alert(f'({held}) and {ON_PORT} fabricmon_port_info{{role="{ROLE}"}}'),),
        differs="a ruler does not know how long a tick of the wait counter is, so InfiniBand ports are not judged",
    )


RULE = Rule(
    name="storage_path",
    kind="storage_path",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    hold=600.0,
    clear=120.0,
    title="Storage path held back",
    why=(
        "A port of the role storage waits, pauses its switch or receives marked packets without a break for ten "
        "minutes. A checkpoint that fills the storage network for a minute or two is what that network is for; one "
        "that is held back for so long stalls jobs that save or load. Storage ports are judged by this rule and not "
        "by those of collective traffic, and they never accuse a compute rail."
    ),
    action=(
        "Look at the storage servers first: load, failed disks, a lost link of theirs. Compare the hosts that are "
        "hit: all of them means servers or the storage network, one of them means that host's adapter or PCIe path. "
        "Spread checkpoints of several jobs over time where they coincide."
    ),
    yields_to=("link_down", "link_flapping", "link_errors", "link_degraded", "nic_fault"),
    promql=promql,
)
