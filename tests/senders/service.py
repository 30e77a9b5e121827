"""A service on loopback that keeps what it is sent and answers as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.rigs.served import serve

Answer = Callable[[dict[str, Any]], web.Response]


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Service:
    """`answers` are taken one at a time, then `usual` answers."""

    usual: Answer = lambda _: web.Response(text="ok")
    answers: list[Answer] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    url: str = ""

    async def __aenter__(self) -> Service:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_post("/{path:.*}", self._take)
        self._served = await serve(app)
        self.url = self._served.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._served.stop()

    async def _take(self, request: web.Request) -> web.Response:
        got = Got(request.path, dict(request.headers), json.loads(await request.read()))
        self.got.append(got)
        return (self.answers.pop(0) if self.answers else self.usual)(got.body)
