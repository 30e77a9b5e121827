"""One HTTP POST and the result of its answer, for the senders that use HTTP."""

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
from fabricmon.runtime.trust import trusting
from fabricmon.senders.attempt import Attempt

USER_AGENT = f"fabricmon/{__version__}"
MAX_ANSWER = 2048  # bytes of an answer that are read, for the reason
MAX_SECRET = 64 << 10  # bytes of a secret file
# Statuses besides 5xx that are retried: request timeout, too early, too many requests.
LATER = frozenset({408, 425, 429})


class HttpAnswer(NamedTuple):
    """The answer of a server: status, start of the body, Retry-After."""

    status: int
    text: str
    retry_after: str

    def result(self) -> Attempt:
        """The result by the status alone."""
        return classify(self.status, self.text, self.retry_after, time.time())


async def post(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: dict[str, str],
    within: float,
    token_file: str = "",
    ca_file: str = "",
    most: int = MAX_ANSWER,
) -> HttpAnswer | Attempt:
    """POST a JSON body within `within` seconds: the answer with at most `most` bytes, or an Attempt without an answer.

    Redirects are not followed: they would turn the POST into a GET.
    """
    sent = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
    try:
        if token_file:
            sent["Authorization"] = f"Bearer {read_secret(token_file)}"
        tls = tls_by(ca_file) if ca_file else True
    except (OSError, ValueError) as error:
        # Retry: the secret may be in rotation.
        return Attempt.retry(f"secret or CA file: {error}")
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
            return HttpAnswer(answer.status, text, answer.headers.get("Retry-After", ""))
    except TimeoutError:
        return Attempt.retry(f"no answer within {within:g} s")
    except aiohttp.InvalidURL as error:
        return Attempt.never(f"invalid URL: {error}")
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
        return Attempt.retry(f"{type(error).__name__}: {error}")


def attempt_of(answer: HttpAnswer | Attempt) -> Attempt:
    """The result by the status alone. 2xx: DONE; network errors, timeouts, 3xx, 408, 425, 429 and 5xx: RETRY; others:
    NEVER."""
    return answer if isinstance(answer, Attempt) else answer.result()


async def _beginning(answer: aiohttp.ClientResponse, most: int) -> str:
    """The first `most` bytes of a body."""
    data = b""
    while len(data) < most and (piece := await answer.content.read(most - len(data))):
        data += piece
    return data.decode(errors="replace").strip()


def classify(status: int, text: str, retry_after: str, now: float) -> Attempt:
    """The result of an answer; `now`: wall time, for a Retry-After that is a date."""
    body = " ".join(text.split())[:200]
    reason = f"HTTP {status}" + (f": {body}" if body and status >= 300 else "")
    if 200 <= status < 300:
        return Attempt.done(reason, answered=True)
    if status in LATER or status >= 500 or status < 400:
        return Attempt.retry(reason, _seconds(retry_after, now), answered=True)
    return Attempt.never(reason, answered=True)


def read_secret(path: str) -> str:
    """The text of a secret file without the final newline; read at each use, for rotation."""
    with Path(path).open("rb") as file:
        data = file.read(MAX_SECRET + 1)
    text = data.decode().rstrip("\r\n")
    if not text or len(data) > MAX_SECRET:
        raise ValueError(f"{path}: must hold 1 to {MAX_SECRET} bytes")
    return text


def _seconds(text: str, now: float) -> float | None:
    """Retry-After (a number or an HTTP date) as seconds from now; None for anything else."""
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
    """A TLS context that trusts the CA certificates of a file, reloaded when it changes.

    OSError or ValueError for an invalid file.
    """
    about = Path(ca_file).stat()
    return _tls(ca_file, about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=16)
def _tls(ca_file: str, modified: int, inode: int) -> ssl.SSLContext:
    return trusting(ca_file)


def without(result: Attempt, *secrets: str) -> Attempt:
    """The result with all secrets removed from its reason."""
    reason = result.reason
    for secret in filter(None, secrets):
        reason = reason.replace(secret, "***")
    return result._replace(reason=reason)
