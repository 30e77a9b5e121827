"""What other services answer: the order of SRV records, times of alerts, and whose certificates count."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import dns.rdata
import dns.resolver
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fabricmon.central.prometheus import answers
from fabricmon.central.prometheus.api import RuleApiError, VectorSample, query
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.targets import names
from fabricmon.rules import RULES
from tests.rigs.certificates import Authority


def test_services_come_by_priority_then_weight() -> None:
    """Priority, weight, port and host of each record are those that the server gave (RFC 2782)."""
    records = [(20, 1, 9001, "d.example"), (10, 7, 9002, "c.example"), (10, 5, 9003, "b.example")]
    texts = [f"{priority} {weight} {port} {host}." for priority, weight, port, host in records]
    found = [dns.rdata.from_text("IN", "SRV", text) for text in texts]
    using = cast(dns.resolver.Resolver, SimpleNamespace(resolve=lambda *_, **__: found))
    assert [(s.priority, s.weight, s.port, s.host) for s in names.services("_f._tcp", using)] == sorted(records)


def test_each_alert_has_the_start_of_its_own_condition() -> None:
    def labels(device: str, **more: str) -> dict[str, str]:
        own = {"rule": "link_errors", "severity": "warning", "instance": "n1:9790"}
        return {**own, "device": device, "port": "1", **more}

    def sample(value: str, metric: dict[str, str]) -> VectorSample:
        return VectorSample(metric=metric, value=(0.0, value))

    firing = [sample("1", labels(device, alertstate="firing", __name__="ALERTS")) for device in "abc"]
    active = [sample(str(100.0 + n), labels(d, __name__="ALERTS_FOR_STATE")) for n, d in enumerate("abcd")]
    rules = {rule.name: rule for rule in RULES}
    found, unknown = answers.alerts(firing, active, rules, "instance")
    assert [(one.component.name, one.since) for one in found] == [("a/1", 100.0), ("b/1", 101.0), ("c/1", 102.0)]
    assert unknown == 0


@pytest.mark.parametrize("trusts", [True, False])
async def test_a_rule_evaluator_may_have_a_certificate_of_the_sites_own_authority(tmp_path: Path, trusts: bool) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    app = web.Application()
    app.router.add_post("/api/v1/query", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    async with aiohttp.ClientSession() as session:
        more: dict[str, Any] = {"ca_file": str(authority.ca)} if trusts else {}
        config = PrometheusConfig(url=f"https://127.0.0.1:{server.port}/", **more)
        if trusts:
            assert (await query(session, config, "up")).samples == []
        else:
            with pytest.raises(RuleApiError, match="certificate"):
                await query(session, config, "up")
    await server.close()
