"""The routes of the page: caching by ETag, refusal of invalid queries, and events for changes."""

import asyncio
import gzip
import json
import re
import threading

import aiohttp
import pytest

from fabricmon.central.documents.past import as_csv
from fabricmon.central.website import routes, sending
from fabricmon.model import ComponentId, Kind
from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage


@pytest.fixture
async def stage(tmp_path):
    async with Stage(tmp_path, 16) as stage, aiohttp.ClientSession(auto_decompress=False) as session:
        stage.session = session
        yield stage


async def get(stage, path, **headers):
    async with stage.session.get(stage.url + path, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_what_a_browser_has_is_not_sent_again(stage):
    for path in ("page/plan", "page/health", "static/main.js", "node?name=host-003&part=1"):
        status, headers, body = await get(stage, path)
        assert (status, bool(body)) == (200, True), path
        again, _, nothing = await get(stage, path, **{"If-None-Match": headers["ETag"]})
        assert (again, nothing) == (304, b"") or path.startswith("node"), path


async def test_answers_are_compressed_for_who_asks_for_it(stage):
    _, plain, body = await get(stage, "page/plan", **{"Accept-Encoding": "identity"})
    _, packed, small = await get(stage, "page/plan", **{"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(small) == body
    assert plain["ETag"] == packed["ETag"]


async def test_every_asset_that_the_page_names_is_served(stage):
    _, _, html = await get(stage, "", **{"Accept-Encoding": "identity"})
    assert b"static/main.js" in html
    for name, kind in sending.ASSETS.items():
        status, headers, body = await get(stage, f"static/{name}", **{"Accept-Encoding": "identity"})
        assert (status, headers["Content-Type"].split(";")[0]) == (200, kind)
        if kind == "text/javascript":
            for line in body.decode().splitlines():
                if line.startswith("import"):
                    assert line.split('"./')[1].rstrip('";') in sending.ASSETS, line
            own = b"" if name.startswith("vendor/") else body  # comments of others have addresses
            assert b"http://" not in own.replace(b"http://www.w3.org/", b"")
            assert b"https://" not in own


ADDRESSES = (
    ("incident?id=nothing", 404, "No such incident"), ("node?name=none", 404, "No such node"),
    ("node", 404, "No such"),
    ("component?kind=port&node=host-003&name=mlx5_3/1", 200, "mlx5_3/1"),
    ("component?kind=nonsense&node=host-003&name=x", 404, "No such component"),
    ("component?kind=port&node=%3Cscript%3E&name=x", 404, "No such component"),
    ("node?name=host-003", 200, "Overview"), ("?q=%3Cscript%3E&severity=nonsense&more=1", 200, "&lt;script&gt;"),
    ("api/v1/history?kind=port&node=host-003&name=nothing", 404, "no port"),
    ("api/v1/history?kind=nonsense", 400, "are required"),
    ("api/v1/history?kind=port&node=host-003&name=mlx5_3/1&format=xml", 400, "expected one of json, csv"),
    ("api/v1/history?kind=port&node=host-003&name=mlx5_3/1&format=csv", 200, "time,series,unit,value"),
)  # fmt: skip


async def test_one_thing_by_its_address(stage):
    for path, status, words in ADDRESSES:
        found, headers, body = await get(stage, path, **{"Accept-Encoding": "identity"})
        assert (found, words in body.decode()) == (status, True), (path, body[:300])
        assert "default-src 'none'" in headers["Content-Security-Policy"]


async def test_links_below_a_page_lead_to_pages_and_those_of_the_api_to_answers(stage):
    _, _, html = await get(stage, "", **{"Accept-Encoding": "identity"})
    foot = re.findall(r'href="([^"]+)"', html.decode().partition("<footer")[2])
    assert "operations" in foot
    for link in foot:
        status, headers, _ = await get(stage, link.removeprefix("."))
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/html"), link
    _, _, html = await get(stage, "operations", **{"Accept-Encoding": "identity"})
    answers = re.findall(r'href="(api/[^"]+)"', html.decode())
    assert len(answers) > 10
    for link in answers:
        assert (await get(stage, link))[0] == 200, link


async def test_the_last_hours_of_a_port_have_units_and_a_start(tmp_path):
    stage = Stage(tmp_path, 16, past=400)
    stage.live_through()
    sent = stage.central.history.series_document(ComponentId(Kind.PORT, "host-003", "mlx5_3/1"))
    stage.central.store.close()
    series = {s["name"]: s for s in sent["series"]}
    assert {"receive_ratio", "transmit_ratio", "errors"} <= series.keys()
    assert series["receive_ratio"]["unit"] == "ratio"
    assert all(sent["from"] <= at <= sent["to"] for s in sent["series"] for at, _ in s["points"])
    assert all(0 < value < 1 for _, value in series["receive_ratio"]["points"])


def test_an_incident_and_the_limits_of_the_module_are_part_of_the_readings(tmp_path):
    stage = Stage(tmp_path, 16, past=400)
    stage.then = {200.0: [FAULTS["link_down"](stage.layout, stage.layout.port_name(27))]}
    stage.live_through()
    node, _, name = stage.layout.port_name(27).partition("/")
    sent = stage.central.history.series_document(ComponentId(Kind.PORT, node, name))
    other = stage.central.history.series_document(ComponentId(Kind.PORT, node, "mlx5_0/1"))
    (incident,) = [i for i in stage.central.engine.incidents() if i.kind == "link_down"]
    stage.central.store.close()
    assert sent["marks"] == [
        {"id": incident.id, "title": incident.title, "severity": "warning", "from": incident.since, "to": None}
    ]
    assert other["marks"] == []
    (power,) = [one for one in sent["series"] if one["name"] == "module_rx_power_lane0"]
    assert (power["unit"], power["limits"]) == ("dBm", [{"text": "low alarm", "value": -10.0}])
    lines = as_csv(sent).splitlines()
    assert lines[0] == "time,series,unit,value"
    assert len(lines) == 1 + sum(len(one["points"]) for one in sent["series"])


def test_the_limit_of_a_rule_that_fired_is_a_line_on_the_chart_of_its_series(tmp_path):
    stage = Stage(tmp_path, 16, past=400)
    stage.then = {300.0: [FAULTS["link_errors"](stage.layout, stage.layout.port_name(27))]}
    stage.live_through()
    node, _, name = stage.layout.port_name(27).partition("/")
    port = ComponentId(Kind.PORT, node, name)
    sent = stage.central.history.series_document(port)
    other = stage.central.history.series_document(ComponentId(Kind.PORT, node, "mlx5_0/1"))
    [symptom] = [s for s in stage.central.engine.symptoms() if s.component == port and s.rule == "link_errors"]
    stage.central.store.close()
    [limit] = {e.limit for e in symptom.evidence if e.measure == "link_errors.ber"}
    limits = {one["name"]: one["limits"] for one in sent["series"]}
    assert limits["symbol_errors"] == [{"text": "limit of link_errors", "value": pytest.approx(limit * 400e9)}]
    assert limits["receive_ratio"] == []
    assert not any(one["limits"] for one in other["series"] if one["name"].startswith("symbol"))


async def event(answer):
    """The next event of the stream."""
    while not (line := await answer.content.readline()).startswith(b"data:"):
        assert line, "the stream ended"
    return json.loads(line[5:])


async def test_a_change_is_an_event(stage):
    async with stage.session.get(stage.url + "page/events") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        first = await event(answer)
        stage.strike([FAULTS["link_down"](stage.layout, stage.layout.port_name(9))])
        while (sent := await event(answer))["map"] == first["map"]:
            pass
        assert sent["at"] > first["at"]
        _, headers, body = await get(stage, "page/health", **{"Accept-Encoding": "identity"})
        assert "1" in json.loads(body)["ports"] or "6" in json.loads(body)["ports"]
        assert headers["ETag"]


async def test_an_acknowledgement_through_the_api_is_an_event(stage):
    stage.strike([FAULTS["link_down"](stage.layout, stage.layout.port_name(9))])
    while not (firing := [i for i in stage.central.engine.incidents() if i.status == "firing"]):
        await asyncio.sleep(0.1)
    taking = f"{stage.url}api/v1/incidents/{firing[0].id}/acknowledgement"
    async with stage.session.get(stage.url + "page/events") as answer:
        before = await event(answer)
        async with stage.session.post(taking, json={"author": "mara", "comment": "cable is ordered"}) as taken:
            assert taken.status == 201
        while (sent := await event(answer))["live"] == before["live"]:
            pass
        for path in ("page/live", f"incident?id={firing[0].id}&part=1"):
            _, _, body = await get(stage, path, **{"Accept-Encoding": "identity"})
            assert b"acknowledged by mara" in body, path
        assert b": cable is ordered</p>" in body
        async with stage.session.delete(taking, json={}) as gone:
            assert gone.status == 200
        while (await event(answer))["live"] == sent["live"]:
            pass
        assert b"mara" not in (await get(stage, "page/live", **{"Accept-Encoding": "identity"}))[2]


async def test_only_so_many_watch(stage, monkeypatch):
    monkeypatch.setattr(routes, "MAX_WATCHERS", 2)
    answers = [await stage.session.get(stage.url + "page/events") for _ in range(3)]
    assert sorted(answer.status for answer in answers) == [200, 200, 503]
    for answer in answers:
        answer.close()
    for _ in range(100):
        again = await stage.session.get(stage.url + "page/events")
        again.close()
        if again.status == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("those who left are still counted")


async def test_while_the_disk_hangs_an_open_incident_is_shown_and_a_past_one_is_refused(stage, monkeypatch):
    stage.strike([FAULTS["link_down"](stage.layout, "host-003/mlx5_1/1")])
    evaluator = stage.central.evaluator
    async with asyncio.timeout(60):
        while not (found := [i for i in evaluator.current().incidents if i.status == "firing"]):
            await asyncio.sleep(0.1)
    monkeypatch.setattr("fabricmon.central.store.reads.READ_LIMIT", 0.2)
    disk = threading.Event()
    hanging = stage.central.store._submit(disk.wait)
    try:
        status, _, body = await get(stage, f"incident?id={found[0].id}", **{"Accept-Encoding": "identity"})
        assert (status, found[0].id.encode() in body) == (200, True)
        status, _, body = await get(stage, "incident?id=past", **{"Accept-Encoding": "identity"})
        assert status == 503
        assert b"cannot be read" in body
    finally:
        disk.set()
        hanging.result(10)
    assert (await get(stage, "incident?id=past"))[0] == 404
