"""agent_silent: nothing is heard of a node. It says nothing about the fabric until a second witness speaks."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.fleet import PRESENCES
from fabricmon.fleet.table import NOBODY
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Presence, Severity
from fabricmon.rules.promql import UP, Alert, Translation
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

_REFUSED_AT_ONCE = [PRESENCES.index(p) for p in (Presence.CLONED, Presence.INCOMPATIBLE)]

WORDS = {
    Presence.LIVE: "connected, but nothing comes",
    Presence.SLOW: "connected, but frames are late",
    Presence.REFUSED: "the node answers, but nothing listens: the agent is not running",
    Presence.UNREACHABLE: "no answer at all: the node or its management network is down",
    Presence.CLONED: "another agent uses the same node name",
    Presence.INCOMPATIBLE: "the agent speaks another version of the protocol",
    Presence.NEVER: "expected, but never heard of",
}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of agent_silent.

    after      without a frame for so long, at least (30 s: detection-methods, table of symptoms, AM) ...
    intervals  ... and for so many of the agent's own intervals (3: the same)
    hold       s; the silence itself is the hold (0)
    clear      how long frames must come again (5 s: design)
    """

    after: Duration = Duration(30)
    intervals: float = 3.0
    hold: Duration = Duration(0)
    clear: Duration = Duration(5)


def silence(view: View) -> NDArray[np.float64]:
    """Seconds since the last frame; since the node became known where none ever came."""
    return view.now - np.fmax(view.value("last_frame"), view.value("first_seen"))


def test(view: View, params: Params) -> Outcome:
    quiet_for = silence(view)
    limit = np.fmax(params.after, params.intervals * view.value("interval"))
    presence = view.value("presence")
    refused = np.isin(presence, _REFUSED_AT_ONCE)
    with np.errstate(invalid="ignore"):
        fire = (quiet_for >= limit) | refused
    return Outcome(
        fire=fire,
        clear=~fire,
        known=(view.node != NOBODY) & np.isfinite(quiet_for),
        value=quiet_for,
        since=np.where(refused, np.nan, view.now - quiet_for),
    )


def _presence(view: View, row: int) -> Presence:
    return PRESENCES[int(view.value("presence")[row])]


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    quiet_for = float(silence(view)[row])
    limit = float(np.fmax(params.after, params.intervals * view.value("interval")[row]))
    detail = view.label(row, "detail")
    text = f"{WORDS[_presence(view, row)]}; last frame {quiet_for:.0f} s ago" + (f" ({detail})" if detail else "")
    formula = f"no frame for max({params.intervals:g} intervals, {params.after:g} s) (detection-methods 3.9)"
    return (Evidence(str(view.table.ids[row]), text, formula, quiet_for, limit),)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"presence": _presence(view, row).value}


def promql(params: Params) -> Translation:
    return Translation(
        (Alert(f"{UP} == 0", hold=max(params.after, params.hold)),),
        differs=(
            "it is the ruler's own scrape that fails, of targets that its service discovery names; whether the node "
            "answers, and whether two agents have one name, it does not tell"
        ),
    )


RULE = Rule(
    name="agent_silent",
    kind="agent_silent",
    table=Kind.NODE,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=0.0,
    clear=5.0,
    title="Agent silent",
    why=(
        "No frame came from this node for 30 seconds, or three of its intervals if that is longer. A silent agent is "
        "not a dead node: agents are restarted, upgraded and starved. So this is information; it becomes a fault "
        "of the host or of its power domain only together with what other nodes see. While it lasts, what the node's "
        "ports were last known to be is kept: silence is never recovery."
    ),
    action=(
        "The evidence says which it is. Refused: the node is up, start the agent (`systemctl start fabricmon-agent`). "
        "Unreachable: ask the node's BMC, then the management network. Cloned: two agents use one node name; give "
        "one another `--node`. Incompatible: upgrade the older side. Never heard of: is the target's address right?"
    ),
    promql=promql,
)
