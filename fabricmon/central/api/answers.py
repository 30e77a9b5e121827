"""Answers of the API: JSON, and errors as {"error": "..."} with an HTTP status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from fabricmon.central.api.request import MAX_WORD, Refused
from fabricmon.central.store.database import StoreError

PREFIX = "/api/v1"

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(body: Any, status: int = 200) -> web.Response:
    """JSON without caching; unknown values are null."""
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def listed(name: str, found: Sequence[T], limit: int, document: Callable[[T], Any]) -> web.Response:
    """The first `limit` items, and the total."""
    return answer({name: [document(item) for item in found[:limit]], "total": len(found)})


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors below PREFIX as JSON; elsewhere, 503 where the store fails."""
    if not request.path.startswith(PREFIX):
        try:
            return await handler(request)
        except StoreError as error:
            return web.Response(status=503, text=f"{error}\n")
    try:
        return await handler(request)
    except Refused as error:
        status, text = error.status, str(error)
    except StoreError as error:
        status, text = 503, str(error)
    except web.HTTPException as error:
        status, text = error.status, f"{error.reason}: {request.method} {request.path[:MAX_WORD]}"
    except ValueError as error:
        status, text = 400, str(error)
    return answer({"error": text}, status)
