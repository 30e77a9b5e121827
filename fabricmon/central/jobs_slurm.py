"""Jobs of Slurm: by a command on this machine, or by slurmrestd over TCP or a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

import aiohttp

from fabricmon.central.jobs_settings import SlurmJobs
from fabricmon.central.jobs_source import MAX_ANSWER, USER_AGENT, JobsError, Parser, body, refusal, tls
from fabricmon.jobs import slurm
from fabricmon.jobs.model import Listing
from fabricmon.senders.post import read_secret

VERSIONS = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Versions of slurmrestd's answers that are understood, the newest first; Slurm keeps the last three or so."""
MAX_WORDS = 2000  # bytes of a command's stderr that are kept
CHUNK = 1 << 20


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
        program = os.path.basename(self.command[0])
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise JobsError(f"{program} cannot be run: {error}") from error
        try:
            async with asyncio.timeout(self.deadline):
                assert process.stdout is not None
                assert process.stderr is not None
                data, words = await asyncio.gather(_all(process.stdout), _first(process.stderr))
                status = await process.wait()
        except TimeoutError as error:
            raise JobsError(f"{program} gave no answer within {self.deadline:g} s") from error
        finally:
            if process.returncode is None:  # else its number may be another's by now
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if status:
            said = " ".join(words.decode(errors="replace").split())
            raise JobsError(f"{program} failed with status {status}{f': {said}' if said else ''}")
        return data


async def _all(stream: asyncio.StreamReader) -> bytes:
    chunks, size = [], 0
    while chunk := await stream.read(CHUNK):
        size += len(chunk)
        if size > MAX_ANSWER:
            raise JobsError(f"the command prints more than {MAX_ANSWER} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _first(stream: asyncio.StreamReader) -> bytes:
    """The first words of a stream that is read to its end."""
    kept = b""
    while chunk := await stream.read(CHUNK):
        kept = (kept + chunk)[:MAX_WORDS]
    return kept


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
