"""What a request to the centre's API asks for: its query, its body, times and periods. What is none is refused."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from fabricmon.units import Duration

MAX_BODY = 64 << 10  # bytes of a request
BODY_LIMIT = 10.0  # seconds for a request's body
LIMIT, MAX_LIMIT = 1000, 50_000  # entries of one answer: unless asked otherwise, and at most
MAX_WORD = 256  # characters of a query value

S = TypeVar("S", bound=Struct)


class Refused(Exception):
    """A request that cannot be served: HTTP status and one sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def query(request: web.Request, *known: str) -> dict[str, str]:
    """The query's values; a word we do not know is refused, for it would be taken as an answer to it."""
    for key, value in request.query.items():
        if key not in known:
            hint = f"; known here: {', '.join(known)}" if known else ""
            raise Refused(400, f"unknown parameter {key[:MAX_WORD]!r}{hint}")
        if len(value) > MAX_WORD:
            raise Refused(400, f"{key}: longer than {MAX_WORD} characters")
    return dict(request.query)


def one_of(query: dict[str, str], key: str, words: tuple[str, ...]) -> str | None:
    """One of `words`, or None where nothing was said."""
    value = query.get(key)
    if value is not None and value not in words:
        raise Refused(400, f"{key}: expected one of {', '.join(words)}, got {value!r}")
    return value


def limit(query: dict[str, str]) -> int:
    """How many entries are asked for."""
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
            told = datetime.fromisoformat(str(value))
            if told.tzinfo is not None:
                seconds = told.timestamp()
        except (ValueError, OverflowError):
            pass
    if not math.isfinite(seconds):
        raise Refused(400, f"{name}: expected seconds since 1970 or a time such as 2026-01-31T12:00:00Z, got {value!r}")
    return seconds


def period(
    starts: str | float | None, ends: str | float | None, duration: str | None, now: float
) -> tuple[float, float]:
    """Begin and end as wall time; either `ends` or `duration` says the end."""
    begin = now if starts is None else moment(starts, "starts")
    if (ends is None) == (duration is None):
        raise Refused(400, "either `duration` or `ends` is needed")
    if duration is not None:
        try:
            return begin, begin + Duration.parse(duration)
        except ValueError as error:
            raise Refused(400, f"duration: {error}") from error
    assert ends is not None
    return begin, moment(ends, "ends")


async def body(request: web.Request, tp: type[S]) -> S:
    """The request's body as a struct: JSON, and in time."""
    if request.content_type != "application/json":
        raise Refused(415, "expected Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_LIMIT):
            data = await request.read()
    except TimeoutError as error:
        raise Refused(408, f"the body did not come within {BODY_LIMIT:g} s") from error
    try:
        return msgspec.json.decode(data, type=tp)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refused(400, str(error).replace("`", "'")) from error
