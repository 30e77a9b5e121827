"""A whole server with a Slurm that is a script: a link goes down, the webhook names the job, stall and then crash."""

import asyncio

import pytest
import yaml

from fabricmon import config
from fabricmon.central.app import Central
from tests.central.streams import FakeAgent, until
from tests.central.test_central import QUICK, Hook, Running, live
from tests.jobs.made import LISTS, pod, slurm_answer, slurm_job
from tests.rigs.kube.standin import StandIn

PODS = "/api/v1/pods"


@pytest.fixture
async def begin(tmp_path):
    """Starts a server of one agent, host-007, with a webhook and these sources of jobs."""
    running, agent, hook = [], await FakeAgent("host-007").start(), await Hook().start()

    async def make(jobs):
        central = {"listen": ["127.0.0.1:0"], "state": str(tmp_path / "state"), "targets": [agent.address],
                   "pull": QUICK, "tick": "50ms", "jobs": jobs}  # fmt: skip
        path = tmp_path / "fabricmon.yaml"
        # No budget: with one the crash, seconds after the incident opened, would join what comes within its minute.
        senders = {"ops": {"kind": "webhook", "url": hook.url, "budget": 0}}
        rules = {"link_down": {"hold": "0s"}}
        path.write_text(yaml.safe_dump({"central": central, "senders": senders, "rules": rules}))
        made = Running(Central(config.load(str(path)), lambda: config.load(str(path))))
        made.path = path
        running.append(made)
        await made.start()
        await live(made)
        return made, agent, hook

    yield make
    for one in running:
        await one.stop()
    await agent.stop()
    await hook.stop()


def impacts(hook):
    return [(i["impact"]["jobs"][0]["verdict"], i["labels"]["jobs"]) for i in hook.told if i["impact"]]


async def test_a_webhook_names_the_job_and_the_api_has_its_crash(begin, tmp_path):
    answer = tmp_path / "answer"
    answer.write_bytes(slurm_answer([slurm_job(LISTS, 4711, "host-[006-009]")]))
    script = tmp_path / "squeue"
    script.write_text(f"#!/bin/sh\ncat {answer}\n")
    script.chmod(0o755)
    jobs = {"slurm": {"command": [str(script), "--json"]}, "period": "1s", "survives": "3s"}
    server, agent, hook = await begin(jobs)
    await until(lambda: server.central.jobs.states["slurm"].answers)
    down = asyncio.create_task(agent.down(3, 60))
    await until(lambda: impacts(hook))
    await until(lambda: server.central.evaluator.current().incidents[0].labels["jobs"] == "train-4711#4711 (crash)")
    assert impacts(hook) == [("stall", "train-4711#4711 (stall)")]
    told = hook.told[-1]["impact"]
    assert (told["state"], told["source"], told["total"]) == ("known", "slurm", 1)
    assert told["jobs"][0]["nodes"] == ["host-007"]
    assert (told["jobs"][0]["hit"], told["jobs"][0]["of"]) == (1, 4)

    _, known = await server.get("/api/v1/jobs", params={"node": "host-007"})
    (job,) = known["jobs"]
    assert (job["id"], job["user"], job["incidents"]) == (
        "4711", "mara", [{"id": hook.told[-1]["id"], "verdict": "crash"}])  # fmt: skip
    assert known["sources"][0]["known"] is True
    _, none = await server.get("/api/v1/jobs", params={"node": "host-001"})
    assert none["total"] == 0
    _, one = await server.get(f"/api/v1/incidents/{hook.told[-1]['id']}")
    assert one["impact"]["jobs"][0]["name"] == "train-4711"
    assert [h["change"] for h in one["history"]].count("crash") == 1
    _, _, page = await server.text("/")
    assert "train-4711#4711" in page
    assert "1 of 4 nodes" in page
    _, _, metrics = await server.text("/metrics")
    assert 'fabricmon_central_jobs{source="slurm"} 1' in metrics
    down.cancel()


async def test_a_scheduler_that_does_not_answer_is_reported_as_unknown_and_warned_of(begin):
    server, agent, hook = await begin({"slurm": {"url": "http://127.0.0.1:9/"}, "period": "1s"})
    down = asyncio.create_task(agent.down(3, 60))
    await until(lambda: hook.told)
    assert hook.told[0]["labels"]["jobs"] == "unknown"
    assert hook.told[0]["impact"]["state"] == "unknown"
    _, _, page = await server.text("/")
    assert "Jobs of slurm are unknown" in page
    assert "unknown: no scheduler responds" in page
    down.cancel()


async def test_a_pod_is_reported_and_a_reload_asks_another_source(begin, tmp_path):
    cluster = await StandIn().start()
    try:
        cluster.put(PODS, pod("p0", "host-007", owner=("PyTorchJob", "llama")))
        cluster.put(PODS, pod("p1", "host-008", owner=("PyTorchJob", "llama")))
        server, agent, hook = await begin({"kubernetes": {"api": cluster.url}})
        await until(lambda: cluster.watches)
        down = asyncio.create_task(agent.down(3, 60))
        await until(lambda: hook.told)
        assert hook.told[0]["labels"]["jobs"] == "team/llama (stall)"
        text = yaml.safe_load(server.path.read_text())
        text["central"]["jobs"] = {"files": [str(tmp_path / "jobs.json")]}
        server.path.write_text(yaml.safe_dump(text))
        await server.central.reload()
        assert list(server.central.jobs.states) == [f"file {tmp_path / 'jobs.json'}"]
        await until(lambda: cluster.bookmark(PODS) or not cluster.watches)
        down.cancel()
    finally:
        await cluster.stop()
