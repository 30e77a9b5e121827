"""Servers that record: agents over sockets, a reload, a silence, a window; killed, started again, and judged again."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time

import yaml

from fabricmon.central.store.database import FILE
from fabricmon.recording.reading import Recording
from fabricmon.replay.records import RecordMark
from fabricmon.replay.run import play
from tests.central.streams import FakeAgent, until
from tests.central.test_central import agent, firing, live, start  # noqa: F401
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port

HOUR = 3600.0


async def _down(agent, row=3):  # noqa: F811
    agent.values[4 * row : 4 * row + 3] = type(agent.values)("d", [1.0, 2.0, agent.values[4 * row + 2] + 1])
    await agent.say()


async def test_what_a_server_decided_is_decided_again(start, agent, tmp_path):  # noqa: F811
    directory = tmp_path / "recording"
    rules = {"link_down": {"hold": "0s", "clear": "0s"}}
    server = await start(
        [agent.address], central={"record": {"directory": str(directory)}}, rules=rules,
        senders={"ops": {"kind": "webhook", "url": "http://127.0.0.1:1/"}},
    )  # fmt: skip
    await live(server)
    await _down(agent)
    await firing(server, "link_down")
    await agent.tell("mlx5_0 lost its carrier", 1)
    window = {"starts": time.time() - 1, "ends": time.time() + HOUR, "hosts": ["host-007"], "author": "mara"}
    assert (await server.ask("POST", "/api/v1/maintenance", window))[0] == 201
    silence = {"matchers": ["kind=link_down"], "starts": time.time() - 1, "ends": time.time() + HOUR, "author": "jon"}
    assert (await server.ask("POST", "/api/v1/silences", silence))[0] == 201
    tree = yaml.safe_load(server.path.read_text())
    tree["rules"] = {"link_down": {"hold": "1s", "clear": "0s"}}
    server.path.write_text(yaml.safe_dump(tree))
    await server.central.reload()
    await _down(agent, 5)
    await agent.stop()
    await until(lambda: server.central.engine.nodes()[0].presence != "live")
    _, _, metrics = await server.text("/metrics")
    assert "fabricmon_central_record_success 1.0\n" in metrics
    assert "fabricmon_central_record_lost_total 0.0\n" in metrics
    ticks = server.central.evaluator.ticks.count
    await until(lambda: server.central.evaluator.ticks.count > ticks + 2)
    await server.stop()

    outcome = play(Recording([directory]).items())
    assert outcome.verification.named == []
    assert outcome.verification.same == server.central.evaluator.ticks.count
    assert [e.kind for e in outcome.recorded.episodes if e.kind == "link_down"]
    marks = {item.mark for item in Recording([directory]).items()}
    names = ("EVENT", "MAINTENANCE", "PLAN", "RECONFIGURE", "PRESENCE", "RESTORE", "END")
    assert marks >= {RecordMark[name] for name in names}


def _durable(state):
    """Ids of the incidents that the server's store holds."""
    with contextlib.closing(sqlite3.connect(state / FILE)) as db:
        return {row[0] for row in db.execute("SELECT id FROM incidents")}


async def test_killed_and_started_again_it_is_one_recording_of_two_runs(tmp_path):
    agent = await FakeAgent("host-007").start()  # noqa: F811
    directory, port = tmp_path / "recording", free_port()
    command = [*FABRICMON, "central", "--target", agent.address, "--listen", f"127.0.0.1:{port}",
               "--state", tmp_path / "state", "--record", directory]  # fmt: skip
    url = f"http://127.0.0.1:{port}"

    async def wait(daemon, look):
        await asyncio.to_thread(daemon.wait_until, "the server to see it", look)

    with Daemon(tmp_path / "first.log", command) as server:
        await wait(server, lambda: fetch_json(f"{url}/api/v1/nodes")["nodes"][0]["presence"] == "live")
        await _down(agent)
        await wait(server, lambda: _durable(tmp_path / "state"))
        await wait(server, lambda: sum(p.stat().st_size for p in directory.iterdir()) > 3000)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    durable = _durable(tmp_path / "state")
    with Daemon(tmp_path / "second.log", command) as server:
        await wait(server, lambda: "fabricmon_central_record_records_total" in fetch(f"{url}/metrics"))
        await wait(server, lambda: fetch_json(f"{url}/api/v1/nodes")["nodes"][0]["presence"] == "live")
        assert await asyncio.to_thread(server.stop) == 0
    await agent.stop()
    outcome = play(Recording([directory]).items())
    assert outcome.facts.runs == 2
    assert outcome.verification.named == []
    assert outcome.verification.ticks > 10
    restored = [item.thing for item in Recording([directory]).items() if item.mark is RecordMark.RESTORE]
    assert [{incident.id for incident in incidents} for incidents in restored] == [set(), durable]


def test_a_recording_that_cannot_be_made_stops_the_start(tmp_path, capsys):
    from fabricmon import cli

    (tmp_path / "file").write_text("")
    words = ["central", "--state", str(tmp_path / "state"), "--listen", "127.0.0.1:0", "--record"]
    assert cli.main([*words, str(tmp_path / "file" / "below")]) == 1
    assert "file" in capsys.readouterr().err
