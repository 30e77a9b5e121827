"""Which jobs an incident hits or puts at risk, and whether they crash, stall or slow down. Pure.

* A job is hit where a symptom of the incident stands on one of its hosts; it is at risk where it has nodes in the part
  that failed, or its traffic crosses it, and none of them shows a symptom.
* An outage that is longer than the job's communication survives (30 s by NCCL's defaults, node-inventory section 3) is
  a crash, a shorter one a stall. Errors, congestion and reduced rates make it slow.
* A job that began when the fault was there already was set up around it: NCCL leaves out ports that are not active.
* A verdict never gets better within an episode: what has crashed is not mended by the link that comes back.
* Unknown is not "no job": where no scheduler was heard of, the impact says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from fabricmon.jobs.model import KNOWN, SURVIVES, UNKNOWN, Job, Jobs, Roster
from fabricmon.model import Impact, JobImpact, JobVerdict

MOST = 32  # jobs named with one incident; all are counted
NODES = 16  # nodes named with one job; all are counted
TOLD = 3  # jobs named in the label `jobs`
WORD = 48  # characters of one job in the label


class Effect(Enum):
    """What a symptom means for the traffic of its host."""

    OUTAGE = "outage"  # nothing passes since the symptom began
    LOST = "lost"  # what is under way fails at once
    BRIEF = "brief"  # interruptions of seconds
    SLOW = "slow"  # passes, but slower or with losses
    NONE = "none"  # says nothing about traffic


EFFECTS: Mapping[str, Effect] = {
    "link_down": Effect.OUTAGE,
    "nic_fault": Effect.OUTAGE,
    "host_unreachable": Effect.OUTAGE,
    "nvlink_down": Effect.LOST,
    "link_flapping": Effect.BRIEF,
    "agent_silent": Effect.NONE,
    "telemetry_quality": Effect.NONE,
    "expected_inventory": Effect.NONE,
    "config_drift": Effect.NONE,
    "topology_mismatch": Effect.NONE,
    "repeat_offender": Effect.NONE,
    "maintenance": Effect.NONE,
}
"""By the kind of a symptom; a kind that is not here makes jobs slow."""

INSIDE = frozenset({"nvlink_down", "nvlink_degraded"})
"""Kinds that concern what a job of one node uses too: no fabric is needed to feel them."""


class Strike(NamedTuple):
    """One symptom of an incident on one host.

    kind   of the symptom: "link_down"
    since  wall time of its first sign
    whole  it concerns the whole host, not one port or GPU of it
    role   of the port, "" where it is none or unknown
    """

    host: str
    kind: str
    effect: Effect
    since: float
    whole: bool = False
    role: str = ""


class Domain(NamedTuple):
    """The part of the fabric that an incident is about, as far as jobs may have something in it.

    word     "leaf", "plane", "link"
    name     the component in words: "leaf(su0/rail2)"
    hosts    whose traffic may pass it
    crosses  whether a job on these of the hosts sends through it; None: whoever has a node there does
    """

    word: str
    name: str
    hosts: frozenset[str] = frozenset()
    crosses: Callable[[Sequence[str]], bool] | None = None


def impact_of(strikes: Iterable[Strike], domain: Domain, roster: Roster, now: float) -> Impact | None:
    """What an incident does to jobs at wall time `now`; None where it can do nothing to any or nobody is asked.

    None too where schedulers answer and nothing runs there.
    """
    if not roster.sources:
        return None
    struck: dict[str, list[Strike]] = {}
    for strike in strikes:
        if strike.effect is not Effect.NONE:
            struck.setdefault(strike.host, []).append(strike)
    if not struck and not domain.hosts:
        return None
    fresh = [source for source in roster.sources if source.fresh(now)]
    found = _hit(struck, roster, fresh, now) + _at_risk(struck, domain, roster, fresh, now)
    state = roster.state(now)
    if not found and state == KNOWN:
        return None
    return _impact(state, fresh, found)


def _impact(state: str, fresh: Sequence[Jobs], found: Sequence[JobImpact], total: int | None = None) -> Impact:
    ordered = sorted(found, key=lambda j: (-j.verdict.rank, -j.hit, j.source, j.id))
    return Impact(
        state=state,
        source=", ".join(source.source for source in fresh),
        as_of=min((source.as_of for source in fresh if source.as_of is not None), default=None),
        jobs=tuple(ordered[:MOST]),
        total=len(ordered) if total is None else total,
    )


def _hit(
    struck: Mapping[str, list[Strike]], roster: Roster, fresh: Sequence[Jobs], now: float
) -> list[JobImpact]:
    sources = {source.source: source for source in fresh}
    nodes: dict[tuple[str, str], list[str]] = {}
    jobs: dict[tuple[str, str], Job] = {}
    signs: dict[tuple[str, str], dict[tuple[str, str, bool], Strike]] = {}
    shared: set[str] = set()
    for host in sorted(struck):
        here = [(source, job) for source, job in roster.on(host) if source in sources]
        strikes = struck[host]
        for source, job in here:
            key = source, job.id
            jobs[key] = job
            nodes.setdefault(key, []).append(host)
            known = signs.setdefault(key, {})
            for strike in strikes:
                sort = strike.kind, strike.role, strike.whole
                if sort not in known or strike.since < known[sort].since:
                    known[sort] = strike
        if len(here) > 1 and not any(strike.whole for strike in strikes):
            shared.add(host)
    found = []
    for (source, id), job in jobs.items():
        hosts, told = nodes[source, id], sorted(signs[source, id].values(), key=_order)
        survives = job.survives if job.survives is not None else sources[source].survives
        verdict, reason = max((_judged(job, strike, survives, now) for strike in told), key=lambda one: one[0].rank)
        if shared.issuperset(hosts):
            reason += "; other jobs share its node, and which of them uses this part is not known"
        found.append(_told(job, source, verdict, reason, hosts, told[0].since))
    return found


def _order(strike: Strike) -> tuple[float, str, str]:
    return strike.since, strike.kind, strike.role


def _judged(job: Job, strike: Strike, survives: float, now: float) -> tuple[JobVerdict, str]:
    """What one symptom on one of its hosts does to a job, and why."""
    alone = len(job.nodes) == 1
    if alone and not strike.whole and strike.kind not in INSIDE and strike.role != "storage":
        return JobVerdict.AT_RISK, "it runs on one node, so its collectives need no fabric"
    if strike.role in ("management", "idle"):
        return JobVerdict.AT_RISK, f"the port's role is {strike.role}; collectives do not use it"
    words = strike.kind.replace("_", " ")
    if strike.effect is Effect.SLOW:
        return JobVerdict.SLOW, f"{words} on its node slows it down"
    if strike.effect is Effect.BRIEF:
        return JobVerdict.STALL, f"{words}: it waits at each interruption"
    if strike.role == "storage":
        return JobVerdict.STALL, f"{words} on a storage port: its reads and writes wait, its collectives go on"
    if job.started is not None and job.started > strike.since and not strike.whole:
        return JobVerdict.SLOW, f"it began after the {words} and was set up without it"
    if strike.effect is Effect.LOST:
        return JobVerdict.CRASH, f"{words}: transfers over it fail at once"
    if job.failover and not strike.whole:
        return JobVerdict.SLOW, f"{words}: its port failover moves the traffic to another port"
    if now - strike.since >= survives:
        of_whom = "its own settings survive" if job.survives is not None else "NCCL's default timeouts survive"
        unless = "" if strike.whole or job.failover is False else ", unless port failover is on"
        if survives == SURVIVES or job.survives is not None:
            return JobVerdict.CRASH, f"{words} for longer than the {survives:.3g} s that {of_whom}{unless}"
        return JobVerdict.CRASH, f"{words} for longer than the {survives:.3g} s that jobs here survive{unless}"
    return JobVerdict.STALL, f"{words}: it waits, and crashes if this lasts {survives:.3g} s"


def _at_risk(
    struck: Mapping[str, list[Strike]], domain: Domain, roster: Roster, fresh: Sequence[Jobs], now: float
) -> list[JobImpact]:
    """Jobs with nodes in the part that failed, none of which shows it."""
    if not domain.hosts:
        return []
    names = {source.source for source in fresh}
    nodes: dict[tuple[str, str], list[str]] = {}
    jobs: dict[tuple[str, str], Job] = {}
    hit: set[tuple[str, str]] = set()
    for host in struck:
        for source, job in roster.on(host):
            hit.add((source, job.id))
    for host in domain.hosts:
        for source, job in roster.on(host):
            key = source, job.id
            if key not in hit and source in names and len(job.nodes) > 1:
                jobs[key] = job
                nodes.setdefault(key, []).append(host)
    found = []
    for (source, id), job in jobs.items():
        if domain.crosses is not None and not domain.crosses(job.nodes):
            continue
        hosts = sorted(nodes[source, id])
        reason = f"{len(hosts)} of its {len(job.nodes)} nodes send through {domain.name}; none of them shows it yet"
        found.append(_told(job, source, JobVerdict.AT_RISK, reason, hosts, now))
    return found


def _told(job: Job, source: str, verdict: JobVerdict, reason: str, hosts: Sequence[str], since: float) -> JobImpact:
    return JobImpact(
        id=job.id,
        name=job.name,
        user=job.user,
        source=source,
        verdict=verdict,
        reason=reason,
        nodes=tuple(hosts[:NODES]),
        hit=len(hosts),
        of=len(job.nodes),
        since=since,
    )


def carried(old: Impact | None, new: Impact | None, roster: Roster, now: float) -> Impact | None:
    """The impact of an incident that goes on: what was hit stays told, with the worst verdict so far.

    A job that its scheduler lists no more is told with the time at which that was seen; one at risk only is dropped.
    """
    if old is None:
        return new
    if new is None and not roster.sources:
        return old
    before = {(job.source, job.id): job for job in old.jobs}
    merged: list[JobImpact] = []
    for job in new.jobs if new is not None else ():
        former = before.pop((job.source, job.id), None)
        merged.append(_worst(former, job) if former is not None else job)
    left = 0
    for job in before.values():
        source = roster.source(job.source)
        if source is None or not source.fresh(now) or roster.listed(job.source, job.id):
            kept = job
        else:
            kept = job if job.gone is not None else msgspec.structs.replace(job, gone=now)
        if job.verdict is not JobVerdict.AT_RISK or not (source and source.fresh(now)):
            merged.append(kept)
            left += 1
    if new is None and not merged:
        return None
    fresh = [source for source in roster.sources if source.fresh(now)]
    return _impact(roster.state(now), fresh, merged, (new.total if new is not None else 0) + left)


def _worst(old: JobImpact, new: JobImpact) -> JobImpact:
    """The newer telling of a job, with the older verdict where that was worse."""
    since = min(old.since, new.since)
    if old.verdict.rank > new.verdict.rank:
        return msgspec.structs.replace(new, verdict=old.verdict, reason=old.reason, nodes=old.nodes, hit=old.hit,
                                       since=since)  # fmt: skip
    hit, nodes = (old.hit, old.nodes) if old.verdict is new.verdict and old.hit > new.hit else (new.hit, new.nodes)
    return msgspec.structs.replace(new, since=since, hit=hit, nodes=nodes)


def worst(impact: Impact | None) -> JobVerdict | None:
    """The worst that happens to any job; None without one."""
    return max((job.verdict for job in impact.jobs), key=lambda v: v.rank, default=None) if impact is not None else None


def verdicts(impact: Impact | None) -> dict[tuple[str, str], JobVerdict]:
    """Verdict by source and id of a job: what a change of is worth telling."""
    return {(job.source, job.id): job.verdict for job in impact.jobs} if impact is not None else {}


def label(impact: Impact | None) -> str:
    """The jobs in a few words: "train-70b#4711 (crash), team/eval (slow), ... (+3)"; "unknown" where nobody knows."""
    if impact is None:
        return ""
    words = [f"{title(job)[:WORD]} ({job.verdict.value.replace('_', ' ')})" for job in impact.jobs[:TOLD]]
    more = impact.total - len(words)
    if more > 0:
        words.append(f"... (+{more})")
    if not words:
        return "unknown" if impact.state == UNKNOWN else ""
    return ", ".join(words)


def title(job: JobImpact) -> str:
    """A person's word for a job: "train-70b#4711", or its id where that holds the name."""
    return job.id if not job.name or job.name in job.id else f"{job.name}#{job.id}"


def described(old: Impact | None, new: Impact | None) -> str:
    """What became worse, as a line of the history; "" where nothing did.

    A job that was not told before counts only where it is worse off than all that were.
    """
    before = verdicts(old)
    highest = worst(old)
    rose = [
        job
        for job in (new.jobs if new is not None else ())
        if job.verdict is not JobVerdict.AT_RISK and _above(job.verdict, before.get((job.source, job.id), highest))
    ]
    if not rose:
        return ""
    first = rose[0]
    more = f", and {len(rose) - 1} more" if len(rose) > 1 else ""
    return f"{title(first)}: {first.verdict.value}, {first.reason}{more}"


def _above(verdict: JobVerdict, other: JobVerdict | None) -> bool:
    return other is None or verdict.rank > other.rank
