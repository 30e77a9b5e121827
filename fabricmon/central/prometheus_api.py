"""Questions to a Prometheus-compatible API: one instant query at a time, with a deadline and a bounded answer."""

from __future__ import annotations

import asyncio
import ssl
import time

import aiohttp
import msgspec
from msgspec import Struct

from fabricmon import __version__
from fabricmon.central.prometheus_settings import PrometheusConfig
from fabricmon.senders.post import read_secret

CHUNK = 1 << 16


class ApiError(Exception):
    """The API could not be asked, or its answer not be used; the text says why."""


class Sample(Struct):
    """One series of an instant vector: its labels, its value as it came (a number in text)."""

    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")


class _Instant(Struct):
    resultType: str = ""
    result: list[Sample] = []


class _InstantAnswer(Struct):
    status: str
    data: _Instant | None = None
    error: str = ""
    warnings: list[str] = []
    isPartial: bool = False  # VictoriaMetrics


_DECODER = msgspec.json.Decoder(_InstantAnswer)


class Vector(Struct):
    """An answer. whole: False where the API says that something may be missing."""

    samples: list[Sample]
    whole: bool


def tls(config: PrometheusConfig) -> ssl.SSLContext | bool:
    """How its certificate is checked, and with which one of ours. Raises OSError or ValueError (ssl.SSLError)."""
    if not config.ca_file and not config.cert_file:
        return True
    context = ssl.create_default_context(cafile=config.ca_file or None)
    if config.cert_file:
        context.load_cert_chain(config.cert_file, config.key_file or None)
    return context


async def query(session: aiohttp.ClientSession, config: PrometheusConfig, expression: str) -> Vector:
    """The instant vector of an expression now. Raises ApiError."""
    headers = {"User-Agent": f"fabricmon/{__version__}", "Accept": "application/json", **config.headers}
    url = config.url.rstrip("/") + "/api/v1/query"
    try:
        if config.token_file:
            headers["Authorization"] = f"Bearer {read_secret(config.token_file)}"
        async with session.post(
            url,
            data={"query": expression, "time": f"{time.time():.3f}", "timeout": f"{config.timeout:.0f}s"},
            headers=headers,
            ssl=tls(config),
            timeout=aiohttp.ClientTimeout(total=float(config.timeout)),
            allow_redirects=False,
        ) as answer:
            body = await _bounded(answer, config.max_body)
            status = answer.status
    except TimeoutError:
        raise ApiError(f"no answer within {config.timeout:g} s") from None
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
        raise ApiError(f"{type(error).__name__}: {error}") from error
    return vector(status, body)


async def _bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > most:
            raise ApiError(f"the answer has more than {most} bytes (max_body)")
    return bytes(body)


def vector(status: int, body: bytes) -> Vector:
    """What an answer says. ApiError for what is no instant vector."""
    try:
        said = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = " ".join(body[:200].decode(errors="replace").split())
        raise ApiError(f"HTTP {status}, no answer of a Prometheus API ({error}): {text}") from None
    if said.status != "success" or said.data is None:
        raise ApiError(f"HTTP {status}: {said.error or said.status}")
    if said.data.resultType != "vector":
        raise ApiError(f"the answer is a {said.data.resultType or 'nothing'}, expected a vector")
    return Vector(said.data.result, not said.warnings and not said.isPartial)
