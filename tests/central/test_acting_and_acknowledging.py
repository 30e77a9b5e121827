"""A running server that acts, and an incident that somebody takes on."""

from __future__ import annotations

import asyncio
import json
import sys

from fabricmon.notify.acting import Deed
from tests.central.streams import until
from tests.central.test_central import agent, firing, flap, hook, live, start, verb

__all__ = ["agent", "hook", "start"]


async def test_an_incident_leads_to_a_drain_once_and_it_is_written_down(start, agent, tmp_path):
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps({"host-007": {"state": "IDLE", "reason": ""}}))
    drain = {
        "kind": "slurm", "kinds": ["link_flapping"], "dry_run": True, "min_severity": "warning", "hold": "0s",
        "min_confidence": 0.5, "period": "1s",
        "scontrol": [sys.executable, "-m", "tests.rigs.scontrol", str(nodes)],
    }  # fmt: skip
    server = await start([agent.address], senders={"drain": drain})
    await live(server)
    await flap(agent)
    incident = await firing(server, "link_flapping")
    actors = server.central.actors
    await until(lambda: actors.states["drain"].report.done)
    assert json.loads(nodes.read_text())["host-007"]["state"] == "IDLE"  # a dry run
    assert 'fabricmon_acting_dry_run{actor="drain"} 1' in (await server.text("/metrics"))[2]
    await server.stop()

    # The incident was kept over the restart; now it may act.
    second = await start([agent.address], senders={"drain": {**drain, "dry_run": False}})
    actors = second.central.actors
    await until(lambda: actors.states["drain"].done["drain"])
    reason = json.loads(nodes.read_text())["host-007"]["reason"]
    assert reason.startswith(f"fabricmon: {incident['id']} ")
    await until(lambda: actors.states["drain"].report.held == 1 and not actors.states["drain"].report.done)
    assert actors.states["drain"].done["drain"] == 1
    (deed,) = await second.central.store.deeds("drain", 0.0)
    assert (deed.node, deed.verb, deed.incident) == ("host-007", "drain", incident["id"])
    assert isinstance(deed, Deed)
    metrics = (await second.text("/metrics"))[2]
    assert 'fabricmon_actions_total{actor="drain",verb="drain"} 1' in metrics
    assert 'fabricmon_acting_held_nodes{actor="drain"} 1' in metrics
    nodes.with_name("nodes.json.down").touch()
    await until(lambda: actors.states["drain"].error)
    assert any("drain cannot act" in warning for warning in second.central.warnings())


async def test_an_acknowledgement_is_shown_and_survives_a_restart(start, agent, hook, capsys):
    def later(after):
        return {"next": {"kind": "webhook", "url": hook.url, "after": after}}

    server = await start([agent.address], senders=later("1h"))
    await live(server)
    await flap(agent)
    incident = await firing(server, "link_flapping")
    path = f"/api/v1/incidents/{incident['id']}/acknowledgement"
    status, taken = await server.ask("POST", path, {"author": "mara", "comment": "cable is ordered"})
    assert (status, taken["acknowledged"]["author"]) == (201, "mara")
    assert (await server.ask("POST", "/api/v1/incidents/none/acknowledgement", {}))[0] == 404
    assert (await server.ask("POST", path, {"author": "x" * 2000}))[0] == 400
    await server.stop()

    second = await start([agent.address], senders=later("1s"))
    shown = await firing(second, "link_flapping")
    assert shown["acknowledged"]["comment"] == "cable is ordered"
    await asyncio.sleep(1.2)
    assert hook.told == []  # the next in line is not called
    where = ("--server", second.url)
    assert await verb("acknowledge", incident["id"], "--withdraw", *where) == 0
    assert "acknowledgement removed" in capsys.readouterr().out
    await until(lambda: hook.told)
    assert await verb("acknowledge", incident["id"], "--comment", "on it", "--author", "jon", *where) == 0
    assert "acknowledged by jon" in capsys.readouterr().out
    assert await verb("acknowledge", "none", *where) == 1
    assert "no incident id starts with 'none'" in capsys.readouterr().err
