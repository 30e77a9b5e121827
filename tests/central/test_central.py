"""The whole server in this process: agents over sockets, the real engine, store, outbox, API and page."""

import asyncio
import contextlib
import json
import subprocess

import aiohttp
import pytest
import yaml
from aiohttp import web
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fabricmon import cli, config, frame
from fabricmon.catalogue.kinds import KINDS
from fabricmon.central.app import Central
from fabricmon.central.evaluation.pace import TickPace
from fabricmon.central.store.database import StoreError
from tests.central.streams import LINK_UP, FakeAgent, until
from tests.rigs.served import serve

QUICK = {"connect_timeout": "1s", "retry_min": "20ms", "retry_max": "100ms", "slow_after": "500ms", "lost_after": "2s"}


class Hook:
    """A webhook receiver; `told` are incidents in the order they came."""

    def __init__(self):
        self.told = []

    async def start(self):
        app = web.Application()
        app.router.add_post("/", self.post)
        self.served = await serve(app)
        self.url = f"{self.served.url}/"
        return self

    async def stop(self):
        await self.served.stop()

    async def post(self, request):
        self.told += json.loads(await request.read())["incidents"]
        return web.Response(status=204)

    def kinds(self, status="firing"):
        return [(i["kind"], i["component"]) for i in self.told if i["status"] == status]


class Running:
    """A server that runs, and a client for it."""

    def __init__(self, central):
        self.central = central
        self.task = asyncio.create_task(central.run())
        self.session = aiohttp.ClientSession()

    async def start(self):
        waiting = asyncio.create_task(self.central.listening.wait())
        await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            self.task.result()
        self.url = f"http://127.0.0.1:{self.central.addresses[0].port}"
        return self

    async def get(self, path, **more):
        async with self.session.get(self.url + path, **more) as answer:
            return answer.status, await answer.json()

    async def ask(self, method, path, body=None, **more):
        async with self.session.request(method, self.url + path, json=body, **more) as answer:
            return answer.status, await answer.json()

    async def text(self, path, **more):
        async with self.session.get(self.url + path, **more) as answer:
            return answer.status, answer.headers, await answer.text()

    async def stop(self):
        await self.session.close()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def start(tmp_path):
    """Starts servers over one state directory; `settings` are sections of a configuration."""
    running = []
    path = tmp_path / "fabricmon.yaml"

    async def make(targets=(), **settings):
        central = {"listen": ["127.0.0.1:0"], "state": str(tmp_path / "state"), "targets": list(targets),
                   "pull": QUICK, "tick": "50ms", **settings.pop("central", {})}  # fmt: skip
        path.write_text(yaml.safe_dump({"central": central, **settings}))
        made = Running(Central(config.load(str(path)), lambda: config.load(str(path))))
        made.path = path
        running.append(made)
        return await made.start()

    yield make
    for one in running:
        if not one.task.done():
            await one.stop()
        assert not one.central.engine.failures()


@pytest.fixture
async def agent():
    made = await FakeAgent("host-007").start()
    yield made
    await made.stop()


@pytest.fixture
async def hook():
    made = await Hook().start()
    yield made
    await made.stop()


async def live(server, nodes=1):
    await until(lambda: len(server.central.engine.nodes()) == nodes)
    await until(lambda: all(n.presence == "live" for n in server.central.engine.nodes()))
    ticks = server.central.evaluator.ticks
    count = ticks.count
    await until(lambda: ticks.count > count + 3)  # what was before is known: only then a change is one


async def firing(server, kind):
    """The one open incident of that kind, when it is there."""
    async with asyncio.timeout(60):
        while True:
            _, body = await server.get("/api/v1/incidents", params={"status": "firing", "kind": kind})
            if body["incidents"]:
                (incident,) = body["incidents"]
                return incident
            await asyncio.sleep(0.02)


async def flap(agent, row=3, times=3):
    for _ in range(times):
        await agent.down(row, 0.2)
        await asyncio.sleep(0.2)


async def test_an_event_and_a_changed_state_are_evaluated_without_waiting_for_the_period(start, agent, monkeypatch):
    agent.beat = 0.5
    server = await start([agent.address])
    await live(server)
    ticks, due = server.central.evaluator.ticks, TickPace.due
    monkeypatch.setattr(TickPace, "due", lambda self, _period: due(self, 1e9))
    await asyncio.sleep(0.2)  # the last tick of the usual period

    async def turn(value):
        now = agent.snapshot()
        before, now.values[1] = now.values[:], value
        await agent.send(frame.encode_delta(now, before, [0.0]))

    for reason in (lambda: agent.tell("mlx5_0 lost its link", 1), lambda: turn(2.0), lambda: turn(LINK_UP)):
        count = ticks.count
        await reason()
        await until(lambda count=count: ticks.count > count)


async def test_three_downs_become_one_incident_at_the_webhook(start, agent, hook):
    server = await start([agent.address], senders={"ops": {"kind": "webhook", "url": hook.url}})
    await live(server)
    await flap(agent)
    incident = await firing(server, "link_flapping")
    assert incident["component"] == "link(host-007/mlx5_3/1)"
    assert incident["members"] == {"bad": 1, "of": 1}
    assert incident["severity"] == "warning"
    await until(lambda: hook.told)
    await asyncio.sleep(0.5)
    assert hook.kinds() == [("link_flapping", "link(host-007/mlx5_3/1)")]
    assert hook.told[0]["id"] == incident["id"]

    status, one = await server.get(f"/api/v1/incidents/{incident['id']}")
    assert (status, one["history"][0]["change"]) == (200, "opened")
    _, _, html = await server.text("/")
    assert "link(host-007/mlx5_3/1)" in html
    assert incident["title"] in html
    _, health = await server.get("/health")
    assert health["status"] == "warn"


async def test_a_restart_neither_forgets_nor_repeats(start, agent, hook):
    senders = {"ops": {"kind": "webhook", "url": hook.url}}
    first = await start([agent.address], senders=senders)
    await live(first)
    await flap(agent)
    await until(lambda: hook.told)
    before = await firing(first, "link_flapping")
    await first.stop()
    second = await start([agent.address], senders=senders)
    after = await firing(second, "link_flapping")
    assert (after["id"], after["since"]) == (before["id"], before["since"])
    await live(second)
    await asyncio.sleep(1.0)
    assert len(hook.told) == 1


async def test_two_servers_on_one_state_directory_are_refused(start):
    await start()
    with pytest.raises(StoreError, match="state"):
        await start()


async def test_a_silenced_incident_is_not_reported_until_the_silence_ends(start, agent, hook):
    server = await start([agent.address], senders={"ops": {"kind": "webhook", "url": hook.url}})
    await live(server)
    status, made = await server.ask(
        "POST",
        "/api/v1/silences",
        {"matchers": ["kind=link_flapping"], "duration": "1h", "author": "m", "comment": "c"},
    )
    assert (status, made["state"], made["matchers"]) == (201, "active", ["kind=link_flapping"])
    await flap(agent)
    incident = await firing(server, "link_flapping")
    assert incident["silenced_by"] == [made["id"]]
    await asyncio.sleep(0.5)
    assert hook.told == []
    assert (await server.get("/api/v1/silences"))[1]["total"] == 1
    status, ended = await server.ask("DELETE", f"/api/v1/silences/{made['id']}")
    assert (status, ended["state"]) == (200, "ended")
    await until(lambda: hook.told)
    assert (await server.get("/api/v1/silences"))[1]["total"] == 0
    assert (await server.get("/api/v1/silences?all=true"))[1]["total"] == 1


async def test_announced_work_makes_no_warning(start, agent, hook):
    server = await start([agent.address], senders={"ops": {"kind": "webhook", "url": hook.url}})
    await live(server)
    status, made = await server.ask("POST", "/api/v1/maintenance", {"hosts": ["host-0*"], "duration": "20m"})
    assert (status, made["hosts"]) == (201, ["host-0*"])
    await flap(agent)
    await asyncio.sleep(0.5)
    _, body = await server.get("/api/v1/incidents", params={"severity": "warning"})
    assert body["incidents"] == []
    assert hook.told == []
    _, nodes = await server.get("/api/v1/nodes")
    assert nodes["nodes"][0]["maintenance"] == made["id"]
    assert (await server.ask("DELETE", f"/api/v1/maintenance/{made['id']}"))[0] == 200


async def test_a_dead_agent_is_shown_as_such_also_after_a_restart_of_the_server(start, agent):
    server = await start([agent.address], central={"targets": [agent.address]})
    await live(server)
    await until(lambda: "host-007" in server.central.seen_nodes.nodes, 20)
    await agent.stop()
    await until(lambda: server.central.engine.nodes()[0].presence == "refused")
    assert "agent down" in (await server.text("/"))[2]
    await server.stop()
    again = await start([agent.address])
    await until(lambda: [(n.node, n.presence) for n in again.central.engine.nodes()] == [("host-007", "refused")])


async def test_labels_of_targets_say_where_nodes_stand(start, agent, tmp_path):
    path = tmp_path / "targets.json"
    path.write_text(json.dumps([{"targets": [agent.address], "labels": {"power": "pdu-7", "rack": "r1", "x": "y"}}]))
    server = await start(central={"target_files": [str(path)]}, topology={"power": {"host-100": "pdu-9"}})
    await live(server)
    await until(lambda: server.central.engine.topology() is not None)
    await until(lambda: "host-007" in server.central.engine.topology().hosts)
    _, body = await server.get("/api/v1/topology")
    assert body["hosts"] == {"host-007": {"power": "pdu-7", "rack": "r1"}, "host-100": {"power": "pdu-9"}}
    path.unlink()
    await until(lambda: server.central.warnings())
    assert "No such file" in server.central.warnings()[0]
    await server.stop()
    again = await start(central={"target_files": [str(path)]})
    await live(again)
    assert "host-007" in again.central.engine.topology().hosts


# --- the API's edges


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/v1/incidents?status=open", 400, "status: expected one of firing, resolved"),
        ("/api/v1/incidents?since=yesterday", 400, "since: expected seconds since 1970"),
        ("/api/v1/incidents?since=nan", 400, "since:"),
        ("/api/v1/incidents?limit=0", 400, "limit: expected 1 to"),
        ("/api/v1/incidents?stat=x", 400, "unknown parameter 'stat'; known here: status"),
        ("/api/v1/incidents/none", 404, "no incident 'none'"),
        ("/api/v1/topology", 404, "no topology was loaded"),
        ("/api/v1/nothing", 404, "Not Found"),
        ("/api/v1/nodes?presence=gone", 400, "presence: expected one of live"),
    ],
)  # fmt: skip
async def test_a_question_that_cannot_be_answered(start, path, status, said):
    server = await start()
    got, body = await server.get(path)
    assert (got, list(body)) == (status, ["error"])
    assert said in body["error"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"matchers": [], "duration": "1h"}, "matchers: at least one"),
        ({"matchers": ["kind"], "duration": "1h"}, "'kind': expected NAME=VALUE"),
        ({"matchers": ["kind=x"]}, "either `duration` or `ends`"),
        ({"matchers": ["kind=x"], "duration": "1"}, "duration: expected a duration"),
        ({"matchers": ["kind=x"], "ends": "2001-01-01T00:00:00Z"}, "ends:"),
        ({"matchers": ["kind=x"], "ends": "2001-01-01T00:00:00"}, "ends: expected seconds since 1970"),
        ({"matchers": ["kind=x"], "duration": "2d", "for": "x"}, "unknown field 'for'"),
        ({"matchers": "kind=x", "duration": "1h"}, "matchers"),
        ([], "object"),
    ],
)
async def test_a_silence_that_is_none(start, body, said):
    server = await start()
    status, answer = await server.ask("POST", "/api/v1/silences", body)
    assert status == 400
    assert said in answer["error"]
    assert (await server.get("/api/v1/silences"))[1]["total"] == 0


async def test_changes_need_json_a_bounded_body_and_the_token(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    server = await start(central={"token_file": str(token)})
    good = {"matchers": ["kind=link_down"], "duration": "1h"}
    bearer = {"Authorization": "Bearer s3cret"}
    assert (await server.ask("POST", "/api/v1/silences", good))[0] == 401
    assert (await server.ask("POST", "/api/v1/silences", good, headers={"Authorization": "Bearer x"}))[0] == 401
    assert (await server.ask("DELETE", "/api/v1/silences/x"))[0] == 401
    assert (await server.ask("POST", "/api/v1/silences", good, headers=bearer))[0] == 201
    async with server.session.post(server.url + "/api/v1/silences", data="{}", headers=bearer) as answer:
        assert answer.status == 415
    async with server.session.post(
        server.url + "/api/v1/silences", data=b"[" + b" " * 100_000,
        headers={**bearer, "Content-Type": "application/json"},
    ) as answer:  # fmt: skip
        assert answer.status == 413
        assert "error" in await answer.json()
    assert (await server.get("/api/v1/nodes"))[0] == 200


async def test_browsers_get_what_the_page_may_do(start):
    server = await start()
    for path in ("/", "/page/live", "/static/page.css", "/static/main.js", "/static/icon.svg", "/metrics", "/nothing"):
        _, headers, _ = await server.text(path)
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert headers["X-Content-Type-Options"] == "nosniff"
    status, headers, _ = await server.text("/static/page.css")
    assert (status, headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert (await server.text("/static/page.css", headers={"If-None-Match": headers["ETag"]}))[0] == 304


# --- metrics


async def test_metrics_are_valid_in_both_formats(start, agent, require):
    server = await start([agent.address], senders={"ops": {"kind": "webhook", "url": "http://127.0.0.1:1/"}})
    await live(server)
    server.central.evaluator.replan()  # what is shown may be a second old
    _, headers, text = await server.text("/metrics", headers={"Accept": "text/plain"})
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert {s.labels["presence"]: s.value for s in families["fabricmon_central_nodes"].samples}["live"] == 1
    kinds = {s.labels["kind"] for s in families["fabricmon_incidents"].samples}
    assert kinds == set(KINDS)
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    _, headers, text = await server.text("/metrics", headers=wanted)
    assert {f.name for f in openmetrics.text_string_to_metric_families(text)} >= {"fabricmon_central_frames"}
    promtool = require("promtool", "checks the server's /metrics")
    _, _, text = await server.text("/metrics", headers={"Accept": "text/plain"})
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# --- reading the configuration again


async def test_a_reload_changes_targets_rules_and_receivers(start, agent, hook):
    server = await start()
    tree = yaml.safe_load(server.path.read_text())
    tree["central"]["targets"] = [agent.address]
    tree["senders"] = {"ops": {"kind": "webhook", "url": hook.url}}
    tree["rules"] = {"link_down": {"hold": "0s"}}
    server.path.write_text(yaml.safe_dump(tree))
    await server.central.reload()
    await live(server)
    await flap(agent)
    await until(lambda: hook.told)
    tree["central"]["targets"] = []
    server.path.write_text(yaml.safe_dump(tree))
    await server.central.reload()
    await until(lambda: server.central.engine.nodes() == [])


@pytest.mark.parametrize(
    "bad",
    ["central: {targets: ['a b']}", "rules: {link_flapping: {raise_at: 1.0}}", "topology: {file: /nonexistent}", "x: y",
     "senders: {a: {kind: webhook}}"],
)  # fmt: skip
async def test_a_bad_file_keeps_the_old_one_and_raises_a_metric(start, agent, bad):
    server = await start([agent.address])
    await live(server)
    good = server.path.read_text()
    server.path.write_text(bad)
    await server.central.reload()
    assert server.central.engine.nodes()[0].presence == "live"
    _, _, text = await server.text("/metrics")
    assert "fabricmon_central_config_last_reload_success 0.0\n" in text
    assert "Configuration was rejected" in (await server.text("/"))[2]
    server.path.write_text(good)
    await server.central.reload()
    _, _, text = await server.text("/metrics")
    assert "fabricmon_central_config_last_reload_success 1.0\n" in text


# --- the verbs


async def verb(*words):
    return await asyncio.to_thread(cli.main, list(map(str, words)))


async def test_silence_and_maintenance_from_the_command_line(start, capsys):
    server = await start()
    where = ("--server", server.url)
    lasting = ("--anyway", "--for", "2h", "--comment", "why", *where)
    assert await verb("silence", "add", "kind=link_down", "node=~h.*", *lasting) == 0
    line = capsys.readouterr().out
    assert "active" in line
    assert "kind=link_down node=~h.*" in line
    assert await verb("silence", "list", "--json", *where) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["comment"], line.split()[0]) == ("why", listed["id"])
    assert await verb("silence", "expire", listed["id"], *where) == 0
    assert "ended" in capsys.readouterr().out
    assert await verb("silence", "list", *where) == 0
    assert capsys.readouterr().out == "no silences\n"
    assert await verb("silence", "expire", "s-none", *where) == 1
    assert capsys.readouterr().err == "fabricmon silence: no silence 's-none'\n"
    assert await verb("maintenance", "add", "--host", "h1", "--anyway", "--for", "20m", *where) == 0
    window = capsys.readouterr().out.split()[0]
    assert await verb("maintenance", "end", window, *where) == 0
    assert await verb("maintenance", "add", "--host", "*", "--for", "20m", *where) == 1
    assert "not only a wildcard" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_one_line(capsys):
    assert cli.main(["silence", "list", "--server", "127.0.0.1:1"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_an_unknown_verb_and_no_verb(capsys):
    assert cli.main([]) == 2
    assert cli.main(["silense"]) == 2
    assert "did you mean silence?" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_verb_has_help(name, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: fabricmon {name}" in capsys.readouterr().out
