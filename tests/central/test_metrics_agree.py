"""The server's metrics hold the numbers of its API, and the documents of jobs and counts those of their parts."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fabricmon.catalogue.kinds import KINDS
from fabricmon.central.documents.jobs import jobs_document
from fabricmon.central.documents.overview import overview, sentence
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Impact, JobImpact, JobVerdict, Presence, Severity
from fabricmon.sim.faults import FAULTS
from tests.page.scenes import NOW, busy, incident, node
from tests.page.stage import Stage

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def test_metrics_hold_the_numbers_of_the_api(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 16, past=300)
    stage.then = {100.0: [FAULTS["link_down"](stage.layout, stage.layout.port_name(9))]}
    stage.live_through()
    stage.central.engine.presence("host-009", Presence.UNREACHABLE, "timed out", stage.central.evaluator.now())
    await stage.serve()
    try:
        async with aiohttp.ClientSession() as session:

            async def get(path: str) -> aiohttp.ClientResponse:
                answer = await session.get(stage.url + path)
                assert answer.status == 200
                return answer

            text = await (await get("metrics")).text()
            found: Samples = {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }

            def value(name: str, **labels: str) -> float:
                return found[name, frozenset(labels.items())]

            counts = await (await get("api/v1/overview")).json()
            for presence, number in counts["nodes"].items():
                assert value("fabricmon_central_nodes", presence=presence) == number
            assert value("fabricmon_central_ports") == counts["ports"] == 120
            assert value("fabricmon_central_ports_silent") == counts["ports_silent"] == 8
            (open_one,) = (await (await get("api/v1/incidents")).json())["incidents"]
            for kind in KINDS:
                for severity in Severity:
                    here = (kind, severity.value) == (open_one["kind"], open_one["severity"])
                    assert value("fabricmon_incidents", kind=kind, severity=severity.value) == here
            identity = {name: open_one[name] for name in ("id", "kind", "severity", "component")}
            identity |= {name: open_one["labels"][name] for name in ("node", "device", "leaf", "rail")}
            assert value("fabricmon_incident_confidence_ratio", **identity) == pytest.approx(open_one["confidence"])
            assert value("fabricmon_incident_affected_members", **identity) == open_one["members"]["bad"]
            symptoms = (await (await get("api/v1/symptoms")).json())["symptoms"]
            for rule in {symptom["rule"] for symptom in symptoms}:
                assert value("fabricmon_symptoms", rule=rule) == sum(s["rule"] == rule for s in symptoms)
            for rail in (await (await get("api/v1/rails")).json())["rails"]:
                name = {"rail": rail["name"]}
                assert value("fabricmon_rail_ports", **name) == rail["ports"] == 8
                assert value("fabricmon_rail_utilisation_known_ports", **name) == rail["known"]
                for way in ("receive", "transmit"):
                    share = value(f"fabricmon_rail_{way}_utilisation_ratio", **name)
                    assert share == pytest.approx(rail[f"{way}_ratio"], rel=0.01)
            links = {state: value("fabricmon_rail_link_ports", rail="su0/1", state=state) for state in ("up", "down")}
            assert links == {"up": 7, "down": 1}
            assert value("fabricmon_central_streams") == value("fabricmon_central_targets") == 0
            assert value("fabricmon_central_silences") == 0
            assert value("fabricmon_central_store_success") == 1
            assert value("fabricmon_central_ticks_total") > 0
            assert 0 < value("fabricmon_central_tick_last_seconds") <= value("fabricmon_central_tick_longest_seconds")
            assert value("fabricmon_central_tick_longest_seconds") <= value("fabricmon_central_tick_seconds_total")
            assert abs(value("fabricmon_central_tick_timestamp_seconds") - time.time()) < 60
            assert value("fabricmon_central_rails_left_out") == 0
    finally:
        await stage.__aexit__()


def test_the_counts_of_a_fabric() -> None:
    nodes = [node("a"), node("b", Presence.SLOW), node("c", maintenance="m"), node("d", Presence.NEVER)]
    incidents = [incident(), incident(id="b", severity=Severity.CRITICAL), incident(id="c", status="resolved")]
    counts = overview("lab", nodes, incidents, 5, NOW)
    assert (counts.live, counts.expected, counts.ports, counts.ports_silent, counts.gpus) == (2, 4, 16, 16, 16)
    assert (counts.open, counts.resolved, counts.maintenance, counts.symptoms) == (2, 1, 1, 5)
    assert (counts.worst, counts.known) == (Severity.CRITICAL, True)
    assert sentence(counts) == "2 of 4 nodes live, 16 ports; 1 critical, 1 warning"
    silent = overview("lab", nodes[3:], incidents[2:], 0, NOW)
    assert (silent.worst, silent.known, silent.open) == (None, False, 0)
    assert sentence(silent) == "no data: 0 of 1 nodes live"
    assert sentence(overview("lab", nodes[:1], [], 0, NOW)) == "1 of 1 nodes live, 8 ports; no open incident"
    assert busy().overview.worst is Severity.CRITICAL


def test_jobs_that_an_incident_affects_come_first_with_the_incident() -> None:
    def job(id: str, node: str) -> Job:
        return Job(id, f"job-{id}", "mara", nodes=(node,), started=NOW - 60)

    slurm = Jobs("slurm", jobs=tuple(job(str(n), f"host-{n:03d}") for n in range(4)), as_of=NOW - 5)
    other = Jobs("kubernetes", jobs=(job("9", "host-002"),), as_of=None, error="refused")
    hit = JobImpact("2", "job-2", "mara", "slurm", JobVerdict.STALL, "it waits", ("host-002",), 1, 8, NOW)
    found = [
        incident(impact=Impact("known", "slurm", NOW, (hit,), 1)),
        incident(id="over", status="resolved", impact=Impact("known", "slurm", NOW, (hit,), 1)),
    ]
    sent = jobs_document([slurm, other], found, NOW, {}, 3)
    assert [(job["source"], job["id"]) for job in sent["jobs"]] == [("slurm", "2"), ("kubernetes", "9"), ("slurm", "0")]
    assert sent["jobs"][0]["incidents"] == [{"id": "5f1c0a", "verdict": "stall"}]
    assert sent["jobs"][1]["incidents"] == []
    assert sent["total"] == 5
    assert [(s["source"], s["jobs"], s["known"], s["error"]) for s in sent["sources"]] == [
        ("slurm", 4, True, ""), ("kubernetes", 1, False, "refused"),
    ]  # fmt: skip
    assert jobs_document([slurm, other], [], NOW, {"source": "kubernetes"}, 10)["total"] == 1
    here = jobs_document([slurm, other], [], NOW, {"node": "host-002"}, 10)
    assert [job["id"] for job in here["jobs"]] == ["9", "2"]
    assert jobs_document([slurm, other], [], NOW, {"node": "host-002", "source": "slurm"}, 10)["total"] == 1
