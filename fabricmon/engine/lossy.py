"""What an incident says of packet loss: its own, or what a hard fault makes others lose. Pure."""

from __future__ import annotations

from fabricmon.engine.board import Board
from fabricmon.engine.case import Key
from fabricmon.engine.causes import WORDS
from fabricmon.engine.diagnose import Verdict
from fabricmon.engine.losses import SOFT
from fabricmon.model import Evidence, Kind

SETTLE = {"FL": 15.0, "EL": 30.0}
"""Seconds for which a loss is not told of, by the type of its symptoms [D]: more flows or ports may follow within a
window or two, and the fault that makes them lose may show itself. An agent counts as silent after 30 s (3.9)."""

FINER = {
    "plane": "its ports lose alike whatever leaf they are on: the evidence allows no finer answer than one of "
    "the {switches} {tier} switches of the plane or one of their cables",
    "pod": "its ports lose alike whatever leaf they are on: the evidence allows no finer answer than one of the "
    "{switches} {tier} switches of the pod",
    "network": "no part of the network loses more than another: the evidence allows no finer answer",
}


def only(verdict: Verdict) -> bool:
    """Nothing but loss speaks for it."""
    return verdict.explained.keys() <= SOFT


def unsettled(verdict: Verdict) -> tuple[str, float]:
    """Why it is too early to tell, and for how long that may hold it back."""
    return "losses spread, and their cause may show itself", max(SETTLE[kind] for kind in verdict.explained)


def claims(verdict: Verdict, board: Board) -> frozenset[Key]:
    """The open symptoms of others that this cause explains."""
    return board.keys({kind: rows.tolist() for kind, rows in verdict.effects.items() if kind in board.judges})


def level(verdict: Verdict, board: Board) -> str:
    """Which evidence there was (detection-methods 0): flows with paths, ports of switches, or nodes' own counters."""
    if "FL" in verdict.explained:
        return "L2"
    swept = board.places.domains.swept
    ports = [rows for kind, rows in verdict.explained.items() if board.table(kind) is Kind.PORT]
    return "L3" if any(swept[rows[rows < len(swept)]].any() for rows in ports) else "L1"


def switches(verdict: Verdict, board: Board) -> list[str]:
    """The switches of a group of which the evidence tells no more than that it is one of them."""
    if verdict.domain not in ("plane", "pod"):
        return []
    about = board.places.about(verdict.domain, verdict.group)
    return [f"{about['tier']}({name})" for name in about.get("names", "").split()]


def ends(name: str, board: Board) -> list[str]:
    """What is at the ends of a cable: an adapter, or the port of a switch."""
    found: list[str] = []
    hosts = set(board.places.names["host"])
    for end in name.split(", "):
        node, _, port = end.partition("/")
        found.append(f"nic({node}/{port.partition('/')[0]})" if node in hosts else f"port({end})")
    return found


def told(verdict: Verdict, component: str, board: Board) -> list[Evidence]:
    """What the cause makes others lose, and why the answer is no finer."""
    found: list[Evidence] = []
    for kind, rows in verdict.effects.items():
        if len(rows):
            names = ", ".join(str(board.component(kind, row)) for row in rows[:3].tolist())
            text = f"explained by it: {WORDS[kind]} on {len(rows)} others ({names}{', ...' if len(rows) > 3 else ''})"
            found.append(Evidence(component, text, value=float(len(rows))))
    if only(verdict) and verdict.domain in FINER:
        about = board.places.about(verdict.domain, verdict.group)
        found.append(Evidence(component, FINER[verdict.domain].format(**{"tier": "", "switches": "", **about})))
    return found
