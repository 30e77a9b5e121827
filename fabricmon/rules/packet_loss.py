"""packet_loss: packets of a port are lost on the way to its peers. Exact tails, a bounded false discovery rate.

`flow_loss` is the same of what a port sends to one peer.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fabricmon.fleet.losses import IDLE, MTU, WINDOW, WINDOWS, Limits
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Recording, Translation, any_of, increase, metric, span, total
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Ratio = Annotated[float, Meta(gt=0, lt=1)]
_SET_BITS = np.array([bin(i).count("1") for i in range(2**WINDOWS)], np.int8)
SPAN = 60.0
"""Seconds of packets that the condition in PromQL looks at."""
RECENT = 120.0
"""Seconds after which a window is too old to say how a row is now: some counters are read every 30 s."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of packet_loss and flow_loss. A window is 10 s, or one reading where counters are read more seldom.

    usual       share of packets that a healthy fabric loses; what a class of ports loses for hours counts instead when
                it is more (1e-7: design)
    weak        share of packets from which a loss counts at all (1e-5: detection-methods 3.5)
    strong      share of packets that is a strong loss (5e-3: detection-methods 3.5)
    elevated    times the usual share that a loss has to be (10: design)
    least       packets lost in a window that has a loss (3: design)
    timeouts    timers that fired in a window that has a loss, whatever share of the packets that is: a queue pair that
                waits for its timer stands still for seconds (5: design)
    discovery   share of false ones among the rows that are called lossy in a window (0.01: detection-methods 2.4)
    windows     so many of the last three windows must show it (2: detection-methods 3.5)
    hold        s; windows are persistent already (0)
    clear       how long all three windows must be clean before this ends (20 s: design)
    """

    usual: Ratio = 1e-7
    weak: Ratio = 1e-5
    strong: Ratio = 5e-3
    elevated: Annotated[float, Meta(ge=1)] = 10.0
    least: Annotated[float, Meta(ge=1)] = 3.0
    timeouts: Annotated[float, Meta(ge=3)] = 5.0
    discovery: Ratio = 0.01
    windows: Annotated[int, Meta(ge=1, le=WINDOWS)] = 2
    hold: Duration = Duration(0)
    clear: Duration = Duration(20)


def limits(params: Params) -> Limits:
    return Limits(params.usual, params.weak, params.elevated, params.least, params.timeouts, params.discovery)


def test(view: View, params: Params) -> Outcome:
    losses, n = view.losses, view.n
    bits = losses.bad(limits(params), n)
    bad = _SET_BITS[bits]
    fire = bad >= params.windows
    with np.errstate(invalid="ignore"):
        recent = view.now - losses.ended[:n] <= RECENT
        lapsed = view.now - losses.lapsed[:n] <= IDLE
    value = np.zeros(n)
    rows = np.flatnonzero(bits)
    value[rows] = losses.ratio(rows)
    return Outcome(
        fire=fire,
        clear=bits == 0,
        # one bad window is neither: it may be the first of a loss, or the last
        known=view.present & (recent & (fire | (bad == 0)) | lapsed),
        value=value,
    )


def grade(ratio: float, params: Params) -> str:
    return "strong" if ratio >= params.strong else "weak"


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"grade": grade(_share(view, row), params)}


def _share(view: View, row: int) -> float:
    return float(view.losses.ratio(np.array([row]))[0])


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    losses, component = view.losses, str(view.table.ids[row])
    bits = int(losses.bad(limits(params), view.n)[row])
    lost, sent = float(np.nansum(losses.lost[:, row])), float(np.nansum(losses.sent[:, row]))
    usual = max(params.usual, float(losses.usual[row]))
    limit = max(params.weak, params.elevated * usual)
    share = _share(view, row)
    text = (
        f"{lost:.0f} of {sent:.3g} packets lost ({share:.2g}) in the last {WINDOWS} windows of {WINDOW:g} s or one "
        f"reading; {usual:.2g} is usual: a {grade(share, params)} loss"
    )
    fired = float(losses.timeouts[:, row].sum())
    if fired:
        text += f"; {fired:.0f} timers fired, {params.timeouts:g} in one window are a loss of their own"
    formula = (
        f"sequence errors + timeouts + implied errors over packets sent; share >= {limit:.2g}, exact Poisson tail, "
        f"Benjamini-Hochberg at {params.discovery:g} over all rows (detection-methods 2.4, 3.5)"
    )
    shown = float(_SET_BITS[bits])
    windows = f"{shown:.0f} of the last {WINDOWS} windows"
    return (
        Evidence(component, text, formula, share, limit),
        Evidence(component, windows, f"{params.windows} of {WINDOWS} windows", shown, float(params.windows)),
    )


LOST, SENT = "fabricmon:port:packets_lost", "fabricmon:port:packets_sent"
"""Recordings of SPAN."""


def promql(params: Params) -> Translation:
    columns = ("seq_nak_rx", "ack_timeout", "implied_nak")
    lost = total(*(increase(column, SPAN) for column in columns))
    often = any_of(*(f"changes({metric(column)}[{span(SPAN)}]) >= {params.windows}" for column in columns))
    sent = (increase("rdma_tx_packets", SPAN), increase("xmit_packets", SPAN), f"{increase('xmit', SPAN)} / {MTU:g}")
    fired = f"{increase('ack_timeout', SPAN)} >= {params.windows * params.timeouts:g}"
    recordings = (Recording(LOST, lost), Recording(SENT, any_of(*sent)))
    condition = f"({any_of(lossy(LOST, SENT, params), fired)}) and ({often})"
    return Translation((Alert(condition),), recordings, differs=DIFFERS)


def lossy(lost: str, sent: str, params: Params) -> str:
    """What was lost and what was sent within SPAN as the condition of a ruler."""
    limit = max(params.weak, params.elevated * params.usual)
    return f"({lost} >= {params.windows * params.least:g} and {lost} / {sent} > {limit:g})"


DIFFERS = (
    "it looks at a minute instead of two of three windows of 10 s, has no exact tail and no false discovery rate, and "
    "knows nothing of what a class of ports loses usually"
)

WHY = (
    "Packets have to be sent again: the peer reported a hole in their sequence, or did not answer in time. Windows are "
    "compared with what ports of the same role lose usually; the share of false alarms among all that are told is held "
    "at 1 %, and two of three windows must agree. Retransmissions while connections are set up, reordering by adaptive "
    "routing and peers without receive buffers do not count. A port without traffic is not judged."
)

RULE = Rule(
    name="packet_loss",
    kind="packet_loss",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=0.0,
    clear=20.0,
    title="Packet loss",
    why=WHY,
    action=(
        "One port: compare with its neighbours on the leaf, look at errors at both ends of its cable. Many ports of "
        "one leaf or plane: a switch loses silently; see the incident for the group, and take it out of the routing."
    ),
    yields_to=("link_down",),
    promql=promql,
)
