"""Keeps the engine told of which jobs run: one task a source, with its back-off, its last good answer and its age."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fabricmon.central.jobs_file import FileSource
from fabricmon.central.jobs_kubernetes import PodSource
from fabricmon.central.jobs_settings import JobsConfig
from fabricmon.central.jobs_slurm import CommandSource, RestSource
from fabricmon.central.jobs_source import JobsError, Source
from fabricmon.jobs.model import Jobs, Listing, ListingError
from fabricmon.runtime import logs

RETRY = 1.0  # seconds of the first pause after a failure
REFRESH = 0.1  # share of `stale_after` after which an answer without news is told too: it is younger
MAX_ERROR = 300  # characters of an error that are kept


class Engine(Protocol):
    """What is told (fabricmon.engine.engine.Engine)."""

    def jobs(self, sources: Sequence[Jobs], now: float) -> None: ...


@dataclass(slots=True)
class SourceState:
    """How a source stands: its last good answer, and how often it answered and failed."""

    said: Jobs
    answers: int = 0
    failures: int = 0


class JobFeed:
    """All sources together. Used from the event loop.

    states  by name of the source, in the order of the configuration
    """

    def __init__(self, config: JobsConfig, engine: Engine, now: Callable[[], float]) -> None:
        self.config, self._engine, self._now = config, engine, now
        self.states: dict[str, SourceState] = {}
        self._told: tuple[Jobs, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False
        self._log = logs.get(part="jobs")
        self._transitions = logs.Transitions(self._log)
        self._adopt(sources_of(config))

    def _adopt(self, sources: Sequence[Source]) -> None:
        """These are the sources from now on; what those that stay said last is kept."""
        before, self._sources = self.states, list(sources)
        self.states = {}
        for source in self._sources:
            state = before.get(source.name) or SourceState(Jobs(source.name, None))
            said = msgspec.structs.replace(
                state.said, survives=float(self.config.survives), stale_after=float(self.config.stale_after)
            )
            self.states[source.name] = SourceState(said, state.answers, state.failures)
        self._tell()

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
        """Other sources or periods."""
        if config == self.config:
            return
        self.config = config
        await self._stop()
        self._adopt(sources_of(config))
        if self._running:
            self._start()

    def jobs(self) -> tuple[Jobs, ...]:
        """What every source said last."""
        return tuple(state.said for state in self.states.values())

    def warnings(self) -> list[str]:
        """Sources that are not to be believed now, a sentence each."""
        now = self._now()
        return [
            f"Jobs of {name} are not known{f': {state.said.error}' if state.said.error else ''}"
            for name, state in self.states.items()
            if state.said.error and not state.said.fresh(now)
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

    async def _follow(self, source: Source) -> None:
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
        before = state.said
        jobs = before.jobs if found.jobs == before.jobs else found.jobs
        as_of = self._now() if found.as_of is None else min(found.as_of, self._now())
        state.said = msgspec.structs.replace(before, as_of=as_of, jobs=jobs, error="", odd=found.odd_count)
        self._transitions.tell(name, "answers", "jobs are known again", bad=False, source=name, jobs=len(jobs))
        if found.odd_count:
            what = "some jobs cannot be understood"
            self._transitions.tell(f"{name} odd", "some", what, bad=True, source=name, jobs=found.odd_count,
                                   first=found.odd[0])  # fmt: skip
        else:
            self._transitions.tell(f"{name} odd", "none", "all jobs can be understood", bad=False, source=name)
        self._tell()

    def _failed(self, name: str, error: str) -> None:
        state = self.states[name]
        state.failures += 1
        state.said = msgspec.structs.replace(state.said, error=" ".join(error.split())[:MAX_ERROR])
        said = "jobs cannot be asked for; those told before count until they are stale"
        self._transitions.tell(name, "fails", said, bad=True, source=name, error=state.said.error)
        self._tell()

    def _tell(self) -> None:
        """The engine is told what changed; that a source still says the same only now and then."""
        said = self.jobs()
        if len(said) != len(self._told) or any(map(self._differs, self._told, said)):
            self._told = said
            self._engine.jobs(said, self._now())

    def _differs(self, before: Jobs, now: Jobs) -> bool:
        if before.as_of is None or now.as_of is None or before.jobs is not now.jobs:
            return before != now
        young = now.as_of - before.as_of < REFRESH * now.stale_after
        return not young or msgspec.structs.replace(before, as_of=now.as_of, jobs=()) != msgspec.structs.replace(
            now, jobs=()
        )


def sources_of(config: JobsConfig) -> list[Source]:
    """The sources that a configuration names."""
    found: list[Source] = []
    if config.slurm.command:
        found.append(CommandSource(config.slurm.command, config.period, config.deadline))
    if config.slurm.url:
        found.append(RestSource(config.slurm, config.period, config.deadline))
    if config.kubernetes.api:
        found += [
            PodSource(config.kubernetes, namespace, config.deadline, config.stale_after)
            for namespace in config.kubernetes.namespaces or ("",)
        ]
    found += [FileSource(path, config.deadline) for path in dict.fromkeys(config.files)]
    return found
