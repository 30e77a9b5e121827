"""The sweep on a subnet of 512 adapters with a real subnet manager (ibsim, opensm): topology, counters, incidents."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricmon.collect import COLLECTORS
from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.topology.graph import Cable, End, Graph
from fabricmon.topology.names import NodeNames
from tests.conftest import need
from tests.rigs.daemons import FABRICMON, Daemon, fetch_json, free_port, wait_for
from tests.rigs.ibsim.subnet import Subnet, preload, subnet

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

RAILS = 4
PLAN = rail_fabric(nodes=32, rails=RAILS, unit=16, spines=8, parallel=2)
PERFQUERY = {
    "SymbolErrorCounter": "symbol_errors", "LinkErrorRecoveryCounter": "link_error_recoveries",
    "LinkDownedCounter": "link_downed", "PortRcvErrors": "rcv_errors",
    "PortRcvRemotePhysicalErrors": "rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "rcv_switch_relay_errors", "PortXmitDiscards": "xmit_discards",
    "PortXmitConstraintErrors": "xmit_constraint_errors", "PortRcvConstraintErrors": "rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors", "VL15Dropped": "vl15_dropped",
    "PortXmitWait": "xmit_wait_ticks", "PortUnicastXmitPkts": "unicast_xmit_packets",
    "PortUnicastRcvPkts": "unicast_rcv_packets", "PortMulticastXmitPkts": "multicast_xmit_packets",
    "PortMulticastRcvPkts": "multicast_rcv_packets", "PortLocalPhysicalErrors": "rcv_local_physical_errors",
    "PortMalformedPktErrors": "rcv_malformed_packets", "PortInactiveDiscards": "xmit_inactive_discards",
    "PortSwHOQLifetimeLimitDiscards": "xmit_head_of_queue_discards",
}  # fmt: skip
MOVING = {"PortXmitData": "xmit", "PortRcvData": "rcv", "PortXmitPkts": "xmit_packets", "PortRcvPkts": "rcv_packets"}


def netlist_id(end: End | str) -> str:
    node = end if isinstance(end, str) else end.node
    return f"{'S' if node in PLAN.switches else 'H'}-{node.removeprefix('0x')}"


def words(end: End) -> str:
    return PLAN.describe(end)


def adapter_cable(host: int, rail: int) -> tuple[End, End]:
    """(adapter's end, leaf's end)."""
    at = End(list(PLAN.adapters)[host * RAILS + rail], 1)
    link = next(c for c in PLAN.cables if at in (c.a, c.b))
    return at, link.a if link.b == at else link.b


def uplink(number: int) -> tuple[End, End]:
    links = [c for c in PLAN.cables if c.a.node in PLAN.switches and c.b.node in PLAN.switches]
    return links[number].a, links[number].b


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subnet]:
    for program in ("ibsim", "opensm", "perfquery"):
        need(program, "a subnet in software")
    if preload() is None:
        pytest.skip("libumad2sim.so is missing (apt-get install ibsim-utils)")
    with subnet(tmp_path_factory.mktemp("subnet"), write(PLAN, "4xHDR")) as up:
        yield up


def sweep(running: Subnet, *options: str) -> str:
    return running.run(sys.executable, "-m", "fabricmon.cli", "fabric", *options)


def cables(graph: Graph) -> set[tuple[str, str]]:
    def both(link: Cable) -> tuple[str, str]:
        a, b = sorted((f"{graph.describe(link.a)}", f"{graph.describe(link.b)}"))
        return a, b

    return {both(link) for link in graph.cables}


def test_every_node_name_and_link_is_as_in_the_netlist(running: Subnet) -> None:
    told = json.loads(sweep(running, "--json"))
    assert told["whole"]
    switches = {n["guid"]: n["name"] for n in told["nodes"] if n["kind"] == "switch"}
    adapters = {n["guid"]: n["name"] for n in told["nodes"] if n["kind"] == "adapter"}
    assert switches == {s.id: s.name for s in PLAN.switches.values()}
    assert adapters == {a.id: f"{a.host}/{a.name}" for a in PLAN.adapters.values()}
    levels = {n["guid"]: n["level"] for n in told["nodes"] if n["kind"] == "switch"}
    assert levels == {s.id: s.level for s in PLAN.switches.values()}
    links = {tuple(sorted(f"{e['node']}/{e['port']}" for e in (link["a"], link["b"]))) for link in told["links"]}
    assert links == cables(PLAN)
    linked = [port for port in told["ports"] if port["remote"]]
    assert len(linked) == 2 * len(PLAN.cables) == 512
    assert len(told["ports"]) - len(linked) == sum(s.ports for s in PLAN.switches.values()) - sum(
        end.node in PLAN.switches for c in PLAN.cables for end in (c.a, c.b)
    )
    assert {port["state"] for port in told["ports"] if not port["remote"]} <= {"down"}
    for port in linked:
        assert (port["state"], port["phys_state"], port["width"], port["rate"]) == ("active", "link_up", 4, 25e9)
        assert port["counters"]["symbol_errors"] == 0  # zeros are told
        assert port["counters"]["xmit"] is not None


def test_our_ibnetdiscover_text_is_that_of_ibnetdiscover(running: Subnet) -> None:
    ours, theirs = sweep(running, "--ibnetdiscover"), running.run("ibnetdiscover")

    def lines(text: str) -> list[str]:
        return sorted(line for line in text.splitlines() if line and not line.startswith("#"))

    assert lines(ours) == lines(theirs)
    read = ibnetdiscover.parse(ours, "ours", NodeNames())
    assert cables(read) == cables(PLAN)


def test_every_counter_equals_perfquerys(running: Subnet) -> None:
    rng = random.Random(4)
    ends = rng.sample(sorted({end for c in PLAN.cables for end in (c.a, c.b)}), 6)
    narrow = ["SymbolErrorCounter", "PortRcvErrors", "PortXmitDiscards", "VL15Dropped", "PortXmitWait",
              "LinkDownedCounter", "LinkErrorRecoveryCounter", "LocalLinkIntegrityErrors"]  # fmt: skip
    running.set_counters({
        (netlist_id(end), end.port): {
            **{f"PortCounters.{name}": rng.randrange(300) for name in narrow},
            "PortCountersExtended.PortUnicastXmitPkts": rng.randrange(2**50),
            "PortRcvErrorDetails.PortLocalPhysicalErrors": rng.randrange(1, 2**16),
            "PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards": rng.randrange(1, 2**16),
        }
        for end in ends
    })  # fmt: skip
    report = json.loads(sweep(running, "--json"))
    told = {(p["guid"], p["port"]): p["counters"] for p in report["ports"]}
    lids = {node["guid"]: node["lid"] for node in report["nodes"]}
    for end in ends:
        where = (str(lids[end.node]), str(end.port))
        ours, checked = told[end.node, end.port], 0
        for form in ((), ("-x",), ("--rcverr",), ("--xmtdisc",)):
            for name, value in re.findall(r"^(\w+):\.*(\w+)", running.run("perfquery", *form, *where), re.MULTILINE):
                if name in PERFQUERY and ours[PERFQUERY[name]] is not None:
                    assert ours[PERFQUERY[name]] == int(value, 0), (words(end), name)
                    checked += 1
                elif form == ("-x",) and name in MOVING:  # perfquery's own datagrams count too
                    scale = 4 if name.endswith("Data") else 1
                    assert 0 <= int(value, 0) - ours[MOVING[name]] / scale <= 100_000, (words(end), name)
                    checked += 1
        assert checked >= 20
    clean = {(netlist_id(end), end.port): {f"PortCounters.{name}": 0 for name in narrow} for end in ends}
    running.set_counters(clean)


def test_a_person_reads_errors_first(running: Subnet) -> None:
    _, leaf = adapter_cable(9, 3)
    running.set_counters({(netlist_id(leaf), leaf.port): {"PortCounters.SymbolErrorCounter": 4711}})
    text = sweep(running)
    running.set_counters({(netlist_id(leaf), leaf.port): {"PortCounters.SymbolErrorCounter": 0}})
    assert text.startswith("16 switches, 128 adapters, 256 links, seen from host-000/mlx5_0/1\n")
    assert f"{words(leaf)} -> host-009/mlx5_3/1: symbol_errors 4711" in text
    assert text.index("ports with errors") < text.index("TIER")
    assert re.search(r"^adapter-0 +128 +128 +128 x 200 Gb/s over 4X +1 +0$", text, re.MULTILINE)


def test_without_a_fabric_it_says_so(tmp_path: Path, require: Callable[..., str]) -> None:
    if Path("/sys/class/infiniband").exists() and list(Path("/sys/class/infiniband").iterdir()):
        pytest.skip("this machine has an adapter")
    done = subprocess.run([*FABRICMON, "fabric"], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1
    assert "fabricmon fabric: cannot open a management port of any device" in done.stderr or "libibumad" in done.stderr


# --- a sweeping agent, a server, and faults


class Site:
    def __init__(self, running: Subnet, folder: Path) -> None:
        self.running, self.folder = running, folder
        self.agent_at, self.server_at = free_port(), free_port()

    def incidents(self, kind: str) -> list[dict[str, Any]]:
        told = fetch_json(f"http://127.0.0.1:{self.server_at}/api/v1/incidents")
        found = told["incidents"] if isinstance(told, dict) else told
        return [i for i in found if i["kind"] == kind and i["status"] == "firing"]

    def incident(self, kind: str, *ends: End, patience: float = 150.0) -> dict[str, Any]:
        """The firing incident of a kind that names both ends of a cable."""
        return wait_for(
            f"{kind} of {[words(e) for e in ends]}",
            lambda: next((i for i in self.incidents(kind) if all(words(e) in i["component"] for e in ends)), None),
            patience,
        )


@pytest.fixture(scope="module")
def site(running: Subnet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    made = Site(running, folder)
    # the preloaded library that leads to the simulator does not bear several threads at its start
    quiet = {name: {"enabled": False} for name in COLLECTORS if name != "fabric"}
    sweeping = {"enabled": True, "interval": "1s", "deadline": "10s", "rediscover": "5s"}
    (folder / "agent.yaml").write_text(yaml.safe_dump({"collect": {**quiet, "fabric": sweeping}}))
    rules = {"link_down": {"hold": "1s", "clear": "1s"}, "link_degraded": {"hold": "1s", "clear": "1s"},
             "telemetry_quality": {"hold": "2s"}}  # fmt: skip
    (folder / "server.yaml").write_text(yaml.safe_dump({"rules": rules}))
    attached = {key: value for key, value in running.environment().items() if key.startswith(("LD_", "IBSIM", "SIM_"))}
    prefix = ("env", "-C", str(running.clients), *(f"{key}={value}" for key, value in attached.items()))
    agent = (*FABRICMON, "agent", "--config", folder / "agent.yaml", "--node", "sweeper",
             "--listen", f"127.0.0.1:{made.agent_at}")  # fmt: skip
    server = (*FABRICMON, "central", "--config", folder / "server.yaml", "--state", folder / "state",
              "--listen", f"127.0.0.1:{made.server_at}", "--target", f"127.0.0.1:{made.agent_at}")  # fmt: skip
    with Daemon(folder / "agent.log", agent, prefix) as a, Daemon(folder / "server.log", server) as c:
        c.wait_until("server", lambda: fetch_json(f"http://127.0.0.1:{made.server_at}/api/v1/nodes"))
        a.wait_until(
            "the swept topology",
            lambda: len((fetch_json(f"http://127.0.0.1:{made.server_at}/api/v1/topology") or {}).get("cables", ())) > 0,
        )
        yield made


def test_the_server_has_the_topology_without_a_file(site: Site) -> None:
    told = fetch_json(f"http://127.0.0.1:{site.server_at}/api/v1/topology")
    assert len(told["cables"]) == len(PLAN.cables)
    assert not site.incidents("link_down")


def test_the_sweeping_nodes_own_health_is_its_own(site: Site) -> None:
    health = fetch_json(f"http://127.0.0.1:{site.agent_at}/health")
    assert sum(sort["checked"] + sort["unknown"] for sort in health["checked"]) < 100  # not the fabric's 512 ports


def test_a_link_that_is_cut(site: Site) -> None:
    for near, far in (adapter_cable(20, 1), uplink(100)):
        site.running.unplug(netlist_id(far), far.port)
        found = site.incident("link_down", near, far)
        assert (found["members"]["bad"], found["members"]["of"]) == (1, 1)
        site.running.plug(netlist_id(far), far.port)
    wait_for("links well again", lambda: not site.incidents("link_down"))


def test_a_link_that_is_narrowed_to_one_lane(site: Site) -> None:
    near, far = adapter_cable(30, 2)
    lid = site.running.lid(netlist_id(far))
    site.running.narrow(lid, far.port, 1)
    found = site.incident("link_degraded", near, far)
    assert any("50 Gb/s over 1 lanes" in e["text"] for e in found["evidence"])
    site.running.narrow(lid, far.port, 3)


def test_errors_that_step_up(site: Site) -> None:
    near, far = uplink(60)
    at = netlist_id(far), far.port
    for step in range(1, 60):
        counted = {"PortCounters.SymbolErrorCounter": 500 * step, "PortCounters.LinkErrorRecoveryCounter": step}
        site.running.set_counters({at: counted})
        if any(words(near) in i["component"] and words(far) in i["component"] for i in site.incidents("link_errors")):
            break
        time.sleep(1.2)
    found = site.incident("link_errors", near, far, patience=1.0)
    assert any(words(far) in e["component"] for e in found["evidence"])


def test_a_node_that_stops_answering(site: Site) -> None:
    near, far = adapter_cable(10, 3)
    site.running.drop(netlist_id(near), 100)
    found = site.incident("telemetry_quality", near, far)
    assert any("does not answer the sweep" in e["text"] for e in found["evidence"])
    site.running.drop(netlist_id(near), 0)
    assert not site.incidents("link_down")
