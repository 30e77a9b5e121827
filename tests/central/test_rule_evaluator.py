"""A server that queries a rule evaluator: what its answers make of the fleet and of the incidents, in simulated time.

The evaluator is a small HTTP server with the answers of the Prometheus API; `tests/peers` has real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fabricmon.central.prometheus.answers import AGENT, numbers, values
from fabricmon.central.prometheus.api import RuleApiError, VectorSample, query
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.prometheus.source import ACTIVE, EVALUATED_AGO, FIRING, PrometheusSource
from fabricmon.engine import Engine
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Presence
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, evaluator_rules
from fabricmon.rules.rule import Scope
from fabricmon.units import Duration

Labels = dict[str, str]
NOW = 1_800_000_000.0
PORT_INFO, UP = "fabricmon_port_info", 'up{job=~"fabricmon.*"}'


class Api:
    """Answers by expression: pairs of labels and value. `nodes` are up or not, `ports` exist, `down` fire."""

    def __init__(self) -> None:
        self.nodes = {"n1": True, "n2": True}
        self.ports = {"n1": ["mlx5_0", "mlx5_1"], "n2": ["mlx5_0"]}
        self.down: dict[tuple[str, str], float] = {}
        self.age = 5.0
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.more: dict[str, Any] = {}
        self.fails = False
        self.reply: Callable[[], Awaitable[web.StreamResponse]] | None = None

    def alert(self, node: str, device: str) -> Labels:
        return {"alertname": "FabricmonLinkDown", "rule": "link_down", "severity": "warning",
                "instance": f"{node}:9790", "device": device, "port": "1"}  # fmt: skip

    def vector(self, expression: str) -> list[tuple[Labels, float]]:
        if expression == FIRING:
            return [({**self.alert(*at), "alertstate": "firing"}, 1.0) for at in self.down]
        if expression == ACTIVE:
            return [(self.alert(*at), since) for at, since in self.down.items()]
        if expression == EVALUATED_AGO:
            return [({"rule": rule.name}, self.age) for rule in RULES]
        if expression.startswith("up"):
            return [({"instance": f"{node}:9790"}, float(up)) for node, up in self.nodes.items()]
        if expression.startswith("fabricmon_port_info"):
            return [({"instance": f"{node}:9790", "device": device, "port": "1", "link_layer": "InfiniBand"}, 1.0)
                    for node, devices in self.ports.items() for device in devices]  # fmt: skip
        return []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        expression = str((await request.post())["query"])
        self.asked.append(expression)
        if self.reply is not None:
            return await self.reply()
        if self.fails:
            return web.json_response({"status": "error", "error": "store is away"}, status=503)
        result = [{"metric": labels, "value": [0.0, f"{value:.16g}"]} for labels, value in self.vector(expression)]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}} | self.more)


class Server:
    """An engine with a source of alerts, and a clock."""

    def __init__(self, url: str, session: aiohttp.ClientSession, **config: Any) -> None:
        self.now = NOW
        alerts = EvaluatorAlerts()
        self.engine = Engine(Scope.FLEET, rules=evaluator_rules(RULES, alerts, own=False))
        settings = PrometheusConfig(url=url, **config)
        self.source = PrometheusSource(settings, self.engine, alerts, RULES, lambda: self.now)
        self._session = session

    async def poll(self, seconds: float = 10.0) -> None:
        """A query that may fail, and the ticks until the next."""
        self.now += seconds
        try:
            await self.source.poll(self._session)
        finally:
            for _ in range(8):
                self.engine.tick(self.now)
                self.now += 0.25

    def firing(self) -> list[tuple[str, str]]:
        return [(i.kind, i.component) for i in self.engine.incidents() if i.status == "firing"]

    def presence(self, node: str) -> Presence:
        return self.engine.fleet.nodes[node].presence


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, str, aiohttp.ClientSession]]:
    made, app = Api(), web.Application()
    app.router.add_post("/prefix/api/v1/query", made.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield made, str(server.make_url("/prefix/")), session


@pytest.fixture
def server(api: tuple[Api, str, aiohttp.ClientSession]) -> tuple[Api, Server]:
    made, url, session = api
    return made, Server(url, session)


async def test_nodes_and_their_ports_are_what_up_and_the_info_metrics_name(server: tuple[Api, Server]) -> None:
    api, central = server
    api.nodes["n2"] = False
    await central.poll()
    table = central.engine.fleet.tables[Kind.PORT]
    assert {str(port) for port in table.ids} == {"n1/mlx5_0/1", "n1/mlx5_1/1", "n2/mlx5_0/1"}
    assert table.labels[table.row(ComponentId(Kind.PORT, "n1", "mlx5_0/1"))]["link_layer"] == "InfiniBand"
    assert (central.presence("n1"), central.presence("n2")) == (Presence.LIVE, Presence.UNREACHABLE)
    assert central.engine.fleet.last_frame("n1") == pytest.approx(NOW + 10)
    assert np.isnan(central.engine.fleet.last_frame("n2"))
    api.nodes["n2"] = True
    await central.poll()
    assert central.presence("n2") is Presence.LIVE
    assert central.firing() == []


async def test_an_alert_is_an_incident_from_its_onset_until_the_port_is_seen_without_it(
    server: tuple[Api, Server],
) -> None:
    api, central = server
    await central.poll()
    api.down["n1", "mlx5_1"] = NOW - 30.0
    await central.poll()
    (incident,) = central.engine.incidents()
    assert (incident.kind, incident.component, incident.since) == ("link_down", "link(n1/mlx5_1/1)", NOW - 30.0)
    assert any("alert of the rule evaluator" in evidence.text for evidence in incident.evidence)
    api.down.clear()
    for _ in range(30):
        await central.poll()
    assert central.firing() == []
    assert not central.source.alerts.waiting


async def test_components_are_listed_again_when_an_alert_stops_or_a_node_is_new_and_else_seldom(
    server: tuple[Api, Server],
) -> None:
    api, central = server
    lists = lambda: api.asked.count(PORT_INFO)  # noqa: E731
    await central.poll()
    assert (lists(), api.asked.count(UP)) == (1, 1)
    for _ in range(5):
        await central.poll()
    assert (lists(), api.asked.count(UP)) == (1, 6)
    api.nodes["n3"], api.ports["n3"] = True, ["mlx5_0"]
    await central.poll()
    assert lists() == 2
    api.down["n3", "mlx5_0"] = NOW
    await central.poll()
    assert lists() == 2
    api.down.clear()
    await central.poll()  # stopped: the next list that shows the port ends it
    await central.poll()
    assert lists() >= 3
    assert not central.source.alerts.waiting
    before = lists()
    await central.poll(400.0)
    assert lists() == before + 1


@pytest.mark.parametrize("silence", ["old evaluation", "node is down", "answer is a part"])
async def test_what_the_evaluator_cannot_know_ends_no_alert(server: tuple[Api, Server], silence: str) -> None:
    api, central = server
    api.down["n1", "mlx5_1"] = NOW
    await central.poll()
    api.down.clear()
    if silence == "old evaluation":
        api.age = 121.0
    elif silence == "node is down":
        api.nodes["n1"] = False
    else:
        api.more = {"warnings": ["a store is away"]}
        central.source.configure(PrometheusConfig(url=central.source.config.url, inventory=Duration(86400)))
    for _ in range(20):
        await central.poll()
    assert ("link_down", "link(n1/mlx5_1/1)") in central.firing()


async def test_a_failed_query_changes_nothing_and_is_named(server: tuple[Api, Server]) -> None:
    api, central = server
    api.down["n1", "mlx5_1"] = NOW
    await central.poll()
    api.fails = True
    with pytest.raises(RuleApiError, match="HTTP 503: store is away"):
        await central.poll()
    assert central.firing() == [("link_down", "link(n1/mlx5_1/1)")]
    assert central.source.warnings() == []  # the loop that queries notes it, see below


async def test_the_loop_notes_failures_retries_and_recovers(server: tuple[Api, Server]) -> None:
    api, central = server
    url = central.source.config.url
    central.source.configure(PrometheusConfig(url=url, interval=Duration(1), retry_max=Duration(1)))
    api.fails = True
    task = asyncio.create_task(central.source.run())
    try:
        async with asyncio.timeout(60):
            while len(api.asked) < 2:
                await asyncio.sleep(0.02)
            (warning,) = central.source.warnings()
            assert "store is away" in warning
            assert "n1" not in central.engine.fleet.nodes
            api.fails = False
            while "n1" not in central.engine.fleet.nodes or central.source.error:
                await asyncio.sleep(0.02)
        assert central.source.warnings() == []
        assert central.source.queried == NOW
    finally:
        task.cancel()


async def test_alerts_that_name_nothing_known_are_counted_in_a_warning(server: tuple[Api, Server]) -> None:
    api, central = server
    api.down["n1", ""] = NOW
    await central.poll()
    assert central.source.warnings() == ["1 alerts of the rule evaluator have an unknown rule or component"]


async def test_a_node_that_the_answers_lack_for_a_day_is_forgotten(server: tuple[Api, Server]) -> None:
    api, central = server
    api.down["n2", "mlx5_0"] = NOW
    await central.poll()
    del api.nodes["n2"], api.ports["n2"]
    api.down.clear()
    await central.poll(86_000.0)
    assert "n2" in central.engine.fleet.nodes
    await central.poll(1000.0)
    assert set(central.engine.fleet.nodes) == {"n1"}
    assert not list(central.source.alerts.components())
    assert central.engine.fleet.tables[Kind.PORT].row(ComponentId(Kind.PORT, "n2", "mlx5_0/1")) is None


async def test_a_node_with_a_stream_is_left_to_it(server: tuple[Api, Server]) -> None:
    api, central = server
    part = Part("infiniband", Kind.PORT, ("state",), (Component("mlx5_9/1"),), 10.0)
    inventory = Inventory(7, Identity("n2", "boot", "1.0", "x", 1.0), (part,))
    central.engine.inventory("n2", inventory, NOW)
    api.nodes["n2"] = False
    await central.poll()
    assert central.engine.fleet.nodes["n2"].inventory.identity.agent == "1.0"
    assert central.presence("n2") is not Presence.UNREACHABLE
    assert central.engine.fleet.nodes["n1"].inventory.identity.agent == AGENT


@pytest.mark.parametrize(("selector", "asked"), [("", UP), ('job="x"', 'up{job="x"}')])
async def test_the_selector_is_that_of_the_export(
    api: tuple[Api, str, aiohttp.ClientSession], selector: str, asked: str
) -> None:
    made, url, session = api
    await Server(url, session, selector=selector).poll()
    assert made.asked[0] == asked


async def test_a_query_carries_token_and_headers_and_follows_no_redirect(
    api: tuple[Api, str, aiohttp.ClientSession], tmp_path: Any
) -> None:
    made, url, session = api
    (tmp_path / "token").write_text("secret\n")
    config = PrometheusConfig(url=url, token_file=str(tmp_path / "token"), headers={"X-Scope-OrgID": "fabric"})
    await query(session, config, "up")
    assert made.headers[-1]["Authorization"] == "Bearer secret"
    assert made.headers[-1]["X-Scope-OrgID"] == "fabric"

    async def elsewhere() -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/prefix/api/v1/query"})

    made.reply = elsewhere
    before = len(made.asked)
    with pytest.raises(RuleApiError, match="HTTP 307"):
        await query(session, config, "up")
    assert len(made.asked) == before + 1


async def test_an_answer_is_bounded_in_size_and_time(api: tuple[Api, str, aiohttp.ClientSession]) -> None:
    made, url, session = api
    config = PrometheusConfig(url=url, max_body=65_536, timeout=Duration(0.2))

    async def large() -> web.StreamResponse:
        return web.Response(body=b" " * 65_537)

    async def late() -> web.StreamResponse:
        await asyncio.sleep(20.0)
        return web.Response()

    made.reply = large
    with pytest.raises(RuleApiError, match="more than 65536 bytes"):
        await query(session, config, "up")
    made.reply = late
    with pytest.raises(RuleApiError, match=r"no answer within 0\.2 s"):
        await query(session, config, "up")
    with pytest.raises(RuleApiError, match="Connect"):
        await query(session, PrometheusConfig(url="http://127.0.0.1:9"), "up")


def test_of_several_series_of_a_label_the_greatest_counts() -> None:
    samples = [("a", "1"), ("a", "3"), ("a", "2"), ("b", "NaN"), ("b", "-1"), ("", "9"), ("c", "x")]
    found = values([VectorSample({"rule": rule}, (0.0, text)) for rule, text in samples], "rule")
    assert found["a"] == 3.0
    assert found["b"] == -1.0 or np.isnan(found["b"])
    assert set(found) == {"a", "b", "c"}
    assert numbers([4, 1]).tolist() == [False, True, False, False, True]
    assert numbers([]).tolist() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "prometheus:9090"}, {"interval": Duration(0.5)}, {"interval": Duration(60), "inventory": Duration(59)},
        {"timeout": Duration(0)}, {"timeout": Duration(301)}, {"stale": Duration(0)}, {"forget": Duration(0)},
        {"retry_max": Duration(9)}, {"key_file": "/key.pem"}, {"headers": {"X\n": "y"}},
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    PrometheusConfig(url="http://x", interval=Duration(10), inventory=Duration(10), retry_max=Duration(10))
    PrometheusConfig(url="http://x", timeout=Duration(300), cert_file="c.pem", key_file="k.pem")
    with pytest.raises(ValueError, match=r"must|need|expected|invalid|header|URL"):
        PrometheusConfig(**({"url": "http://x"} | wrong))
