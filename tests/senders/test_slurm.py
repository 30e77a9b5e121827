"""Draining in Slurm: against a real slurmctld, against a stand-in for scontrol, and by slurmrestd's wire."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.acting import Deed
from fabricmon.senders import slurm
from fabricmon.senders.acting import ActionReport, Standing
from fabricmon.senders.slurm_nodes import SlurmNode, by_our_names, from_json, from_text, reason_of
from fabricmon.units import Duration
from tests.conftest import strict
from tests.notify.made import T0, incident
from tests.rigs.served import serve
from tests.rigs.slurm import Slurmctld

NOW = T0 + 5000.0
NAMES = [f"host-{n:03}" for n in range(400)]  # 0.5 % of them: two at once


class Diary:
    """Keeps deeds and incidents; `broken`: cannot be written."""

    def __init__(self, *past: Incident, broken: bool = False) -> None:
        self.deeds: list[Deed] = []
        self._past, self._broken = {i.id: i for i in past}, broken

    async def write(self, deed: Deed) -> None:
        if self._broken:
            raise OSError("disk full")
        self.deeds.append(deed)

    async def incidents(self, ids: Any) -> list[Incident]:
        return [self._past[id] for id in ids if id in self._past]


class Site:
    """A Slurm and how it is asked."""

    def __init__(self, command: tuple[str, ...], run: Callable[..., str]) -> None:
        self.command, self.run = command, run

    def node(self, name: str) -> SlurmNode:
        return from_text(self.run("--oneliner", "show", "node", name))[0]

    def drain(self, name: str, reason: str) -> None:
        self.run("update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def reset(self) -> None:
        for node in from_text(self.run("--oneliner", "show", "nodes")):
            if node.drained:
                self.run("update", f"NodeName={node.name}", "State=UNDRAIN")

    async def act(
        self, *incidents: Incident, diary: Diary | None = None, fleet: Any = None, **changes: Any
    ) -> ActionReport:
        fields: dict[str, Any] = {"kinds": ("nic_fault",), "dry_run": False, "undo": True, "scontrol": self.command}
        actor = slurm.open("drain", slurm.SlurmConfig(**{**fields, **changes}))
        nodes = fleet or [NodeView(name, Presence.LIVE, "", T0) for name in NAMES]
        diary = diary or Diary()
        return await actor.act(Standing(NOW, incidents, frozenset(), nodes, diary.deeds), diary)


def _stand_in(folder: Path) -> Site:
    file = folder / "nodes.json"
    file.write_text(json.dumps({name: {"state": "IDLE", "reason": ""} for name in NAMES}))
    command = (sys.executable, "-m", "tests.rigs.scontrol", str(file))

    def run(*words: str) -> str:
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=True).stdout

    return Site(command, run)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, require: Any) -> Iterator[Site]:
    """A real slurmctld (as root it needs no munge); with none here a stand-in, but with CI=true it must be there."""
    folder = tmp_path_factory.mktemp("slurm")
    there = shutil.which("scontrol") and shutil.which("slurmctld", path="/usr/sbin:/sbin:/usr/bin")
    if not (there and os.geteuid() == 0) and not strict():
        yield _stand_in(folder)
        return
    require("root")
    require("slurmctld", "a real Slurm to drain nodes in")
    with Slurmctld(folder) as real:
        yield Site(real.command, real.run)


@pytest.fixture
def site(served: Site) -> Iterator[Site]:
    yield served
    served.reset()


def fault(node: str, **changes: Any) -> Incident:
    fields: dict[str, Any] = {
        "kind": "nic_fault", "severity": Severity.CRITICAL, "confidence": 0.97, "component": f"nic({node}/mlx5_0)",
        "title": f"NIC {node}/mlx5_0 is faulty: State=IDLE Reason=\"x\" [root@now]",
    }  # fmt: skip
    return incident(f"i-{node}", **{**fields, **changes})


def over(given: Incident) -> Incident:
    return replace(given, status="resolved", resolved=NOW - 700)


async def test_a_node_is_drained_with_the_incident_in_its_reason_and_resumed_when_it_is_over(site):
    diary = Diary()
    report = await site.act(fault("host-007"), diary=diary)
    assert [(d.node, d.verb) for d in report.done] == [("host-007", "drain")]
    assert report.held == 1
    node = site.node("host-007")
    assert node.drained
    assert node.reason.startswith("fabricmon: i-host-007 NIC host-007/mlx5_0 is faulty")
    assert [d.incident for d in diary.deeds] == ["i-host-007"]

    again = await site.act(fault("host-007"), diary=diary)  # also after a restart: it is read, not remembered
    assert (again.done, again.held, len(diary.deeds)) == ([], 1, 1)

    # the engine has forgotten it after an hour; the store has not
    done = await site.act(diary=Diary(over(fault("host-007"))))
    assert [(d.node, d.verb) for d in done.done] == [("host-007", "resume")]
    assert not site.node("host-007").drained


async def test_what_became_part_of_a_fault_that_still_stands_stays_drained(site):
    await site.act(fault("host-007"))
    part = replace(over(fault("host-007")), labels={"absorbed_by": "i-link"})
    link = incident("i-link", status="resolved", resolved=NOW - 9000, labels={"absorbed_by": "i-leaf"})
    leaf = incident("i-leaf", kind="fault_domain", component="leaf(su1/rail2)", resolved=NOW - 10)
    for ended in (leaf, replace(leaf, status="resolved")):  # it fires; it is over since a moment ago
        assert (await site.act(diary=Diary(part, link, ended))).done == []
    assert site.node("host-007").drained
    long_ago = replace(leaf, status="resolved", resolved=NOW - 700)
    assert [d.verb for d in (await site.act(long_ago, diary=Diary(part, link))).done] == ["resume"]


async def test_a_dry_run_says_and_does_nothing(site):
    diary = Diary()
    report = await site.act(fault("host-007"), diary=diary, dry_run=True)
    assert report.dry
    assert [(d.node, d.verb) for d in report.done] == [("host-007", "drain")]
    assert not site.node("host-007").drained
    assert not diary.deeds


async def test_the_drain_of_somebody_else_is_theirs(site):
    site.drain("host-007", "disk is broken, ask jon")
    report = await site.act(fault("host-007"))
    assert report.done == []
    assert "disk is broken" in report.withheld["host-007"]
    await site.act(diary=Diary(over(fault("host-007"))))
    assert site.node("host-007").reason == "disk is broken, ask jon"


async def test_a_drain_whose_reason_somebody_changed_is_theirs_from_then_on(site):
    await site.act(fault("host-007"))
    site.drain("host-007", "waits for the vendor (was: fabricmon: i-host-007)")
    report = await site.act(over(fault("host-007")))
    assert report.done == []
    assert site.node("host-007").drained


async def test_never_more_than_allowed_at_once(site):
    faults = [fault(name) for name in NAMES[:9]]
    first = await site.act(*faults)
    assert len(first.done) == 2
    assert len(first.withheld) == 7
    assert (await site.act(*faults)).done == []
    assert sum(n.drained for n in from_text(site.run("--oneliner", "show", "nodes"))) == 2


async def test_resuming_is_not_done_unless_it_is_allowed(site):
    await site.act(fault("host-007"))
    assert (await site.act(over(fault("host-007")), undo=False)).done == []
    assert site.node("host-007").drained


async def test_what_cannot_be_written_down_is_not_done(site):
    with pytest.raises(OSError, match="disk full"):
        await site.act(fault("host-007"), diary=Diary(broken=True))
    assert not site.node("host-007").drained


async def test_a_name_with_a_domain_is_the_same_node(site):
    fleet = [NodeView(f"{name}.east.example", Presence.LIVE, "", T0) for name in NAMES]
    report = await site.act(fault("host-007.east.example"), fleet=fleet)
    assert [d.node for d in report.done] == ["host-007.east.example"]
    assert site.node("host-007").drained


async def test_a_node_slurm_does_not_know(site):
    fleet = [NodeView(name, Presence.LIVE, "", T0) for name in [*NAMES, "stranger"]]
    report = await site.act(fault("stranger"), fleet=fleet)
    assert report.withheld == {"stranger": "unknown in Slurm"}


async def test_a_slurm_that_is_away_is_an_error_and_nothing_is_done(tmp_path):
    site = _stand_in(tmp_path)
    (tmp_path / "nodes.json.down").touch()
    report = await site.act(fault("host-007"))
    assert "Unable to contact slurm controller" in report.error
    missing = await Site(("/no/such/scontrol",), site.run).act(fault("host-007"))
    assert "cannot be run" in missing.error
    hangs = await Site(("sleep", "60"), site.run).act(fault("host-007"), timeout=Duration(0.2))
    assert hangs.error


# ---------------------------------------------------------------- slurmrestd


class Restd:
    """slurmrestd v0.0.41 over a dict of nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {n: {"name": n, "state": ["IDLE"], "reason": ""} for n in NAMES}
        self.headers: list[dict[str, str]] = []
        self.errors: list[str] = []

    async def __aenter__(self) -> Restd:
        app = web.Application()
        app.router.add_get("/slurm/v0.0.41/nodes", self._nodes)
        app.router.add_get("/slurm/v0.0.41/node/{name}", self._nodes)
        app.router.add_post("/slurm/v0.0.41/node/{name}", self._update)
        self._served = await serve(app)
        self.url = self._served.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._served.stop()

    async def _nodes(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        name = request.match_info.get("name")
        return web.json_response({"nodes": [n for n in self.nodes.values() if name in (None, n["name"])], "errors": []})

    async def _update(self, request: web.Request) -> web.Response:
        body, node = await request.json(), self.nodes[request.match_info["name"]]
        if self.errors:
            return web.json_response({"errors": [{"description": self.errors.pop()}]})
        assert set(body) <= {"state", "reason"}
        assert isinstance(body["state"], list)
        drained = body["state"] == ["DRAIN"]
        node["state"] = ["IDLE", "DRAIN"] if drained else ["IDLE"]
        node["reason"] = body["reason"] if drained else ""
        return web.json_response({"errors": [], "warnings": []})


async def test_by_slurmrestd(tmp_path):
    (tmp_path / "token").write_text("jwt-1\n")
    async with Restd() as restd:
        site = Site((), lambda *_: "")
        token = str(tmp_path / "token")
        access = {"scontrol": ("scontrol",), "url": restd.url, "user": "fabricmon", "token_file": token}
        report = await site.act(fault("host-007"), **access)
        assert [d.node for d in report.done] == ["host-007"], report
        assert restd.nodes["host-007"]["reason"].startswith("fabricmon: i-host-007")
        assert restd.headers[0]["X-SLURM-USER-TOKEN"] == "jwt-1"
        assert restd.headers[0]["X-SLURM-USER-NAME"] == "fabricmon"
        resumed = await site.act(over(fault("host-007")), **access)
        assert [d.verb for d in resumed.done] == ["resume"]
        restd.errors.append("Access/permission denied")
        refused = await site.act(fault("host-008"), **access)
        assert "permission denied" in refused.failed["host-008"]


# ---------------------------------------------------------------- what Slurm says


def test_states_and_reasons_as_versions_of_slurm_write_them():
    text = (
        "NodeName=a Arch=x86_64 OS=Linux 6.1 #1 SMP State=IDLE+DRAIN ThreadsPerCore=2 "
        "Reason=disk State=DOWN [root@2026-01-01T00:00:00] Comment=x\n"
        "NodeName=b State=DOWN*+DRAIN Reason=Not responding [slurm@x]\nNodeName=c State=MIXED AllocTRES=\nnonsense\n"
    )
    assert [(n.name, n.drained, n.reason) for n in from_text(text)] == [
        ("a", True, "disk State=DOWN"), ("b", True, "Not responding"), ("c", False, ""),
    ]  # fmt: skip
    old = {"nodes": [{"name": "a", "state": "idle", "state_flags": ["DRAIN"], "reason": "x"}]}
    new = {"nodes": [{"name": "a", "state": ["IDLE", "DRAIN"], "reason": "fabricmon: i-1 leaf"}]}
    assert from_json(json.dumps(old).encode())[0].taken == "is drained already: x"
    assert from_json(json.dumps(new).encode())[0].incident == "i-1"
    with pytest.raises(ValueError, match="denied"):
        from_json(b'{"errors": [{"description": "denied"}]}')


def test_only_a_drain_of_ours_has_an_incident():
    for reason, state, incident_id in (
        ("fabricmon: i-1 title", "DRAIN", "i-1"),
        ("fabricmon: i-1", "DRAIN", "i-1"),
        ("fabricmon: i-1 title", "IDLE", ""),
        ("was fabricmon: i-1", "DRAIN", ""),
        ("fabricmon:i-1", "DRAIN", ""),
    ):
        assert SlurmNode("a", frozenset({state}), reason).incident == incident_id


@given(st.text(max_size=300))
def test_a_reason_is_one_plain_line(title):
    reason = reason_of("5f1d6d0f3c2b9a47", title)
    assert len(reason) <= 200
    assert reason.isascii()
    assert reason.isprintable()
    assert SlurmNode("a", frozenset({"DRAIN"}), reason).incident == "5f1d6d0f3c2b9a47"


def test_a_short_name_that_two_have_is_nobodys():
    nodes = [SlurmNode("a.x", frozenset(), ""), SlurmNode("a.y", frozenset(), ""), SlurmNode("b", frozenset(), "")]
    assert {k: v.name for k, v in by_our_names(nodes, ["a", "a.x", "b.z"]).items()} == {"a.x": "a.x", "b.z": "b"}


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"kinds": ()}, "no default"), ({"kinds": ("agent_silent",)}, "unknown"), ({"kinds": ("x",), "url": "x"}, "url"),
     ({"kinds": ("x",), "period": Duration(0.5)}, "period"), ({"kinds": ("x",), "scontrol": ()}, "scontrol")],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        slurm.SlurmConfig(**fields)


def test_it_is_off_until_somebody_says_so():
    assert slurm.SlurmConfig(kinds=("nic_fault",)).dry_run
    assert not slurm.SlurmConfig(kinds=("nic_fault",)).undo
