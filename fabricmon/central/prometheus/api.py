"""Instant queries to a Prometheus-compatible API, with a timeout and a size limit."""

from __future__ import annotations

import asyncio
import ssl
import time

import aiohttp
from msgspec import Struct

from fabricmon import __version__
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.senders.post import read_secret
from fabricmon.web.tls import client_context

CHUNK = 1 << 16


class RuleApiError(Exception):
    """A failed query or an invalid answer; the text has the reason."""


class VectorSample(Struct):
    """One series of an instant vector: labels, and time and value (a number as text)."""

    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")


class _Instant(Struct):
    resultType: str = ""
    result: list[VectorSample] = []


class _InstantAnswer(Struct):
    status: str
    data: _Instant | None = None
    error: str = ""
    warnings: list[str] = []
    isPartial: bool = False  # VictoriaMetrics



class Vector(Struct):
    """An answer. whole: False where the API reports that it may be incomplete."""

    samples: list[VectorSample]
    whole: bool


async def query(session: aiohttp.ClientSession, config: PrometheusConfig, expression: str) -> Vector:
    """The current instant vector of an expression. Raises RuleApiError."""
    headers = {"User-Agent": f"fabricmon/{__version__}", "Accept": "application/json", **config.headers}
    url = config.url.rstrip("/") + "/api/v1/query"
    try:
        if config.token_file:
            headers["Authorization"] = f"Bearer {read_secret(config.token_file)}"
        async with session.post(
            url,
            data={"query": expression, "time": f"{time.time():.3f}", "timeout": f"{config.timeout:.0f}s"},
            headers=headers,
            ssl=_trusted(config),
            timeout=aiohttp.ClientTimeout(total=float(config.timeout)),
            allow_redirects=False,
        ) as answer:
            body = await _bounded(answer, config.max_body)
            status = answer.status
    except TimeoutError:
        raise RuleApiError(f"no answer within {config.timeout:g} s") from None
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
        raise RuleApiError(f"{type(error).__name__}: {error}") from error
    return vector(status, body)


def _trusted(config: PrometheusConfig) -> ssl.SSLContext | bool:
    """TLS of the connection; True: the system's CAs, kept by aiohttp."""
    if not config.ca_file and not config.cert_file:
        return True
    return client_context(config.ca_file, config.cert_file, config.key_file)


async def _bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > most:
            raise RuleApiError(f"the answer has more than {most} bytes (max_body)")
    return bytes(body)


def vector(status: int, body: bytes) -> Vector:
    """The vector of an answer. RuleApiError for any other answer."""
    try:
        reply = json_value(body, _InstantAnswer)
    except Undecodable as error:
        text = " ".join(body[:200].decode(errors="replace").split())
        raise RuleApiError(f"HTTP {status}, not an answer of a Prometheus API ({error}): {text}") from None
    if reply.status != "success" or reply.data is None:
        raise RuleApiError(f"HTTP {status}: {reply.error or reply.status}")
    if reply.data.resultType != "vector":
        raise RuleApiError(f"the answer is a {reply.data.resultType or 'nothing'}, expected a vector")
    return Vector(reply.data.result, not reply.warnings and not reply.isPartial)
