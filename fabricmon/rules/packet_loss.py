"""packet_loss: packets of a port are lost on the way to its peers. Exact tails, a bounded false discovery rate.

`flow_loss` is the same for the packets to one peer.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from fabricmon.fleet.losses import IDLE, MTU, WINDOW, WINDOWS, Limits
from fabricmon.fleet.view import View
from fabricmon.forms.readable import share_text
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, RecordingRule, Translation, any_of, increase, metric, span, total
from fabricmon.rules.rule import Outcome, Ratio, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

_SET_BITS = np.array([bin(i).count("1") for i in range(2**WINDOWS)], np.int8)
SPAN = 60.0
"""Seconds of packets in the PromQL condition."""
RECENT = 120.0
"""Seconds for which a window is current: some counters are read every 30 s."""


class PacketLossParams(RuleParams, frozen=True):
    """Limits of packet_loss and flow_loss (docs/methods.md#packet-loss).

    A window is 10 s, or one reading where counters are read more seldom.

    usual       share of packets that a healthy fabric loses; or the loss of its class of ports over hours, if greater
    weak        least share of packets of a loss
    strong      least share of packets of a strong loss
    elevated    least multiple of the usual share
    least       least packets lost in a window
    timeouts    timeouts in a window that are a loss whatever their share: a queue pair that waits for its timer stalls
                for seconds
    discovery   share of false alarms among the lossy rows of a window
    windows     lossy windows of the last three
    hold        windows are persistent already
    clear       time for which all three windows must be clean
    """

    usual: Ratio = 1e-7
    weak: Ratio = 1e-5
    strong: Ratio = 5e-3
    elevated: Annotated[float, Meta(ge=1)] = 10.0
    least: Annotated[float, Meta(ge=1)] = 3.0
    timeouts: Annotated[float, Meta(ge=3)] = 5.0
    discovery: Ratio = 0.01
    windows: Annotated[int, Meta(ge=1, le=WINDOWS)] = 2
    clear: Duration = Duration(20)


def limits(params: PacketLossParams) -> Limits:
    return Limits(params.usual, params.weak, params.elevated, params.least, params.timeouts, params.discovery)


def test(view: View, params: PacketLossParams) -> Outcome:
    losses, n = view.losses, view.n
    bits = losses.bad(limits(params), n)
    bad = _SET_BITS[bits]
    fire = bad >= params.windows
    recent = view.now - losses.ended[:n] <= RECENT
    lapsed = view.now - losses.lapsed[:n] <= IDLE
    value = np.zeros(n)
    rows = np.flatnonzero(bits)
    value[rows] = losses.ratio(rows)
    return Outcome(
        fire=fire,
        clear=bits == 0,
        # one bad window is neither: the first of a loss, or the last
        known=view.present & (recent & (fire | (bad == 0)) | lapsed),
        value=value,
    )


def grade(ratio: float, params: PacketLossParams) -> str:
    return "strong" if ratio >= params.strong else "weak"


def info(view: View, row: int, params: PacketLossParams) -> dict[str, str]:
    return {"grade": grade(_share(view, row), params)}


def _share(view: View, row: int) -> float:
    return float(view.losses.ratio(np.array([row]))[0])


def evidence(view: View, row: int, params: PacketLossParams) -> tuple[Evidence, ...]:
    losses = view.losses
    bits = int(losses.bad(limits(params), view.n)[row])
    lost, sent = float(np.nansum(losses.lost[:, row])), float(np.nansum(losses.sent[:, row]))
    usual = max(params.usual, float(losses.usual[row]))
    limit = max(params.weak, params.elevated * usual)
    share = _share(view, row)
    text = (
        f"{share_text(share)} of packets lost: {lost:,.0f} of {sent:,.0f} in the last {WINDOWS} windows of "
        f"{WINDOW:g} s or one reading; usual: {share_text(usual)}; a {grade(share, params)} loss"
    )
    fired = float(losses.timeouts[:, row].sum())
    if fired:
        text += f"; {fired:.0f} timeouts, of which {params.timeouts:g} in one window are a loss"
    formula = (
        f"sequence errors + timeouts + implied errors over packets sent; share >= {limit:.2g}, exact Poisson tail, "
        f"Benjamini-Hochberg at {params.discovery:g} over all rows"
    )
    shown = float(_SET_BITS[bits])
    windows, often = f"{shown:.0f} of the last {WINDOWS} windows", f"{params.windows} of {WINDOWS} windows"
    return (
        reading(text, formula, share, limit, measure="packet_loss.share"),
        reading(windows, often, shown, float(params.windows), measure="packet_loss.windows"),
    )


LOST, SENT = "fabricmon:port:packets_lost", "fabricmon:port:packets_sent"
"""Recordings of SPAN."""


def promql(params: PacketLossParams) -> Translation:
    columns = ("seq_nak_rx", "ack_timeout", "implied_nak")
    lost = total(*(increase(column, SPAN) for column in columns))
    often = any_of(*(f"changes({metric(column)}[{span(SPAN)}]) >= {params.windows}" for column in columns))
    sent = (increase("rdma_tx_packets", SPAN), increase("xmit_packets", SPAN), f"{increase('xmit', SPAN)} / {MTU:g}")
    fired = f"{increase('ack_timeout', SPAN)} >= {params.windows * params.timeouts:g}"
    recordings = (RecordingRule(LOST, lost), RecordingRule(SENT, any_of(*sent)))
    condition = f"({any_of(lossy(LOST, SENT, params), fired)}) and ({often})"
    return Translation((Alert(condition),), recordings, differs=DIFFERS)


def lossy(lost: str, sent: str, params: PacketLossParams) -> str:
    """The PromQL condition on packets lost and packets sent within SPAN."""
    limit = max(params.weak, params.elevated * params.usual)
    return f"({lost} >= {params.windows * params.least:g} and {lost} / {sent} > {limit:g})"


DIFFERS = (
    "it uses a minute instead of two of three windows of 10 s, has no exact tail and no false discovery rate, and no "
    "usual loss of a class of ports"
)

WHY = (
    "Packets are lost and have to be sent again. Jobs that use this port or connection slow down."
)
DECISION = (
    "Packets are retransmitted: the peer reported a sequence error, or did not answer in time. Windows are compared "
    "with the usual loss of ports of the same role; the share of false alarms among all alarms is kept at 1 %, and two "
    "of three windows must agree. Retransmissions while connections are set up, reordering by adaptive routing and "
    "peers without receive buffers (RNR NAK) do not count. A port without traffic is not evaluated."
)

RULE = Rule(
    name="packet_loss",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=PacketLossParams,
    test=test,
    evidence=evidence,
    info=info,
    why=WHY,
    decision=DECISION,
    action=(
        "One port: compare with its neighbours on the leaf, check the errors at both ends of its cable. Many ports of "
        "one leaf or plane: a switch drops silently; see the incident of the group, and take it out of the routing."
    ),
    yields_to=("link_down",),
    promql=promql,
    slow=True,
)
