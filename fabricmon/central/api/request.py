"""Parsing of API requests: query, body, times and periods. Invalid input is refused."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime
from typing import TypeVar

from aiohttp import web
from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.units import Duration

MAX_BODY = 64 << 10  # bytes of a request
BODY_LIMIT = 10.0  # seconds for a request's body
LIMIT, MAX_LIMIT = 1000, 50_000  # entries of one answer: default and maximum
MAX_WORD = 256  # characters of a query value

S = TypeVar("S", bound=Struct)


class Refused(Exception):
    """A request that cannot be served: HTTP status and one sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def query(request: web.Request, *known: str) -> dict[str, str]:
    """The query; an unknown parameter is refused, not ignored."""
    for key, value in request.query.items():
        if key not in known:
            hint = f"; known here: {', '.join(known)}" if known else ""
            raise Refused(400, f"unknown parameter {key[:MAX_WORD]!r}{hint}")
        if len(value) > MAX_WORD:
            raise Refused(400, f"{key}: longer than {MAX_WORD} characters")
    return dict(request.query)


def name(request: web.Request) -> str:
    """The id in the request's path."""
    return request.match_info["id"][:MAX_WORD]


def one_of(query: dict[str, str], key: str, words: tuple[str, ...]) -> str | None:
    """One of `words`, or None without the parameter."""
    value = query.get(key)
    if value is not None and value not in words:
        raise Refused(400, f"{key}: expected one of {', '.join(words)}, got {value!r}")
    return value


def limit(query: dict[str, str]) -> int:
    """The parameter `limit`."""
    text = query.get("limit", str(LIMIT))
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise Refused(400, f"limit: expected 1 to {MAX_LIMIT}, got {text!r}")
    return int(text)


def moment(value: str | float, name: str) -> float:
    """Seconds since 1970 or RFC 3339 text as wall time."""
    seconds = math.nan
    try:
        seconds = float(value)
    except ValueError:
        try:
            given = datetime.fromisoformat(str(value))
            if given.tzinfo is not None:
                seconds = given.timestamp()
        except (ValueError, OverflowError):
            pass
    if not math.isfinite(seconds):
        raise Refused(400, f"{name}: expected seconds since 1970 or a time such as 2026-01-31T12:00:00Z, got {value!r}")
    return seconds


def period(
    starts: str | float | None, ends: str | float | None, duration: str | None, now: float
) -> tuple[float, float]:
    """Start and end as wall time; the end is `ends` or `duration`."""
    begin = now if starts is None else moment(starts, "starts")
    if (ends is None) == (duration is None):
        raise Refused(400, "either `duration` or `ends` is required")
    if duration is not None:
        try:
            return begin, begin + Duration.parse(duration)
        except ValueError as error:
            raise Refused(400, f"duration: {error}") from error
    assert ends is not None
    return begin, moment(ends, "ends")


async def body(request: web.Request, tp: type[S]) -> S:
    """The JSON body as a struct."""
    if request.content_type != "application/json":
        raise Refused(415, "expected Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_LIMIT):
            data = await request.read()
    except TimeoutError as error:
        raise Refused(408, f"body not received within {BODY_LIMIT:g} s") from error
    try:
        return json_value(data, tp)
    except Undecodable as error:
        raise Refused(400, str(error).replace("`", "'")) from error
