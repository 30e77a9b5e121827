"""Jobs from Slurm: a command on this machine, or slurmrestd over TCP or a unix socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabricmon.central.jobs.settings import SlurmJobs
from fabricmon.central.jobs.source import MAX_ANSWER, JobsError, Parser
from fabricmon.jobs import slurm
from fabricmon.jobs.model import Listing
from fabricmon.runtime.command import CommandError, output
from fabricmon.senders.slurmrestd import UNKNOWN, SlurmError, Slurmrestd

VERSIONS = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Supported API versions of slurmrestd, newest first; Slurm keeps about three."""


class CommandSource:
    """`squeue --json` or `scontrol show jobs --json`, run without a shell in a process group of its own."""

    def __init__(self, command: Sequence[str], period: float, deadline: float) -> None:
        self.command, self.period, self.deadline = tuple(command), float(period), float(deadline)
        self.name = "slurm"
        self._parser = Parser("slurm jobs", self.deadline)

    async def follow(self, deliver: Callable[[Listing], None]) -> None:
        data = await self._output()
        deliver(await self._parser.parse(lambda: slurm.parse(data)))

    def close(self) -> None:
        self._parser.close()

    async def _output(self) -> bytes:
        try:
            return await output(self.command, self.deadline, MAX_ANSWER)
        except CommandError as error:
            raise JobsError(str(error)) from error


class RestSource:
    """slurmrestd."""

    def __init__(self, config: SlurmJobs, period: float, deadline: float) -> None:
        self.config, self.period, self.deadline = config, float(period), float(deadline)
        self.name = "slurm"
        self._parser = Parser("slurm jobs", self.deadline)
        self._slurm = Slurmrestd(config, VERSIONS, deadline, MAX_ANSWER)

    async def follow(self, deliver: Callable[[Listing], None]) -> None:
        try:
            data = await self._slurm.request("GET", "jobs")
        except SlurmError as error:
            if error.status in UNKNOWN:
                self._slurm.forget_version()
            raise JobsError(str(error)) from error
        deliver(await self._parser.parse(lambda: slurm.parse(data)))

    def close(self) -> None:
        self._parser.close()
