"""Running jobs for the engine: one task per source, with back-off, last good answer and its age."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fabricmon.central.jobs.file_source import JobFile
from fabricmon.central.jobs.kubernetes_source import PodSource
from fabricmon.central.jobs.settings import JobsConfig
from fabricmon.central.jobs.slurm_source import CommandSource, RestSource
from fabricmon.central.jobs.source import JobsError, JobSource
from fabricmon.engine.engine import Engine
from fabricmon.jobs.model import Jobs, Listing, ListingError
from fabricmon.runtime import logs

RETRY = 1.0  # seconds of the first pause after a failure
REFRESH = 0.1  # share of `stale_after` after which an unchanged answer is passed on, for its age
MAX_ERROR = 300  # characters of a stored error


@dataclass(slots=True)
class JobSourceState:
    """A source: its last good answer, and counts of answers and failures."""

    last: Jobs
    answers: int = 0
    failures: int = 0


class JobFeed:
    """All sources together. Used from the event loop.

    states  by name of the source, in the order of the configuration
    """

    def __init__(self, config: JobsConfig, engine: Engine, now: Callable[[], float]) -> None:
        self.config, self._engine, self._now = config, engine, now
        self.states: dict[str, JobSourceState] = {}
        self._passed_on: tuple[Jobs, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False
        self._log = logs.get(part="jobs")
        self._transitions = logs.Transitions(self._log)
        self._adopt(sources_of(config))

    def _adopt(self, sources: Sequence[JobSource]) -> None:
        """Use these sources from now on; those that remain keep their last answer."""
        before, self._sources = self.states, list(sources)
        self.states = {}
        for source in self._sources:
            state = before.get(source.name) or JobSourceState(Jobs(source.name, None))
            last = msgspec.structs.replace(
                state.last, survives=float(self.config.survives), stale_after=float(self.config.stale_after)
            )
            self.states[source.name] = JobSourceState(last, state.answers, state.failures)
        self._pass_on()

    async def run(self) -> None:
        """Follow all sources until cancelled."""
        self._running = True
        self._start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._running = False
            await self._stop()

    async def configure(self, config: JobsConfig) -> None:
        """Apply other settings."""
        if config == self.config:
            return
        self.config = config
        await self._stop()
        self._adopt(sources_of(config))
        if self._running:
            self._start()

    def jobs(self) -> tuple[Jobs, ...]:
        """The last answer of every source."""
        return tuple(state.last for state in self.states.values())

    def warnings(self) -> list[str]:
        """Stale sources, one sentence each."""
        now = self._now()
        return [
            f"Jobs of {name} are unknown{f': {state.last.error}' if state.last.error else ''}"
            for name, state in self.states.items()
            if state.last.error and not state.last.fresh(now)
        ]

    # ---------------------------------------------------------------- one source

    def _start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow(source), name=source.name[:15]) for source in self._sources]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for source in self._sources:
            source.close()
        self._tasks = []

    async def _follow(self, source: JobSource) -> None:
        state, pause = self.states[source.name], RETRY
        while True:
            answers = state.answers
            try:
                await source.follow(lambda found: self._answered(source.name, found))
                wait = source.period
                pause = RETRY
            except (JobsError, ListingError) as error:
                self._failed(source.name, str(error))
                pause = RETRY if state.answers > answers else min(2 * pause, float(self.config.retry_max))
                wait = pause * random.uniform(0.5, 1.0)
            except Exception as error:  # a fault in one source's code costs that source only
                self._failed(source.name, f"{type(error).__name__}: {error}")
                wait = float(self.config.retry_max)
            await asyncio.sleep(wait)

    def _answered(self, name: str, found: Listing) -> None:
        state = self.states[name]
        state.answers += 1
        before = state.last
        jobs = before.jobs if found.jobs == before.jobs else found.jobs
        as_of = self._now() if found.as_of is None else min(found.as_of, self._now())
        state.last = msgspec.structs.replace(before, as_of=as_of, jobs=jobs, error="", odd=found.odd_count)
        self._transitions.note(name, "answers", "job source works again", bad=False, source=name, jobs=len(jobs))
        if found.odd_count:
            what = "some jobs cannot be parsed"
            self._transitions.note(f"{name} odd", "some", what, bad=True, source=name, jobs=found.odd_count,
                                   first=found.odd[0])  # fmt: skip
        else:
            self._transitions.note(f"{name} odd", "none", "all jobs can be parsed", bad=False, source=name)
        self._pass_on()

    def _failed(self, name: str, error: str) -> None:
        state = self.states[name]
        state.failures += 1
        state.last = msgspec.structs.replace(state.last, error=" ".join(error.split())[:MAX_ERROR])
        text = "job source fails; its last answer is used until it is stale"
        self._transitions.note(name, "fails", text, bad=True, source=name, error=state.last.error)
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass changed jobs on to the engine; an unchanged answer only to refresh its age."""
        jobs = self.jobs()
        if len(jobs) != len(self._passed_on) or any(map(self._differs, self._passed_on, jobs)):
            self._passed_on = jobs
            self._engine.jobs(jobs, self._now())

    def _differs(self, before: Jobs, now: Jobs) -> bool:
        if before.as_of is None or now.as_of is None or before.jobs is not now.jobs:
            return before != now
        young = now.as_of - before.as_of < REFRESH * now.stale_after
        return not young or msgspec.structs.replace(before, as_of=now.as_of, jobs=()) != msgspec.structs.replace(
            now, jobs=()
        )


def sources_of(config: JobsConfig) -> list[JobSource]:
    """The configured sources."""
    found: list[JobSource] = []
    if config.slurm.command:
        found.append(CommandSource(config.slurm.command, config.period, config.deadline))
    if config.slurm.url:
        found.append(RestSource(config.slurm, config.period, config.deadline))
    if config.kubernetes.api:
        found += [
            PodSource(config.kubernetes, namespace, config.deadline, config.stale_after)
            for namespace in config.kubernetes.namespaces or ("",)
        ]
    found += [JobFile(path, config.deadline) for path in dict.fromkeys(config.files)]
    return found
