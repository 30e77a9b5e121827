"""The demo compares the incidents at its webhook with the expected ones, and runs the whole product."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.cli import main
from fabricmon.demo import (
    Demo,
    DemoOptions,
    EventResult,
    NotifiedIncident,
    compare,
    held_address,
    next_steps,
    played_jobs,
    words,
)
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import Layout
from fabricmon.sim.shapes import rail_fabric
from fabricmon.simulate.timeline import timeline

COMMAND = (sys.executable, "-m", "fabricmon.cli", "demo", "--listen", "127.0.0.1:0")
LAYOUT = Layout.from_graph(rail_fabric(nodes=8, unit=4), storage=0)
LEAF = FAULTS["leaf_down"](LAYOUT, "su0/rail3", start=10.0)
QUIET = FAULTS["node_reboot"](LAYOUT, "host-001", start=5.0, lasts=2.0)


def notified(kind: str, component: str, first: float = 12.0) -> NotifiedIncident:
    return NotifiedIncident(f"{kind}-{component}", kind, component, "critical", "firing", first)


GOOD = notified("fault_domain", "leaf(su0/rail3)")


def test_exactly_what_was_expected_is_a_good_run() -> None:
    lines = compare((LEAF, QUIET), [GOOD])
    assert lines == [EventResult("as expected", "fault_domain", "leaf(su0/rail3)", 2.0)]


@pytest.mark.parametrize(
    ("came", "results"),
    [
        ([], ["MISSING"]),
        ([notified("fault_domain", "leaf(su0/rail2)")], ["MISSING", "UNEXPECTED"]),
        ([notified("link_down", "leaf(su0/rail3)")], ["MISSING", "UNEXPECTED"]),
        ([GOOD, notified("agent_silent", "host(host-001)")], ["as expected", "UNEXPECTED"]),
        ([GOOD, GOOD], ["as expected", "UNEXPECTED"]),
    ],
)
def test_a_wrong_or_a_further_incident_spoils_a_run(came: list[NotifiedIncident], results: list[str]) -> None:
    assert [line.result for line in compare((LEAF, QUIET), came)] == results


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([EventResult("as expected", "link_errors", "link(a)", 1.0)], 0),
        ([EventResult("MISSING", "link_errors", "link(a)")], 1),
        ([EventResult("UNEXPECTED", "link_errors", "link(a)")], 1),
    ],
)
def test_the_exit_code_is_that_of_the_comparison(
    lines: list[EventResult], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def played(_: Demo) -> list[EventResult]:
        return lines

    monkeypatch.setattr(Demo, "run", played)
    assert main(["demo", "--once", "--listen", "127.0.0.1:0"]) == code
    assert lines[0].result in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [["--nodes", "4"], ["--nodes", "100000"], ["--speed", "0"], ["--listen", "nowhere"]]
)
def test_a_bad_option_starts_nothing(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--once", *options]) == 2
    assert "fabricmon demo: " in capsys.readouterr().err


@given(st.integers(8, 64), st.integers(0, 10_000), st.floats(0.5, 20))
@settings(max_examples=30)
def test_faults_never_share_a_host_or_a_leaf(nodes: int, seed: int, speed: float) -> None:
    layout = Layout.from_graph(rail_fabric(nodes=nodes, unit=min(32, -(-nodes // 2))), storage=0)
    faults = timeline(layout, seed, speed, spare=1)
    assert timeline(layout, seed, speed, spare=1)[1].expected == faults[1].expected
    kinds = [expected.kind for fault in faults for expected in fault.expected]
    assert kinds == ["link_errors", "link_flapping", "fault_domain"]
    hosts = [words(fault.expected[0].component).pop() for fault in faults[:2]]
    hosts.append(faults[2].steps[0].text.split(":")[0])
    assert len(set(hosts)) == 3
    assert layout.hosts[0] not in hosts
    dead = layout.switch(faults[3].expected[0].component.removeprefix("leaf(").removesuffix(")"))
    names = {layout.port_name(row) for row in layout.leaf_rows(dead).tolist()}
    assert not names & {fault.expected[0].component.removeprefix("link(").removesuffix(")") for fault in faults[:2]}
    assert not {name.partition("/")[0] for name in names} & {hosts[2]}


def test_a_chosen_port_in_use_is_an_error_with_the_flag_that_changes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert main(["demo", "--listen", f"127.0.0.1:{port}"]) == 2
        assert f"port {port} of 127.0.0.1 is in use: choose another one with --listen" in capsys.readouterr().err
        monkeypatch.setattr("fabricmon.demo.USUAL_PORT", port)
        held, address = held_address("")
        held.close()
        assert address != f"127.0.0.1:{port}"
        assert address.startswith("127.0.0.1:")
        said: list[str] = []
        demo = Demo(DemoOptions(nodes=8), said.append)
        monkeypatch.setattr(demo, "_start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(demo.run())
        assert said[0].startswith(f"port {port} of 127.0.0.1 is in use, so this demo takes {demo.address[10:]};")
        assert 'make run DEMO="--listen HOST:PORT"' in said[0]


async def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_jobs_have_every_host_that_stays_and_what_to_try_names_an_open_incident() -> None:
    jobs = played_jobs([f"host-{n}" for n in range(8)], {"host-6"})
    assert [(job["name"], job["nodes"]) for job in jobs] == [
        ("train-70b", ["host-0", "host-1", "host-2", "host-3"]), ("eval", ["host-4", "host-5", "host-7"]),
    ]  # fmt: skip
    over = notified("fault_domain", "leaf(su0/rail2)")
    over.status = "resolved"
    lines = next_steps([over, GOOD], "127.0.0.1:9000")
    assert f"  fabricmon explain {GOOD.id[:6]} --server http://127.0.0.1:9000" in lines
    assert "  fabricmon top" in next_steps([], "")


def test_words_of_a_component_are_the_hosts_and_switches_in_it() -> None:
    assert words("link(host-1/mlx5_0/1, leaf-3/12)") == {"host-1", "leaf-3"}
    assert words("host(host-1)") == {"host-1"}


def test_the_whole_timeline_gives_exactly_its_incidents(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--once", "--nodes", "16", "--speed", "12"],
        capture_output=True, text=True, timeout=170, check=False, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 expected, 3 notified, 0 missing, 0 unexpected" in done.stdout
    first, second, third = done.stdout.splitlines()[:3]
    # host-000 is a real agent on simulated files: without a driver it has ports and no GPU
    assert third.startswith("16 simulated hosts and this machine, ")
    assert third.endswith(" 120 GPUs, 16 leaves, 16 spines, 2 jobs")
    leaf = next(line for line in done.stdout.splitlines() if "FIRING" in line and "Leaf " in line)
    assert "; affected jobs: " in leaf
    assert first == "starting 16 simulated hosts, the server and this machine's agent ..."
    assert second.startswith("page: http://127.0.0.1:")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "the run cleans up after itself"


def test_the_live_demo_serves_its_page_and_ends_cleanly(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--nodes", "8"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("starting 8 simulated hosts")
        url = process.stdout.readline().split()[1]
        with urllib.request.urlopen(url, timeout=120) as page:
            assert b"<html" in page.read(4096).lower()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
        process.wait()
