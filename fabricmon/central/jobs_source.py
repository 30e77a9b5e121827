"""What a source of jobs is, and what those that speak HTTP share."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

import aiohttp

from fabricmon import __version__
from fabricmon.jobs.model import Listing
from fabricmon.runtime.reader import Busy, Overdue, Reader

USER_AGENT = f"fabricmon/{__version__}"
MAX_ANSWER = 128 << 20  # bytes of one answer; squeue --json has about 6 KiB a job
MAX_REFUSAL = 512  # bytes of an error's body that are read, for the reason


class JobsError(Exception):
    """A source that does not answer, or not with what was asked for; the text says why."""


class Source(Protocol):
    """Somewhere jobs are known.

    name    in incidents, API and log
    period  seconds between the end of one `follow` and the next
    """

    name: str
    period: float

    async def follow(self, tell: Callable[[Listing], None]) -> None:
        """Ask once, or stay in touch; `tell` every good answer. JobsError or ListingError where there is none."""

    def close(self) -> None:
        """Nothing is asked any more."""


class Parser:
    """Makes jobs of answers in a thread of its own: a large one takes seconds, in which the fleet is to be judged."""

    def __init__(self, name: str, deadline: float) -> None:
        self._reader: Reader | None = None
        self._name, self._deadline = name, deadline

    async def parse(self, parse: Callable[[], Listing]) -> Listing:
        if self._reader is None:
            self._reader = Reader(self._name[:15])
        try:
            return await self._reader.call(parse, self._deadline)
        except (Overdue, Busy) as error:
            raise JobsError(f"takes too long: {error}") from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def tls(ca_file: str) -> ssl.SSLContext | bool:
    """Whom to trust; JobsError where the file cannot be used."""
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise JobsError(f"CA file {ca_file}: {error}") from error


async def body(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer; JobsError where it has more than MAX_ANSWER bytes."""
    chunks, size = [], 0
    async for chunk in answer.content.iter_chunked(1 << 20):
        size += len(chunk)
        if size > MAX_ANSWER:
            raise JobsError(f"answers with more than {MAX_ANSWER} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def refusal(answer: aiohttp.ClientResponse) -> str:
    """Status and the first words of an answer that is no good."""
    try:
        said = (await answer.content.read(MAX_REFUSAL)).decode(errors="replace")
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
        said = ""
    return f"HTTP {answer.status}: {' '.join(said.split()) or answer.reason or 'no words'}"
