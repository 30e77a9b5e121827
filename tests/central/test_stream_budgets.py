"""What streams are refused or named for, with the messages in memory."""

import io
import re

import pytest
from prometheus_client import CollectorRegistry

from fabricmon import frame
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.engine.engine import Engine
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules.rule import Scope
from fabricmon.runtime import logs
from tests.conftest import ROOT
from tests.fuzz.agent import NOW, _stream
from tests.hostile.kinds import sweep


@pytest.fixture
def log():
    written = io.StringIO()
    logs.configure(level="warning", stream=written)
    yield written
    logs.configure(level="error", stream=io.StringIO())


def hello(node, *parts):
    return frame.encode_hello(Inventory(1, Identity(node, "b", f"agent of {node}", "0.2.0", 1.0), parts))


def ports(*columns, rows=1):
    return Part("infiniband_state", Kind.PORT, columns, tuple(Component(f"mlx5_{n}/1") for n in range(rows)), 1.0)


async def say(pull, address, node, *messages):
    """Presence of the peer after a stream."""
    await _stream(pull, address, node, iter(messages))
    return pull.register.peers[address].detail


@pytest.fixture
def engine():
    return Engine(Scope.FLEET)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def pull(engine, registry):
    return Pull(PullConfig(), engine, lambda: NOW, registry=registry)


def test_each_promise_of_the_document_names_its_tests():
    section = (ROOT / "docs/security.md").read_text().partition("### What is tested\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.M)[2:]
    assert len(rows) >= 10
    for promise, named in rows:
        tests = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", named)
        assert tests, promise
        for path, name in tests:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.M), (path, name)


async def test_names_without_a_frame_are_few(pull):
    details = [await say(pull, "a:1", "first", hello(f"name-{n}", ports("state"))) for n in range(4)]
    assert "under which no frame came" not in "".join(details[:2])
    assert "under which no frame came" in details[2]


async def test_columns_of_a_newer_agent_are_shown_once(pull, log):
    for _ in range(2):
        await say(pull, "a:1", "n1", hello("n1", ports("state", "newer_one", "newer_two")))
    assert pull.warnings() == ["1 nodes send columns that this server does not know and does not keep: n1 (2)"]
    assert log.getvalue().count("columns that this server does not know") == 1
    assert "newer_one, newer_two" in log.getvalue()
    pull.register.drop(pull.register.peers["a:1"], NOW)
    assert pull.warnings() == []


async def test_guids_that_another_node_reported_first_are_shown(pull):
    port = Component("mlx5_0/1", {"device": "mlx5_0", "port_guid": "0xb001"})
    for node in ("n1", "n2", "n3"):
        await say(pull, f"{node}:1", node, hello(node, Part("infiniband_state", Kind.PORT, ("state",), (port,), 1.0)))
    assert pull.warnings() == ["2 nodes report GUIDs that other nodes reported first: n2, n3"]
    pull.register.drop(pull.register.peers["n3:1"], NOW)
    assert pull.warnings() == ["1 nodes report GUIDs that other nodes reported first: n2"]


async def test_sweeps_of_nodes_that_are_not_named_share_a_bound(pull):
    def sweeping(first):
        return Part("fabric", Kind.PORT, ("state",), sweep(7000, first), 10.0)

    assert "unnamed" not in await say(pull, "a:1", "a", hello("a", sweeping(0)))
    assert "unnamed" not in await say(pull, "b:1", "b", hello("b", sweeping(0)))
    assert "ports that all nodes together sweep" in await say(pull, "c:1", "c", hello("c", sweeping(0)))
    assert "new swept ports" in await say(
        pull, "a:1", "a", hello("a", sweeping(7000)), hello("a", sweeping(14000)), hello("a", sweeping(21000))
    )


async def test_a_port_that_was_swept_before_is_kept_once(pull, engine):
    """In the next inventory of its node and in that of another sweeper, while its labels are the same."""

    def swept(node):
        (part,) = engine.fleet.nodes[node].inventory.parts
        return {component.name: component for component in part.components}

    def sweeping(rows):
        return Part("fabric", Kind.PORT, ("state",), rows, 10.0)

    await say(pull, "a:1", "a", hello("a", sweeping(sweep(300, 0))))
    first = swept("a")
    moved = Component("leaf-0/7", {**first["leaf-0/7"].labels, "remote_port": "2"})
    await say(pull, "a:1", "a", hello("a", sweeping((*sweep(7, 0), moved, *sweep(300, 8)))))
    await say(pull, "b:1", "b", hello("b", sweeping(sweep(200, 0))))
    again, other = swept("a"), swept("b")
    assert [name for name in again if name not in first or again[name] is not first[name]] == [
        "leaf-0/7", *(f"leaf-4/{n}" for n in range(44, 52))
    ]  # fmt: skip
    assert again["leaf-0/7"] == moved
    assert [name for name in other if other[name] is not again[name]] == ["leaf-0/7"]
    assert list(pull.admission.sweepers) == ["a", "b"]
    await say(pull, "a:1", "a", hello("a", ports("state")))
    assert list(pull.admission.sweepers) == ["b"]


async def test_who_sends_many_large_inventories_is_named(pull, log, registry):
    large = ports("state", rows=1500), Part("infiniband", Kind.PORT, ("state",), tuple(
        Component(f"mlx5_{n}/1", {"role": "x" * 60}) for n in range(1500)), 1.0)  # fmt: skip
    for _ in range(5):
        await say(pull, "a:1", "n1", hello("n1", *large))
    (line,) = [line for line in log.getvalue().splitlines() if "inventories that take turns" in line]
    assert "node=n1" in line
    assert registry.get_sample_value("fabricmon_central_refused_total", {"limit": "turns"}) == 2
