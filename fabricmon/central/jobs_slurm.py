"""Jobs of Slurm: by a command on this machine, or by slurmrestd over TCP or a unix socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import aiohttp

from fabricmon.central.jobs_settings import SlurmJobs
from fabricmon.central.jobs_source import MAX_ANSWER, USER_AGENT, JobsError, Parser, body, refusal, tls
from fabricmon.jobs import slurm
from fabricmon.jobs.model import Listing
from fabricmon.runtime.command import CommandError, output
from fabricmon.senders.post import read_secret

VERSIONS = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Versions of slurmrestd's answers that are understood, the newest first; Slurm keeps the last three or so."""


class CommandSource:
    """`squeue --json` or `scontrol show jobs --json`, run without a shell in a process group of its own."""

    def __init__(self, command: Sequence[str], period: float, deadline: float) -> None:
        self.command, self.period, self.deadline = tuple(command), float(period), float(deadline)
        self.name = "slurm"
        self._parser = Parser("slurm jobs", self.deadline)

    async def follow(self, tell: Callable[[Listing], None]) -> None:
        data = await self._output()
        tell(await self._parser.parse(lambda: slurm.parse(data)))

    def close(self) -> None:
        self._parser.close()

    async def _output(self) -> bytes:
        try:
            return await output(self.command, self.deadline, MAX_ANSWER)
        except CommandError as error:
            raise JobsError(str(error)) from error


class RestSource:
    """slurmrestd. Which of VERSIONS it speaks is found out by asking, the newest first."""

    def __init__(self, config: SlurmJobs, period: float, deadline: float) -> None:
        self.config, self.period, self.deadline = config, float(period), float(deadline)
        self.name = "slurm"
        self._parser = Parser("slurm jobs", self.deadline)
        self._version = ""

    async def follow(self, tell: Callable[[Listing], None]) -> None:
        data = await self._ask()
        tell(await self._parser.parse(lambda: slurm.parse(data)))

    def close(self) -> None:
        self._parser.close()

    async def _ask(self) -> bytes:
        socket = self.config.url.removeprefix("unix://") if self.config.url.startswith("unix://") else ""
        base = "http://slurmrestd" if socket else self.config.url.rstrip("/")
        trust = tls(self.config.ca_file)
        connector = aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector(limit=2, ssl=trust)
        limit = aiohttp.ClientTimeout(total=self.deadline)
        try:
            async with aiohttp.ClientSession(connector=connector, headers=self._headers(), timeout=limit) as session:
                for version in (self._version,) if self._version else VERSIONS:
                    async with session.get(f"{base}/slurm/{version}/jobs", allow_redirects=False) as answer:
                        if answer.status in (404, 501):  # unknown to this slurmrestd
                            self._version = ""
                            continue
                        if answer.status != 200:
                            raise JobsError(await refusal(answer))
                        data = await body(answer)
                        self._version = version
                        return data
        except TimeoutError as error:
            raise JobsError(f"no answer within {self.deadline:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise JobsError(f"{type(error).__name__}: {error}") from error
        raise JobsError(f"speaks none of {VERSIONS[-1]} to {VERSIONS[0]}")

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if self.config.user:
            headers["X-SLURM-USER-NAME"] = self.config.user
        if self.config.token_file:
            try:
                headers["X-SLURM-USER-TOKEN"] = read_secret(self.config.token_file)
            except (OSError, ValueError) as error:
                raise JobsError(f"token file: {error}") from error
        return headers
