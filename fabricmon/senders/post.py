"""One HTTP POST and what its answer means for a notification. Shared by the senders that speak HTTP."""

from __future__ import annotations

import asyncio
import email.utils
import math
import ssl
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import aiohttp

from fabricmon import __version__
from fabricmon.senders.result import Outcome, Result

USER_AGENT = f"fabricmon/{__version__}"
MAX_ANSWER = 2048  # bytes of an answer that are read, for the reason
MAX_SECRET = 64 << 10  # bytes of a secret file
# Statuses besides 5xx that mean "later": request timeout, too early, too many requests.
LATER = frozenset({408, 425, 429})


class Answer(NamedTuple):
    """What a server answered: its status, the beginning of the body, and its Retry-After."""

    status: int
    text: str
    retry_after: str

    def result(self) -> Result:
        """What it means by its status alone."""
        return classify(self.status, self.text, self.retry_after, time.time())


async def post(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: dict[str, str],
    within: float,
    token_file: str = "",
    ca_file: str = "",
) -> Result:
    """POST a JSON body within `within` seconds, connecting included.

    2xx is DONE. Network errors, timeouts, 3xx, 408, 425, 429 and 5xx are RETRY; every other answer is NEVER.
    Redirects are not followed: a POST that becomes a GET elsewhere tells nobody.
    """
    answer = await ask(session, url, body, headers, within, token_file, ca_file)
    return answer if isinstance(answer, Result) else answer.result()


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: dict[str, str],
    within: float,
    token_file: str = "",
    ca_file: str = "",
    most: int = MAX_ANSWER,
) -> Answer | Result:
    """The same for senders that read what the server answered, `most` bytes of it; a Result where there was no
    answer."""
    sent = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
    try:
        if token_file:
            sent["Authorization"] = f"Bearer {read_secret(token_file)}"
        tls = tls_by(ca_file) if ca_file else True
    except (OSError, ValueError) as error:
        # A secret that is being rotated comes back; what waits for it is not lost.
        return Result(Outcome.RETRY, f"secret or CA file: {error}")
    try:
        async with session.post(
            url,
            data=body,
            headers=sent,
            ssl=tls,
            timeout=aiohttp.ClientTimeout(total=within),
            allow_redirects=False,
        ) as answer:
            text = await _beginning(answer, most)
            return Answer(answer.status, text, answer.headers.get("Retry-After", ""))
    except TimeoutError:
        return Result(Outcome.RETRY, f"no answer within {within:g} s")
    except aiohttp.InvalidURL as error:
        return Result(Outcome.NEVER, f"no valid URL: {error}")
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
        return Result(Outcome.RETRY, f"{type(error).__name__}: {error}")


async def _beginning(answer: aiohttp.ClientResponse, most: int) -> str:
    """The first `most` bytes of a body, however many pieces they come in."""
    data = b""
    while len(data) < most and (piece := await answer.content.read(most - len(data))):
        data += piece
    return data.decode(errors="replace").strip()


def classify(status: int, text: str, retry_after: str, now: float) -> Result:
    """What an answer means; `now` is wall time, for a Retry-After that is a date."""
    said = " ".join(text.split())[:200]
    reason = f"HTTP {status}" + (f": {said}" if said and status >= 300 else "")
    if 200 <= status < 300:
        return Result(Outcome.DONE, reason, answered=True)
    if status in LATER or status >= 500 or status < 400:
        return Result(Outcome.RETRY, reason, _seconds(retry_after, now), answered=True)
    return Result(Outcome.NEVER, reason, answered=True)


def read_secret(path: str) -> str:
    """A secret file's text without the newline at its end; read at each use, so that it can be rotated."""
    with Path(path).open("rb") as file:
        data = file.read(MAX_SECRET + 1)
    text = data.decode().rstrip("\r\n")
    if not text or len(data) > MAX_SECRET:
        raise ValueError(f"{path}: must hold 1 to {MAX_SECRET} bytes")
    return text


def _seconds(text: str, now: float) -> float | None:
    """Retry-After as seconds from now: a number or an HTTP date; None where it is neither."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        try:
            value = email.utils.parsedate_to_datetime(text).timestamp() - now
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, value) if math.isfinite(value) else None


def tls_by(ca_file: str) -> ssl.SSLContext:
    """TLS that trusts a file of CA certificates, as the file is now. OSError (ssl.SSLError is one) for a bad file."""
    about = Path(ca_file).stat()
    return _tls(ca_file, about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=16)
def _tls(ca_file: str, modified: int, inode: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


def without(result: Result, *secrets: str) -> Result:
    """The result with no secret in its reason, whatever a server or a library repeated there."""
    reason = result.reason
    for secret in filter(None, secrets):
        reason = reason.replace(secret, "***")
    return result._replace(reason=reason)
