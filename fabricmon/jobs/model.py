"""Running jobs and their nodes, as schedulers list them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from fabricmon.model import job_title

SURVIVES = 30.0
"""Seconds of outage after which NCCL closes a connection by its defaults: 7 retries of 4.096 us x 2^20 each
(NCCL_IB_RETRY_CNT, NCCL_IB_TIMEOUT; docs/methods.md#impact-on-jobs). A shorter one only stalls the job."""

STALE_AFTER = 300.0
"""Seconds without an answer after which the last answer of a source is unknown (design choice)."""

KNOWN, PARTLY, UNKNOWN = "known", "partly", "unknown"
"""Whether every source, some or none of them has answered within STALE_AFTER."""

MAX_TEXT = 128  # characters of a job's id, name, user or queue that are kept
MAX_JOBS = 100_000  # of one source


class Job(Struct, frozen=True):
    """One running job.

    id        unique within its source: "4711", "4711_3" of an array, "team/train-70b" of Kubernetes
    user      who runs it; of Kubernetes the namespace
    nodes     host names without domain, in lower case, each once
    started   wall time at which it got its nodes; None: unknown
    survives  seconds of outage that its communication survives, where the job has settings of its own
    failover  whether its communication moves to another port when one dies (NCCL_IB_RESILIENCY_PORT_FAILOVER); None:
              unknown
    """

    id: str
    name: str
    user: str
    nodes: tuple[str, ...]
    queue: str = ""
    started: float | None = None
    survives: float | None = None
    failover: bool | None = None

    @property
    def title(self) -> str:
        """"train-70b#4711", or the id where that holds the name."""
        return job_title(self.id, self.name)


class Jobs(Struct, frozen=True):
    """The last good answer of one source.

    as_of        wall time of that answer; None: there was none yet
    jobs         the same tuple object as before where nothing changed
    error        the source's present error, "" none
    odd          number of its jobs that could not be parsed
    survives     for jobs without settings of their own
    stale_after  seconds after `as_of` from which it counts as unknown
    """

    source: str
    as_of: float | None
    jobs: tuple[Job, ...] = ()
    error: str = ""
    odd: int = 0
    survives: float = SURVIVES
    stale_after: float = STALE_AFTER

    def fresh(self, now: float) -> bool:
        """The last answer is not too old at wall time `now`."""
        return self.as_of is not None and now - self.as_of <= self.stale_after


class Listing(Struct, frozen=True):
    """The jobs of one answer of a scheduler, and the errors of those that could not be parsed (at most 8 kept).

    as_of  wall time at which it was written, where the answer has it
    """

    jobs: tuple[Job, ...]
    odd: tuple[str, ...] = ()
    odd_count: int = 0
    as_of: float | None = None


class ListingError(ValueError):
    """An answer that is no list of jobs."""


MAX_ODD = 8


def listing(found: Iterable[Job | str | None], as_of: float | None = None) -> Listing:
    """The listing of jobs, error texts, and None for entries that are not relevant."""
    jobs: list[Job] = []
    odd: list[str] = []
    count = 0
    for one in found:
        if isinstance(one, str):
            count += 1
            if len(odd) < MAX_ODD:
                odd.append(one)
        elif one is not None:
            if len(jobs) >= MAX_JOBS:
                raise ListingError(f"holds more than {MAX_JOBS} jobs")
            jobs.append(one)
    return Listing(tuple(jobs), tuple(odd), count, as_of)


def host_name(node: str) -> str:
    """A node's name without domain, in lower case: the same for schedulers and agents."""
    return node.partition(".")[0].lower()


def as_text(value: object) -> str:
    """A word or number of a scheduler as text, at most MAX_TEXT characters; "" for anything else.

    What is no Unicode becomes `?`: it could be neither stored nor sent, and the job's incident with it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value[:MAX_TEXT].encode(errors="replace").decode() if isinstance(value, str) else ""


class Roster:
    """All sources' jobs by host, at one moment.

    budgets  seconds of outage that some job survives
    """

    def __init__(self, sources: Sequence[Jobs] = ()) -> None:
        self.sources = tuple(sources)
        self._by_host: dict[str, list[tuple[str, Job]]] = {}
        for source in self.sources:
            for job in source.jobs:
                for node in job.nodes:
                    self._by_host.setdefault(node, []).append((source.source, job))
        self._listed = {(s.source, job.id) for s in self.sources for job in s.jobs}
        self._hosts: dict[str, str] = {}
        self.budgets = frozenset(
            [s.survives for s in self.sources]
            + [job.survives for s in self.sources for job in s.jobs if job.survives is not None]
        )

    def with_answers(self, sources: Sequence[Jobs]) -> Roster:
        """The roster of newer answers; the index is rebuilt only where the jobs changed."""
        same = len(sources) == len(self.sources) and all(
            a.source == b.source and a.jobs is b.jobs and a.survives == b.survives
            for a, b in zip(sources, self.sources, strict=True)
        )
        if not same:
            return Roster(sources)
        self.sources = tuple(sources)
        return self

    def on(self, host: str) -> Sequence[tuple[str, Job]]:
        """Source and job of each that runs on a host, fresh or not."""
        name = self._hosts.get(host)
        if name is None:
            name = self._hosts[host] = host_name(host)
        return self._by_host.get(name, ())

    def listed(self, source: str, job: str) -> bool:
        return (source, job) in self._listed

    def fresh(self, now: float) -> tuple[bool, ...]:
        """For each source whether its last answer is not too old at wall time `now`."""
        return tuple(source.fresh(now) for source in self.sources)

    def state(self, now: float) -> str:
        """KNOWN, PARTLY or UNKNOWN at wall time `now`."""
        fresh = sum(self.fresh(now))
        return KNOWN if fresh == len(self.sources) else PARTLY if fresh else UNKNOWN

    def source(self, name: str) -> Jobs | None:
        return next((s for s in self.sources if s.source == name), None)


def budget(settings: Mapping[str, str]) -> float | None:
    """Seconds of outage that NCCL survives with these environment variables; None where none of them is set.

    NCCL_IB_TIMEOUT t and NCCL_IB_RETRY_CNT r: r x 4.096 us x 2^t (InfiniBand Architecture, local ACK timeout).
    """
    if "NCCL_IB_TIMEOUT" not in settings and "NCCL_IB_RETRY_CNT" not in settings:
        return None
    try:
        exponent = int(settings.get("NCCL_IB_TIMEOUT", "20"))
        retries = int(settings.get("NCCL_IB_RETRY_CNT", "7"))
    except ValueError:
        return None
    if not 1 <= exponent <= 31 or not 0 <= retries <= 7:  # 5 and 3 bits; 0 waits for ever
        return None
    return retries * 4.096e-6 * float(2**exponent)
