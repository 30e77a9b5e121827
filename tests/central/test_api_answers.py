"""What the API answers about a small fabric with one link down and one node that does not report."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.central.api import request as asked
from fabricmon.central.api.request import Refused
from fabricmon.model import Presence
from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage

DOWN = "host-001/mlx5_1/1"
Ask = Callable[[str], Awaitable[Any]]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    stage = Stage(tmp_path, 16, past=300)
    stage.then = {100.0: [FAULTS["link_down"](stage.layout, stage.layout.port_name(9))]}
    stage.live_through()
    stage.central.engine.presence("host-009", Presence.UNREACHABLE, "timed out", stage.central.evaluator.now())
    await stage.serve()
    async with aiohttp.ClientSession() as session:

        async def get(path: str, status: int = 200, **sent: Any) -> Any:
            async with session.request(sent.pop("method", "GET"), f"{stage.url}api/v1/{path}", **sent) as answer:
                assert answer.status == status, await answer.text()
                return await answer.json()

        get.url = stage.url  # type: ignore[attr-defined]
        yield get
    await stage.__aexit__()


async def test_the_fleet_in_numbers_nodes_and_symptoms(ask: Ask) -> None:
    overview = await ask("overview")
    assert overview["nodes"] == dict.fromkeys((p.value for p in Presence), 0) | {"live": 15, "unreachable": 1}
    assert (overview["ports"], overview["ports_silent"], overview["gpus"]) == (120, 8, 120)
    assert overview["firing"] == {"info": 0, "warning": 1, "critical": 0}
    assert abs(datetime.fromisoformat(overview["at"]).timestamp() - time.time()) < 60

    assert [n["node"] for n in (await ask("nodes"))["nodes"]] == [f"host-{n:03d}" for n in range(16)]
    few = await ask("nodes?limit=2")
    assert ([n["node"] for n in few["nodes"]], few["total"]) == (["host-000", "host-001"], 16)
    for word in ("silent", "unreachable"):
        (node,) = (await ask(f"nodes?presence={word}"))["nodes"]
        assert (node["node"], node["detail"], node["ports"], node["gpus"]) == ("host-009", "timed out", 8, 8)
    assert (await ask("nodes?presence=live"))["total"] == 15
    assert (await ask("nodes?presence=slow"))["nodes"] == []
    await ask("nodes?presence=away", 400)

    every = (await ask("symptoms"))["symptoms"]
    assert {s["component"]["node"] for s in every} > {"host-001", "host-002"}
    ranks = [(-("info", "warning", "critical").index(s["severity"]), s["since"]) for s in every]
    assert ranks == sorted(ranks)
    (down,) = (await ask("symptoms?rule=link_down"))["symptoms"]
    assert down["component"] == {"kind": "port", "node": "host-001", "name": "mlx5_1/1"}
    here = (await ask("symptoms?node=host-001"))["symptoms"]
    assert here == [s for s in every if s["component"]["node"] == "host-001"]
    assert (await ask("symptoms?rule=link_down&node=host-002"))["symptoms"] == []


async def test_ports_and_rails_have_their_share_of_the_line_rate(ask: Ask) -> None:
    busy = await ask("ports?limit=1000")
    shares = [max(p["receive_ratio"] or 0.0, p["transmit_ratio"] or 0.0) for p in busy["ports"]]
    assert busy["total"] == len(shares) == 128
    assert shares == sorted(shares, reverse=True)
    own = (await ask("ports?node=host-001"))["ports"]
    assert [p["port"] for p in own] == [f"mlx5_{n}/1" for n in range(8)]
    assert own[0] | {"receive_ratio": 0, "transmit_ratio": 0, "waiting_ratio": 0} == {
        "node": "host-001", "port": "mlx5_0/1", "netdev": "", "link_layer": "InfiniBand", "role": "compute",
        "rate": 5e10, "receive_ratio": 0, "transmit_ratio": 0, "counted": "port",
        "link": "host-001/mlx5_0/1, su0-rail0-leaf/2", "leaf": "su0/rail0", "rail": "su0/0", "tier": None,
        "waiting_ratio": 0, "waiting_estimated": True, "pausing_ratio": None,
    }  # fmt: skip
    assert (own[1]["rate"], own[1]["receive_ratio"], own[1]["transmit_ratio"]) == (None, None, None)
    ordered = (await ask("ports?node=host-001&sort=busy"))["ports"]
    assert {p["port"] for p in ordered} == {p["port"] for p in own}
    assert ordered[0] == max(own, key=lambda p: max(p["receive_ratio"] or 0, p["transmit_ratio"] or 0))
    rails = {rail["name"]: rail for rail in (await ask("rails"))["rails"]}
    assert (rails["su0/1"]["known"], rails["su0/1"]["ports"]) == (7, 8)
    for name, rail in rails.items():
        known = [p for p in busy["ports"] if p["rail"] == name and p["receive_ratio"] is not None]
        assert len(known) == rail["known"]
        assert rail["receive_ratio"] == pytest.approx(sum(p["receive_ratio"] for p in known) / len(known))
        assert rail["transmit_ratio"] == pytest.approx(sum(p["transmit_ratio"] for p in known) / len(known))


async def test_incidents_are_selected_by_every_field(ask: Ask) -> None:
    (incident,) = (await ask("incidents"))["incidents"]
    assert incident["component"] == f"link({DOWN}, su0-rail1-leaf/2)"
    assert incident["runbook"] == "/runbooks/link_down"
    assert (incident["silenced_by"], incident["acknowledged"]) == ([], None)
    since = datetime.fromisoformat(incident["since"]).timestamp()
    updated = datetime.fromisoformat(incident["updated"]).timestamp()
    same = ("status=firing", "severity=info", "severity=warning", "kind=link_down", "node=host-001", f"since={since}",
            f"id={incident['id'][:3]}", f"since={updated - 1}", f"id={incident['id']}&status=firing")  # fmt: skip
    for query in same:
        assert [i["id"] for i in (await ask(f"incidents?{query}"))["incidents"]] == [incident["id"]], query
    others = ("status=resolved", "severity=critical", "kind=link_errors", "node=host-002", "id=zz",
              f"since={updated + 1}", "severity=critical&kind=link_down")  # fmt: skip
    for query in others:
        assert (await ask(f"incidents?{query}"))["incidents"] == [], query
    await ask("incidents?status=open", 400)
    one = await ask(f"incidents/{incident['id']}")
    assert one["history"][0]["change"] == "opened"
    await ask("incidents/none", 404)


async def test_a_silence_and_a_window_are_pending_active_and_ended(ask: Ask) -> None:
    (incident,) = (await ask("incidents"))["incidents"]
    body = {"matchers": ["kind=link_down"], "duration": "2h", "author": "mara", "comment": "ordered"}
    made = await ask("silences", 201, method="POST", json=body)
    assert (made["state"], made["matchers"], made["author"]) == ("active", ["kind=link_down"], "mara")
    length = datetime.fromisoformat(made["ends"]) - datetime.fromisoformat(made["starts"])
    assert length.total_seconds() == pytest.approx(7200)
    assert (await ask(f"incidents/{incident['id']}"))["silenced_by"] == [made["id"]]
    later = {"hosts": ["host-00*"], "starts": time.time() + 3600, "ends": time.time() + 7200}
    window = await ask("maintenance", 201, method="POST", json=later)
    assert (window["state"], window["hosts"]) == ("pending", ["host-00*"])
    assert [w["id"] for w in (await ask("maintenance"))["maintenance"]] == [window["id"]]
    ended = await ask(f"silences/{made['id']}", method="DELETE", json={})
    assert ended["state"] == "ended"
    assert (await ask(f"incidents/{incident['id']}"))["silenced_by"] == []
    assert (await ask("silences"))["silences"] == []
    assert [s["id"] for s in (await ask("silences?all=true"))["silences"]] == [made["id"]]
    await ask("silences/none", 404, method="DELETE", json={})


async def test_a_window_over_a_name_that_nothing_has_is_refused_and_a_preview_saves_nothing(ask: Ask) -> None:
    (incident,) = (await ask("incidents"))["incidents"]
    for matcher, why in (
        ("node=host-0001", "'host-0001' is no known node; did you mean 'host-001'?"),
        ("node=~rack-.*", "'rack-.*' matches no node"),
        ("kind=link_dwon", "'link_dwon' is no known kind; did you mean 'link_down'?"),
        ("component=leaf(su0/rail9)", "'leaf(su0/rail9)' is no known component"),
        ("id=5f1d", "'5f1d' is no known id"),
    ):
        body = {"matchers": ["severity=warning", matcher], "duration": "1h"}
        assert why in (await ask("silences", 400, method="POST", json=body))["error"]
    for covered in ({"hosts": ["host-0001"]}, {"components": ["leaf(su0/rail9)"]}, {"hosts": ["host-001", "x*"]}):
        assert "no known" in (await ask("maintenance", 400, method="POST", json=covered | {"duration": "1h"}))["error"]
    for matchers in (["node=host-001"], ["component=leaf(su0/rail1)"], [f"id={incident['id']}"], ["rack=r7"]):
        body = {"matchers": matchers, "duration": "1h", "preview": True}
        seen = await ask("silences", 200, method="POST", json=body)
        here = matchers[0] in ("node=host-001", f"id={incident['id']}")
        assert (seen["covers"], seen["incidents"]) == ((1, [incident["id"]]) if here else (0, []))
    body = {"components": ["leaf(su0/*)"], "hosts": ["host-0*"], "duration": "1h"}
    assert (await ask("maintenance", 200, method="POST", json=body | {"preview": True}))["id"] == ""
    assert (await ask("silences"))["silences"] == (await ask("maintenance"))["maintenance"] == []
    planned = {"matchers": ["node=host-099"], "duration": "1h", "anyway": True}
    assert (await ask("silences", 201, method="POST", json=planned))["covers"] == 0


async def test_the_last_hours_of_a_port_begin_with_its_errors_and_are_at_least_ten_minutes_wide(ask: Ask) -> None:
    sent = await ask("history?kind=port&node=host-001&name=mlx5_1/1")
    assert sent["to"] - sent["from"] == pytest.approx(600, abs=1)
    names = [series["name"] for series in sent["series"]]
    assert names[:3] == ["receive_ratio", "transmit_ratio", "errors"]
    errors, close = sent["series"][2], sent["series"][3:]
    assert (errors["period"], errors["unit"], errors["top"]) == (300, "", None)
    assert sent["series"][0]["top"] == 1.0
    assert sum(value for _, value in errors["points"]) > 0
    assert close, "the link that is down is followed closely"
    order = [Category.ERROR, Category.CONGESTION, Category.RETRANSMISSION, Category.TRAFFIC, Category.STATE]
    places = [order.index(CATALOGUE[series["name"]].category) for series in close]
    assert places == sorted(places)
    for series in close:
        assert series["period"] == 10
        assert all(series["from"] <= at <= sent["to"] for at, _ in series["points"])
    assert {series["name"]: series["unit"] for series in close}["ack_timeout"] == "/s"
    assert "symbol_errors" in sent["quiet"]
    other = await ask("history?kind=port&node=host-005&name=mlx5_1/1")
    assert [series["name"] for series in other["series"]][:2] == ["receive_ratio", "transmit_ratio"]
    assert all(series["period"] == 300 for series in other["series"])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1000", 1000.0), (1000.5, 1000.5), ("1970-01-01T01:00:00+01:00", 0.0), ("1970-01-01T00:00:10Z", 10.0)],
)
def test_a_moment(value: str | float, seconds: float) -> None:
    assert asked.moment(value, "starts") == seconds
    for wrong in ("soon", "1970-01-01T00:00:10", "nan", "inf", ""):
        with pytest.raises(Refused, match="starts: expected seconds since 1970"):
            asked.moment(wrong, "starts")


def test_a_period_has_one_end() -> None:
    assert asked.period(None, None, "90s", 50.0) == (50.0, 140.0)
    assert asked.period(10.0, "20", None, 50.0) == (10.0, 20.0)
    for ends, duration in ((None, None), (20.0, "5s"), (None, "five")):
        with pytest.raises(Refused, match="duration"):
            asked.period(None, ends, duration, 50.0)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("50000", 50_000), ("0", 0), ("50001", 0), ("-1", 0), ("x", 0)])
def test_a_limit(text: str, number: int) -> None:
    if number:
        assert asked.limit({"limit": text}) == number
    else:
        with pytest.raises(Refused, match="1 to 50000") as refused:
            asked.limit({"limit": text})
        assert refused.value.status == 400
    assert asked.limit({}) == 1000


async def test_a_page_has_the_symptoms_and_incidents_of_its_own_parts(ask: Ask) -> None:
    async with aiohttp.ClientSession() as session:

        async def page(path: str) -> str:
            async with session.get(ask.url + path) as answer:  # type: ignore[attr-defined]
                return await answer.text()

        own = await page("component?kind=port&node=host-001&name=mlx5_1/1")
        assert "Link down: host-001/mlx5_1/1" in own
        assert "link down for 10 s" in own
        other = await page("component?kind=port&node=host-005&name=mlx5_6/1")
        assert "Link down" not in other
        assert "link down for" not in other
        here, elsewhere = await page("node?name=host-001"), await page("node?name=host-012")
        assert "link down for 10 s" in here
        assert "Link down: host-001/mlx5_1/1" in here
        assert "Link down" not in elsewhere
        assert "link down for" not in elsewhere
