"""Jobs that an incident affects or puts at risk, and whether they crash, stall or slow down. Pure.

* A job is affected where one of its hosts has a symptom of the incident; it is at risk where it has nodes in the part
  that failed, or its traffic crosses it, and none of them has a symptom.
* An outage longer than the job's communication survives (30 s by NCCL's defaults, docs/methods.md#impact-on-jobs) is a
  crash, a shorter one a stall. Errors, congestion and reduced rates make it slow.
* A job that began after the fault was set up around it: NCCL leaves out ports that are not active.
* A verdict never gets better within an episode: a crashed job does not come back with the link.
* Unknown is not "no job": where no scheduler answered, the impact is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fabricmon.catalogue.kinds import KINDS, Effect
from fabricmon.jobs.model import KNOWN, SURVIVES, UNKNOWN, Job, Jobs, Roster
from fabricmon.model import Impact, JobImpact, JobVerdict

MOST = 32  # jobs named with one incident; all are counted
NODES = 16  # nodes named with one job; all are counted
NAMED = 3  # jobs named in the label `jobs`
WORD = 48  # characters of one job in the label


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


class FaultDomain(NamedTuple):
    """The part of the fabric that failed, as far as jobs may depend on it.

    word     "leaf", "plane", "link"
    name     the component: "leaf(su0/rail2)"
    hosts    whose traffic may pass it
    crosses  whether a job on these of the hosts sends through it; None: each with a node there does
    """

    word: str
    name: str
    hosts: frozenset[str] = frozenset()
    crosses: Callable[[Sequence[str]], bool] | None = None


def impact_of(
    strikes: Iterable[Strike], domain: FaultDomain, roster: Roster, now: float, kind: str = ""
) -> Impact | None:
    """The impact of an incident on jobs at wall time `now`; None where it can have none, where no source is configured,
    and where schedulers answer and nothing runs there. Of symptoms that affect a job alike, the reason names the one of
    the incident's `kind`."""
    if not roster.sources:
        return None
    struck: dict[str, list[Strike]] = {}
    for strike in strikes:
        if strike.effect is not Effect.NONE:
            struck.setdefault(strike.host, []).append(strike)
    if not struck and not domain.hosts:
        return None
    fresh = [source for source in roster.sources if source.fresh(now)]
    found = _hit(struck, roster, fresh, now, kind) + _at_risk(struck, domain, roster, fresh, now)
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
    struck: Mapping[str, list[Strike]], roster: Roster, fresh: Sequence[Jobs], now: float, kind: str
) -> list[JobImpact]:
    survives = {source.source: source.survives for source in fresh}
    running = _running(sorted(struck), roster, survives)
    crowd = Counter(host for _, hosts in running.values() for host in hosts)
    shared = {host for host in struck if crowd[host] > 1 and not any(strike.whole for strike in struck[host])}
    found = []
    for (source, _), (job, hosts) in running.items():
        first: dict[tuple[str, str, bool], Strike] = {}
        strikes = (strike for host in hosts for strike in struck[host])
        for strike in sorted(strikes, key=lambda strike: (strike.since, strike.kind, strike.role)):
            first.setdefault((strike.kind, strike.role, strike.whole), strike)
        limit = job.survives if job.survives is not None else survives[source]
        verdict, reason = max(
            (_verdict(job, strike, limit, now) for strike in sorted(first.values(), key=lambda s: s.kind != kind)),
            key=lambda v: v[0].rank,
        )
        if shared.issuperset(hosts):
            reason += "; other jobs share its node, and which of them uses this part is not known"
        found.append(_affected(job, source, verdict, reason, hosts, next(iter(first.values())).since))
    return found


def _running(
    hosts: Iterable[str], roster: Roster, sources: Container[str]
) -> dict[tuple[str, str], tuple[Job, list[str]]]:
    """Jobs on some hosts, by source and id: the job, and which of the hosts it is on."""
    found: dict[tuple[str, str], tuple[Job, list[str]]] = {}
    for host in hosts:
        for source, job in roster.on(host):
            if source in sources:
                found.setdefault((source, job.id), (job, []))[1].append(host)
    return found


def _verdict(job: Job, strike: Strike, survives: float, now: float) -> tuple[JobVerdict, str]:
    """The impact on a job of one symptom on one of its hosts, and the reason."""
    alone = len(job.nodes) == 1
    if alone and not strike.whole and not KINDS[strike.kind].inside and strike.role != "storage":
        return JobVerdict.AT_RISK, "it runs on one node, so its collectives do not use the fabric"
    if strike.role in ("management", "idle"):
        return JobVerdict.AT_RISK, f"the port's role is {strike.role}; collectives do not use it"
    words = strike.kind.replace("_", " ")
    if strike.effect is Effect.SLOW:
        return JobVerdict.SLOW, f"{words} on its node: it runs slower"
    if strike.effect is Effect.BRIEF:
        return JobVerdict.STALL, f"{words}: it stalls at each interruption"
    if strike.role == "storage":
        return JobVerdict.STALL, f"{words} on a storage port: its reads and writes stall, its collectives go on"
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
    return JobVerdict.STALL, f"{words}: it stalls, and crashes if this lasts {survives:.3g} s"


def _at_risk(
    struck: Mapping[str, list[Strike]], domain: FaultDomain, roster: Roster, fresh: Sequence[Jobs], now: float
) -> list[JobImpact]:
    """Jobs with nodes in the part that failed, none of which has a symptom."""
    if not domain.hosts:
        return []
    names = {source.source for source in fresh}
    hit = _running(struck, roster, names)
    found = []
    for key, (job, hosts) in _running(sorted(domain.hosts), roster, names).items():
        if key in hit or len(job.nodes) < 2:
            continue
        if domain.crosses is None or domain.crosses(job.nodes):
            reason = f"{len(hosts)} of its {len(job.nodes)} nodes send through {domain.name}; none has a symptom yet"
            found.append(_affected(job, key[0], JobVerdict.AT_RISK, reason, hosts, now))
    return found


def _affected(job: Job, source: str, verdict: JobVerdict, reason: str, hosts: Sequence[str], since: float) -> JobImpact:
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
    """The impact of an incident that goes on: affected jobs stay, with the worst verdict so far.

    `gone` is set for a job that its scheduler no longer lists; one that was only at risk is dropped.
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
        known = source is not None and source.fresh(now)
        if known and job.verdict is JobVerdict.AT_RISK:
            continue
        if known and job.gone is None and not roster.listed(job.source, job.id):
            job = msgspec.structs.replace(job, gone=now)
        merged.append(job)
        left += 1
    if new is None and not merged:
        return None
    fresh = [source for source in roster.sources if source.fresh(now)]
    return _impact(roster.state(now), fresh, merged, (new.total if new is not None else 0) + left)


def _worst(old: JobImpact, new: JobImpact) -> JobImpact:
    """The newer impact on a job, with the older verdict where that was worse."""
    since = min(old.since, new.since)
    if old.verdict.rank > new.verdict.rank:
        return msgspec.structs.replace(new, verdict=old.verdict, reason=old.reason, nodes=old.nodes, hit=old.hit,
                                       since=since)  # fmt: skip
    hit, nodes = (old.hit, old.nodes) if old.verdict is new.verdict and old.hit > new.hit else (new.hit, new.nodes)
    return msgspec.structs.replace(new, since=since, hit=hit, nodes=nodes)


def worst(impact: Impact | None) -> JobVerdict | None:
    """The worst verdict of any job; None without one."""
    return max((job.verdict for job in impact.jobs), key=lambda v: v.rank, default=None) if impact is not None else None


def verdicts(impact: Impact | None) -> dict[tuple[str, str], JobVerdict]:
    """Verdict by source and id of a job."""
    return {(job.source, job.id): job.verdict for job in impact.jobs} if impact is not None else {}


def label(impact: Impact | None) -> str:
    """Short text of the jobs: "train-70b#4711 (crash), team/eval (slow), ... (+3)"; "unknown" without an answer."""
    if impact is None:
        return ""
    words = [f"{job.title[:WORD]} ({job.verdict.value.replace('_', ' ')})" for job in impact.jobs[:NAMED]]
    more = impact.total - len(words)
    if more > 0:
        words.append(f"... (+{more})")
    if not words:
        return "unknown" if impact.state == UNKNOWN else ""
    return ", ".join(words)


def described(old: Impact | None, new: Impact | None) -> str:
    """The change for the worse, as a line of the history; "" for none. A new job counts only where its verdict is worse
    than that of all known ones."""
    before, highest = verdicts(old), worst(old)
    rose = [
        job
        for job in (new.jobs if new is not None else ())
        if job.verdict is not JobVerdict.AT_RISK
        and ((known := before.get((job.source, job.id), highest)) is None or job.verdict.rank > known.rank)
    ]
    more = f", and {len(rose) - 1} more" if len(rose) > 1 else ""
    return f"{rose[0].title}: {rose[0].verdict.value}, {rose[0].reason}{more}" if rose else ""
