"""agent_silent: no frames from a node. Alone it is no evidence about the fabric."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.fleet import PRESENCES
from fabricmon.fleet.table import FREE
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Presence, Severity
from fabricmon.rules.promql import UP, Alert, Translation
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

_CLONED = PRESENCES.index(Presence.CLONED)
_REFUSED_AT_ONCE = [PRESENCES.index(p) for p in (Presence.CLONED, Presence.INCOMPATIBLE)]

WORDS = {
    Presence.LIVE: "connected, no frames",
    Presence.SLOW: "connected, frames are late",
    Presence.REFUSED: "agent down (connection refused)",
    Presence.UNREACHABLE: "no answer: the node or its management network is down",
    Presence.CLONED: "duplicate node name: another agent uses the same one",
    Presence.INCOMPATIBLE: "the agent has an incompatible protocol version",
    Presence.NEVER: "never seen",
}


class AgentSilentParams(RuleParams, frozen=True):
    """Limits of agent_silent (docs/methods.md#agent-silent).

    after       least time without a frame
    unanswered  the same of a node that does not answer either
    intervals   least number of the agent's intervals without a frame (3: the same)
    hold        the time without a frame is the hold
    clear       time for which frames must arrive again
    """

    after: Duration = Duration(30)
    unanswered: Duration = Duration(20)
    intervals: float = 3.0
    clear: Duration = Duration(5)


def silence(view: View) -> NDArray[np.float64]:
    """Seconds since the last frame; since the node became known where none ever came."""
    return view.now - np.fmax(view.value("last_frame"), view.value("first_seen"))


def limits(view: View, params: AgentSilentParams) -> NDArray[np.float64]:
    """Seconds without a frame from which each node is silent."""
    late = np.fmax(params.after, params.intervals * view.value("interval"))
    return np.where(_vanished(view, params), np.fmin(params.unanswered, late), late)


def test(view: View, params: AgentSilentParams) -> Outcome:
    quiet_for = silence(view)
    limit = limits(view, params)
    presence = view.value("presence")
    refused = np.isin(presence, _REFUSED_AT_ONCE)
    vanished = _vanished(view, params)
    died = vanished & _answered_last(view)
    fire = (quiet_for >= limit) | refused | died
    return Outcome(
        fire=fire,
        clear=~fire,
        known=(view.node != FREE) & np.isfinite(quiet_for),
        value=quiet_for,
        severity=np.where((presence == _CLONED) | vanished, Severity.WARNING.rank, Severity.INFO.rank).astype(np.int8),
        since=np.where(refused, np.nan, np.where(died, view.value("answered"), view.now - quiet_for)),
        anew=died,
    )


def _answered_last(view: View) -> NDArray[np.bool_]:
    """Nodes that answered without an agent after their last frame: a host that refuses connections is up."""
    with np.errstate(invalid="ignore"):
        return np.asarray(view.value("answered") > view.now - silence(view))


def _vanished(view: View, params: AgentSilentParams) -> NDArray[np.bool_]:
    """Nodes that reported or answered and do not answer at all now: down, or cut off. One that answered without an
    agent has to be gone for as long as one that reported."""
    unanswered = view.value("presence") == PRESENCES.index(Presence.UNREACHABLE)
    answered = view.value("answered")
    with np.errstate(invalid="ignore"):
        just = _answered_last(view) & (view.now - answered < params.unanswered)
    return np.asarray(unanswered & (np.isfinite(view.value("last_frame")) | np.isfinite(answered)) & ~just)


def _presence(view: View, row: int) -> Presence:
    return PRESENCES[int(view.value("presence")[row])]


def evidence(view: View, row: int, params: AgentSilentParams) -> tuple[Evidence, ...]:
    quiet_for = float(silence(view)[row])
    limit = float(limits(view, params)[row])
    detail = view.label(row, "detail")
    last, answered = float(view.value("last_frame")[row]), float(view.value("answered")[row])
    text = f"{WORDS[_presence(view, row)]}; {f'last frame at {clock_time(last)}' if last == last else 'no frame yet'}"
    if _vanished(view, params)[row] and _answered_last(view)[row]:
        text += f"; without an agent it answered until {clock_time(answered)}"
    text += f" ({detail})" if detail else ""
    formula = f"no frame in max({params.intervals:g} intervals, {params.after:g} s); unanswered {params.unanswered:g} s"
    return (reading(text, formula, quiet_for, limit, measure="agent_silent.quiet"),)


def info(view: View, row: int, params: AgentSilentParams) -> dict[str, str]:
    return {"presence": _presence(view, row).value}


def promql(params: AgentSilentParams) -> Translation:
    return Translation(
        (Alert(f"{UP} == 0", hold=max(params.after, params.hold)),),
        differs=(
            "it is the rule evaluator's own scrape that fails, of the targets of its service discovery; it does not "
            "know whether the node answers or whether two agents have one name"
        ),
    )


RULE = Rule(
    name="agent_silent",
    table=Kind.NODE,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=AgentSilentParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The server gets no data from this node: its agent is down, the node is unreachable, or two nodes use one "
        "name. Its jobs may run normally, but faults on it are not detected."
    ),
    decision=(
        "No frame came from this node for 30 seconds, or three of its intervals if that is longer; for 20 seconds if "
        "it does not answer either, which counts from its last answer: a node that refuses connections is up. A silent "
        "agent is "
        "not a dead node: agents are restarted, upgraded and starved. So this is information; a warning if the node "
        "does not answer any more, unless its peers lose nothing that they send to it and agents often fall silent; "
        "and a fault of the host or of its power domain only with evidence from other nodes. "
        "Meanwhile the node's ports keep "
        "their last known state: silence is never recovery. Two agents under one name are a warning: neither of "
        "the two nodes is monitored, and that does not end by itself."
    ),
    action=(
        "Agent down: the node is up, start the agent (`systemctl start fabricmon-agent`). Unreachable: check the "
        "node's BMC, then the management network. Duplicate node name: two agents use one name; give one another "
        "`--node`. Incompatible: upgrade the older side. Never seen: check the target's address."
    ),
    promql=promql,
)
