"""A server whose time stands still: the real engine, store and API after some minutes of a simulated fabric, served on
loopback. Everything it says is the same in every run."""

from __future__ import annotations

import asyncio
import io
import tempfile
import threading
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path

import msgspec
from aiohttp import web

from fabricmon.central.api import request as api_request
from fabricmon.central.api.answers import errors
from fabricmon.central.api.routes import add_routes
from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.store.store import Store
from fabricmon.engine import Engine
from fabricmon.notify.settings import NotifyConfig
from fabricmon.rules.rule import Scope
from fabricmon.runtime import logs
from fabricmon.sim.scenarios.stage import START, ScenarioStage
from fabricmon.simulate.scenario_file import parse
from tests.rigs.served import serve

SCENARIO = """
name: east
about: A leaf dies, a cable flaps, a host falls silent.
fabric: {shape: rail-optimised, sizes: {units: 2, hosts: 8, rails: 4, spines: 2}}
duration: 4m
warmup: 1m
noise: false
timeline:
  - {fault: link_flap, where: host-011/mlx5_2/1}
  - {fault: leaf_down, where: su0/rail1, at: 190s}
  - {fault: host_crash, where: host-014, at: 160s}
expect: {only: false}
"""


POLL, STEP = 10, 2  # seconds between two reads of the nodes, and between two ticks


class FixedServer:
    """A context manager; `url` is where it is, `token` what it wants from now on ("": nothing)."""

    def __init__(self) -> None:
        self.url = ""
        self.token = ""
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FixedServer:
        self._thread.start()
        if not self._ready.wait(60):
            raise TimeoutError("the server did not come up within 60 s")
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(15)

    def _run(self) -> None:
        logs.configure(level="error", stream=io.StringIO())
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        with tempfile.TemporaryDirectory() as folder:
            store = await asyncio.to_thread(Store, Path(folder))
            try:
                await self._with(store)
            finally:
                await asyncio.to_thread(store.close)

    async def _with(self, store: Store) -> None:
        scenario = parse(SCENARIO, "east")
        stage = ScenarioStage(scenario, 1)
        engine = Engine(Scope.FLEET, stage.layout.graph, fabric=scenario.name)
        now = [START]
        state = store.load(START)
        server = Evaluator(scenario.name, engine, store, state, Outbox(store, [], NotifyConfig()), lambda: now[0])
        for at in range(0, int(stage.zero + scenario.duration), STEP):
            now[0] = START + at
            if at % POLL == 0:
                stage.poll(engine, float(at))
            await server.tick()
        app = web.Application(middlewares=[self._gate, errors], client_max_size=api_request.MAX_BODY)
        add_routes(app, server)

        async def dated(_request: web.Request, response: web.StreamResponse) -> None:
            response.headers["Date"] = formatdate(now[0], usegmt=True)

        app.on_response_prepare.append(dated)
        async with await serve(app) as served:
            self.url = served.url
            self._ready.set()
            await self._end.wait()

    @web.middleware
    async def _gate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """As a server that wants a token, where `token` is set."""
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            body = msgspec.json.encode({"error": "a bearer token is needed: Authorization: Bearer TOKEN"})
            return web.Response(body=body, status=401, content_type="application/json")
        return await handler(request)
