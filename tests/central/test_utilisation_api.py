"""How busy the fabric is, as the server tells it: its metrics and GET /api/v1/ports, over a real stream."""

import asyncio
import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fabricmon.model import Kind, Part
from tests.central.streams import FakeAgent, ports, until
from tests.central.test_central import live, start  # noqa: F401

COLUMNS = ("state", "rate", "xmit", "rcv")
LINE = 50e9


@pytest.fixture
async def busy():
    """An agent whose port n sends n tenths of its line; nothing is known of the last one's rate."""
    rows = ports(4).components
    made = FakeAgent("host-1", part=Part("fabric", Kind.PORT, COLUMNS, rows, 10.0), beat=0)
    made.clock = 1000.0

    def count(seconds):
        made.clock += seconds
        for n in range(4):
            rate = LINE if n < 3 else math.nan
            sent = made.clock * n / 10 * LINE
            made.values[4 * n : 4 * n + 4] = type(made.values)("d", [4.0, rate, sent, 0.0])

    snapshot = made.snapshot

    def taken():
        new = snapshot()
        new.taken = [made.clock]
        return new

    made.snapshot, made.count = taken, count
    count(0)
    yield await made.start()
    await made.stop()


async def known(server, busy):
    """The server after two readings, the rows of which have their place."""
    await live(server)
    ticks = server.central.evaluator.ticks
    before = ticks.count
    busy.count(10)
    await busy.say()
    await until(lambda: ticks.count > before + 3)
    async with asyncio.timeout(60):  # new rows are placed at their pace
        while (await server.get("/api/v1/ports"))[1]["ports"][0]["rail"] is None:
            await asyncio.sleep(0.05)


async def test_ports_are_reported_with_their_shares_the_busiest_first(start, busy):  # noqa: F811
    server = await start([busy.address], central={"pull": {"slow_after": "30s", "lost_after": "60s"}})
    await known(server, busy)
    status, body = await server.get("/api/v1/ports")
    assert (status, body["total"]) == (200, 4)
    assert [p["port"] for p in body["ports"]] == ["mlx5_2/1", "mlx5_1/1", "mlx5_0/1", "mlx5_3/1"]
    first, *_, last = body["ports"]
    assert first["transmit_ratio"] == pytest.approx(0.2)
    assert (first["receive_ratio"], first["rate"], first["counted"], first["rail"]) == (0.0, LINE, "port", "2")
    assert (last["transmit_ratio"], last["receive_ratio"], last["rate"]) == (None, None, None)
    _, body = await server.get("/api/v1/ports", params={"node": "host-1", "limit": "2"})
    assert [p["port"] for p in body["ports"]] == ["mlx5_0/1", "mlx5_1/1"]
    assert body["total"] == 4
    assert (await server.get("/api/v1/ports", params={"node": "nobody"}))[1] == {"ports": [], "total": 0}
    assert (await server.get("/api/v1/ports", params={"rail": "2"}))[0] == 400


async def test_rails_and_tiers_are_metrics_and_an_unknown_one_has_no_ratio(start, busy):  # noqa: F811
    server = await start([busy.address], central={"pull": {"slow_after": "30s", "lost_after": "60s"}})
    await known(server, busy)
    _, _, text = await server.text("/metrics")
    families = {f.name: f for f in text_string_to_metric_families(text)}
    sent = {s.labels["rail"]: s.value for s in families["fabricmon_rail_transmit_utilisation_ratio"].samples}
    assert sent == {"0": 0.0, "1": pytest.approx(0.1), "2": pytest.approx(0.2)}
    read = {s.labels["rail"]: s.value for s in families["fabricmon_rail_utilisation_known_ports"].samples}
    assert read == {"0": 1, "1": 1, "2": 1, "3": 0}
    (tier,) = families["fabricmon_tier_transmit_utilisation_ratio"].samples
    assert (tier.labels, tier.value) == ({"tier": "adapter"}, pytest.approx(0.1))


async def test_the_topology_tells_what_sources_without_ports_say_and_where_it_is_from(start, busy, tmp_path):  # noqa: F811
    plan = tmp_path / "topology.conf"
    plan.write_text("SwitchName=s1 Nodes=host-[1-2]\nSwitchName=s2 Nodes=host-[3-4]\nSwitchName=top Switches=s[1-2]\n")
    pull = {"slow_after": "30s", "lost_after": "60s"}
    server = await start([busy.address], central={"pull": pull}, topology={"file": str(plan)})
    await known(server, busy)
    status, body = await server.get("/api/v1/topology")
    assert status == 200
    assert body["attached"] == {"host-1": ["s1"], "host-2": ["s1"], "host-3": ["s2"], "host-4": ["s2"]}
    assert sorted(map(tuple, body["trunks"])) == [("s1", "top"), ("s2", "top")]
    assert [(o["kind"], o["path"], o["role"]) for o in body["origins"]] == [("slurm", str(plan), "placement")]
    assert body["shapes"][0].keys() >= {"kind", "name", "confidence", "why"}
    _, ports = await server.get("/api/v1/ports", params={"node": "host-1"})
    assert {p["leaf"] for p in ports["ports"]} == {"s1"}
