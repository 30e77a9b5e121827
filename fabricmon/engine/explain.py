"""A verdict in words: what an incident says, how severe it is, what speaks for it and against it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fabricmon.engine import lossy, words
from fabricmon.engine.board import Board, Rows
from fabricmon.engine.case import Case
from fabricmon.engine.causes import GROUPS, SYMPTOM_OF, WORDS
from fabricmon.engine.diagnose import Alternative, Verdict, odds_text
from fabricmon.engine.ruled_out import Counts, ruled_out
from fabricmon.engine.search import Floats
from fabricmon.engine.situation import severest
from fabricmon.model import ComponentId, Event, Evidence, Kind, Members, Severity, Symptom

PARTS = 64  # names of bad members in an incident
EXAMPLES = 5  # symptoms whose readings are printed with a verdict

SETTLE = 12.0
"""Longest wait of a link-down verdict for its neighbours [D]: a poll of 10 s and a slow read. It ends as soon as every
neighbour was read after the onset and none is turning bad."""
AT_ONCE = 1.0
"""Seconds before the onset within which a neighbour's read counts as simultaneous: the onset is the tick's time, a
little later than the read that showed it."""
HOST_SETTLE = 40.0
"""Longest wait for a host whose links went down or whose frames stopped [D]: an agent counts as silent after 30 s
(detection-methods 3.9), which makes it the host's own affair."""
SPREAD = 10.0
"""Seconds by which the GPUs of an NVLink domain that fail for one reason may follow the first [D]: one poll."""
SCARCE_SETTLE = 60.0
"""Longest wait of a verdict on a group of which less than half was seen yet, as after a start of the centre."""
SCARCE = 0.5
FRAMES_STOPPED = 3.0  # seconds without a frame: agents send at least one a second
LINGER = 120.0
"""A leaf that comes back trains its links one after the other; what is still down this long after the leaf's verdict
ended is told on its own. Same 120 s as the weight-0 window after a boot (detection-methods 3.3)."""
GROUP_CALM = 30.0  # three polls without a symptom before a group is called recovered
REBOOT = 900.0
"""A host that took its links along and is not back after this is unreachable [D]; large hosts boot in 5 to 10 min."""
SOFT = frozenset({"straggler", "storage_path"})
"""Kinds of which many members are not a harder fault than one."""
EVENT_NEAR = 60.0  # seconds between a kernel event and the symptom it belongs to
SURE, SUSPECTED = 0.9, 0.5  # detection-methods 4.4

METHOD = "noisy-OR, most probable set of causes (detection-methods 4.1-4.4)"


@dataclass(slots=True)
class Moment:
    """What besides the symptoms decides how a verdict is told.

    read_at     per PORT row, `now` at which its newest link state arrived; NaN unknown
    gpus_read_at  the same of the NVLinks of each GPU row
    last_frame  node -> `now` of its newest frame, NaN before the first
    covered     (component word, hosts) -> id of the maintenance window that covers it, "" none
    events      the newest kernel event of a component
    counts      who was observed and who shows what
    """

    now: float
    board: Board
    read_at: Floats
    gpus_read_at: Floats
    last_frame: Callable[[str], float]
    covered: Callable[[str, frozenset[str]], str]
    events: Mapping[ComponentId, Event]
    counts: Counts
    topology: str = ""


def case_of(verdict: Verdict, moment: Moment) -> Case:
    """The incident that tells of a verdict."""
    board, mode = moment.board, verdict.modes[0]
    name = board.places.names[mode.domain][verdict.group]
    component = f"{mode.word}({name})"
    symptoms = [s for kind, rows in verdict.explained.items() for s in board.symptoms(kind, rows.tolist())]
    kind, said = mode.kind, (words.SEEN if verdict.seen else words.WORDS).get(mode.name, words.WORDS.get(mode.name))
    if said is None and SYMPTOM_OF.get(kind) in verdict.explained:  # of several rules of one type, the one that speaks
        kind = board.speaker(_finest(verdict), verdict.explained[_finest(verdict)].tolist()).kind
    if mode.name == "host down" and moment.now - verdict.onset >= REBOOT:
        kind, said = "host_unreachable", words.WORDS["host gone"]
    bad, of, parts = _members(verdict, board)
    hosts = frozenset().union(*(board.hosts(k, rows.tolist()) for k, rows in verdict.explained.items()))
    severity = _severity(verdict, kind, symptoms, hosts)
    labels = {"mode": mode.name} | board.places.about(mode.domain, verdict.group)
    for of_switch in ("ports", "switches", "names"):
        labels.pop(of_switch, None)
    labels |= {key: value for s in symptoms for key, value in s.info.items()}
    if verdict.confidence < SURE:
        labels["suspected"] = "true"
        known = verdict.confidence >= SUSPECTED and not lossy.only(verdict)  # 4.4: a suspected loss is a note
        severity = min(severity, Severity.WARNING if known else Severity.INFO, key=_rank)
    if len(hosts) == 1:
        labels["node"] = next(iter(hosts))
    if said is not None:
        texts = [text.format(name=name, bad=bad, of=of) for text in said]
    else:
        rule = board.speaker(_finest(verdict), verdict.explained[_finest(verdict)].tolist())
        texts = [f"{rule.title}: {name}", rule.why, rule.action]
    if verdict.confidence < SURE:
        texts[0] = f"Suspected: {texts[0]}"
    unsettled, wait = lossy.unsettled(verdict) if lossy.only(verdict) else _unsettled(verdict, moment)
    group = mode.domain in GROUPS
    candidates = _candidates(verdict, board, component, name)
    return Case(
        family=mode.word,
        identity=f"{mode.word}({name.partition(', ')[0] if mode.word == 'link' else name})",
        component=component,
        kind=kind,
        severity=severity,
        confidence=round(verdict.confidence, 4),
        title=texts[0],
        why=texts[1],
        action=texts[2],
        evidence=_evidence(verdict, moment, component, symptoms, of),
        members=Members(bad, of),
        claims=board.keys({k: rows.tolist() for k, rows in verdict.explained.items()}) | lossy.claims(verdict, board),
        onset=verdict.onset,
        labels=labels,
        candidates=candidates,
        parts=tuple(str(c) for c in parts[:PARTS]),
        group=group,
        wait=wait,
        unsettled=unsettled,
        linger=LINGER if group else 0.0,
        calm=GROUP_CALM if group and mode.domain != "host" else 0.0,
        covered=moment.covered(component, hosts),
        ruled_out=ruled_out(verdict, (component, *candidates), moment.counts, board),
    )


def _rank(severity: Severity) -> int:
    return severity.rank


def _finest(verdict: Verdict) -> str:
    """The symptom type whose rule speaks for a verdict on one link: that of the mode's kind."""
    for kind in verdict.explained:
        if SYMPTOM_OF.get(verdict.modes[0].kind) == kind:
            return kind
    return next(iter(verdict.explained))


def _members(verdict: Verdict, board: Board) -> tuple[int, int, list[ComponentId]]:
    """Bad members, all members, and the bad ones' names. Hosts of a power domain, ports of anything else."""
    kinds = [k for k in verdict.explained if board.table(k) is Kind.PORT] or list(verdict.explained)
    rows = sorted({row for kind in kinds for row in verdict.explained[kind].tolist()})
    size = board.places.size(board.table(kinds[0]), verdict.domain, verdict.group)
    return len(rows), max(size, len(rows)), [board.component(kinds[0], row) for row in rows]


def _severity(verdict: Verdict, kind: str, symptoms: list[Symptom], hosts: frozenset[str]) -> Severity:
    """Section 5: critical is a hard fault of a domain of two or more hosts; a single link is what its rule says."""
    if kind in SOFT:
        return severest(s.severity for s in symptoms)
    if verdict.modes[0].severity is not None:
        return verdict.modes[0].severity
    if verdict.domain == "nvlink_domain":
        return Severity.CRITICAL
    if verdict.domain in ("leaf", "rail", "learned", "power"):
        if verdict.modes[0].word == "monitoring":
            return Severity.WARNING
        return Severity.CRITICAL if len(hosts) > 1 else severest(s.severity for s in symptoms)
    if kind == "agent_silent":
        return Severity.INFO
    if kind == "host_unreachable":
        return Severity.WARNING
    return severest(s.severity for s in symptoms)


def _candidates(verdict: Verdict, board: Board, component: str, name: str) -> tuple[str, ...]:
    """The rest of the ambiguity group. A link's own evidence cannot tell its cable from the ports at its ends (4.7)."""
    found = [_named(rival, board) for rival in verdict.rivals] + lossy.switches(verdict, board)
    if verdict.domain == "link" and lossy.only(verdict):
        found.extend(lossy.ends(name, board))
    elif verdict.domain == "link":
        near, _, far = name.partition(", ")
        node, _, rest = near.partition("/")
        nic = board.places.port.ids["nic"][verdict.explained[next(iter(verdict.explained))]]
        found.append(f"nic({node}/{rest.partition('/')[0]})" if (nic >= 0).any() else f"port({near})")
        if far:
            found.append(f"port({far})")
    if verdict.domain == "nic":
        links = board.places.port.ids["link"][_down(verdict, board)]
        found.extend(f"link({board.places.names['link'][link]})" for link in links.tolist() if link >= 0)
    return tuple(dict.fromkeys(c for c in found if c != component))


def _down(verdict: Verdict, board: Board) -> list[int]:
    """Ports of an adapter whose link is down, explained or taken for an effect of what its device tells."""
    rows = board.places.members(Kind.PORT, verdict.domain, verdict.group).tolist()
    return [row for row in rows if any(row in judge.open for judge in board.judges.get("LD", ()))]


def _named(alternative: Alternative, board: Board) -> str:
    return f"{alternative.mode.word}({board.places.names[alternative.mode.domain][alternative.group]})"


def _evidence(
    verdict: Verdict, moment: Moment, component: str, symptoms: list[Symptom], of: int
) -> tuple[Evidence, ...]:
    """What 4.5 asks for: counts, examples, what speaks against it, the best alternative and its gap."""
    found: list[Evidence] = []
    for kind, rows in verdict.explained.items():
        if len(rows) > 1:
            first = min(s.since for s in moment.board.symptoms(kind, rows.tolist()))
            last = max(s.since for s in moment.board.symptoms(kind, rows.tolist()))
            text = f"{WORDS[kind]} on {len(rows)} members, began within {last - first:.0f} s"
            found.append(Evidence(component, text, value=float(len(rows)), limit=float(of)))
    for symptom in symptoms[:EXAMPLES]:
        found.extend(symptom.evidence[:3])
        event = moment.events.get(symptom.component)
        if event is not None and abs(event.wall - symptom.since) <= EVENT_NEAR:
            found.append(Evidence(str(symptom.component), f"kernel: {event.text}"))
    found.extend(lossy.told(verdict, component, moment.board))
    against = {kind: count for kind, count in verdict.silent.items() if count}
    for kind, count in against.items():
        found.append(Evidence(component, f"{count} observed members show no {WORDS[kind]}", METHOD, for_it=False))
    missing = _unobserved(verdict, moment)
    if missing:
        found.append(Evidence(component, f"{missing} of {of} members do not report; they count for nothing"))
    other = verdict.best_other
    gap = ""
    if other is not None:
        gap = f"; best alternative {_named(other, moment.board)} is {verdict.gain - other.gain:.1f} nats behind"
    text = f"{verdict.modes[0].name}: {odds_text(verdict)}, confidence {verdict.confidence:.3f}{gap}"
    text += f"; evidence level {lossy.level(verdict, moment.board)}"
    if moment.topology:
        text += f"; topology {moment.topology}"
    found.append(Evidence(component, text, METHOD, value=round(verdict.gain, 3), limit=0.0))
    return tuple(found)


def _unobserved(verdict: Verdict, moment: Moment) -> int:
    """Members of the group of which nothing is known now."""
    if verdict.domain not in GROUPS:
        return 0
    kinds = [kind for kind in verdict.modes[0].q if kind in verdict.explained]
    if not kinds:
        return 0
    _, of, _ = _members(verdict, moment.board)
    return max(0, of - len(verdict.explained[kinds[0]]) - verdict.silent.get(kinds[0], 0))


def _unsettled(verdict: Verdict, moment: Moment) -> tuple[str, float]:
    """Why it is too early to tell of a verdict ("" when it is not), and for how long that may hold it back."""
    board, mode = moment.board, verdict.modes[0]
    if mode.domain == "gpu":
        return _unsettled_gpu(verdict, moment)
    if "LD" not in verdict.explained or mode.kind in ("link_flapping", "nic_fault"):
        return "", 0.0
    rows = verdict.explained["LD"]
    if mode.domain == "host":
        return "the host's agent may fall silent", HOST_SETTLE
    if mode.domain in GROUPS:
        expected = int(board.places.about(mode.domain, verdict.group).get("ports", "0"))
        seen = len(rows) + verdict.silent.get("LD", 0) + board.pending("LD", mode.domain, verdict.group)
        if seen < SCARCE * expected:
            return f"{seen} of {expected} members seen", SCARCE_SETTLE
        turning = board.pending("LD", mode.domain, verdict.group)
        return (f"{turning} more members are turning bad" if turning else ""), SETTLE
    stopped = [n for n in sorted(_nodes(rows, board)) if not moment.now - moment.last_frame(n) <= FRAMES_STOPPED]
    if stopped:
        return f"no frames from {stopped[0]}", HOST_SETTLE
    for domain in ("leaf", "host"):
        ids = board.places.port.ids[domain]
        for group in {int(g) for g in ids[rows].tolist() if g >= 0}:
            turning = board.pending("LD", domain, group)
            if turning:
                return f"{turning} neighbours are turning bad", SETTLE
            if domain != "leaf":
                continue  # a host's ports are read together
            unread = _unread(moment, moment.read_at, board.places.members(Kind.PORT, domain, group), verdict.onset)
            if unread:
                return f"{unread} neighbours not read since", SETTLE
    return "", 0.0


def _unsettled_gpu(verdict: Verdict, moment: Moment) -> tuple[str, float]:
    """The other GPUs of the NVLink domain may follow: theirs was not read since, or is turning bad."""
    board = moment.board
    kind = next(iter(verdict.explained))
    if board.table(kind) is not Kind.GPU:
        return "", 0.0
    ids = board.places.of[Kind.GPU].ids["nvlink_domain"]
    for group in {int(g) for g in ids[verdict.explained[kind]].tolist() if g >= 0}:
        turning = board.pending(kind, "nvlink_domain", group)
        if turning:
            return f"{turning} GPUs of the domain are turning bad", SETTLE
        mates = board.places.members(Kind.GPU, "nvlink_domain", group)
        unread = _unread(moment, moment.gpus_read_at, mates, verdict.onset + SPREAD)
        if unread:
            return f"{unread} GPUs of the domain not read since", SPREAD + SETTLE
    return "", 0.0


def _unread(moment: Moment, read_at: Floats, mates: Rows, since: float) -> int:
    """How many of some rows were last read before a moment; who is not read at all is not waited for."""
    last = read_at[mates[mates < len(read_at)]]
    fresh = last > moment.now - SETTLE
    return int(np.count_nonzero(fresh & (last < since - AT_ONCE)))


def _nodes(rows: Rows, board: Board) -> set[str]:
    return {board.component("LD", row).node for row in rows.tolist()}
