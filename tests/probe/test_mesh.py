"""Probes by hand: who probes whom, and what results mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.cli import main
from fabricmon.commands.table import parser_of
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.probe import mesh
from fabricmon.probe.assignment import WHOLE, Assignment, FlowResult, decode, encode
from fabricmon.probe.mesh import PortPair, WantedEnd
from fabricmon.probe.packet import SIZE
from fabricmon.probe.plan import ProbePort

NONCE = "ab" * 16


def ports(nodes: int, rails: int) -> dict[str, list[ProbePort]]:
    return {
        f"n{n}": [ProbePort(f"n{n}", f"mlx5_{rail}/1", f"10.{rail}.0.{n + 1}", 9795) for rail in range(rails)]
        for n in range(nodes)
    }


@given(st.integers(2, 40), st.integers(1, 8), st.integers(1, 8))
def test_every_port_probes_and_is_probed_within_what_an_agent_accepts(nodes, rails, paths):
    have = ports(nodes, rails)
    pairs, missing = mesh.pairs_of([WantedEnd(node) for node in have], have)
    assert missing == []
    degree = min(nodes - 1, mesh.NEIGHBOURS)
    every = [port for mine in have.values() for port in mine]
    assert {sum(pair.source == port for pair in pairs) for port in every} == {degree}
    assert {sum(pair.target == port for pair in pairs) for port in every} == {degree}
    assert all(pair.source.name == pair.target.name and pair.source.node != pair.target.node for pair in pairs)
    if degree * (paths + 1) <= 64:
        for asking in (False, True):
            sent = mesh.assignments(pairs, paths, 4000, asking)
            for mine in sent.values():
                found = decode(encode(Assignment(1, 60.0, NONCE, ports=mine, reply=True)))
                assert sum(len(port.targets) for port in found.ports or ()) == asking * rails * degree * (paths + 1)
                assert all(len(port.askers) == degree for port in found.ports or ())


def test_two_adapters_are_a_pair_whatever_their_names():
    pairs, missing = mesh.pairs_of([WantedEnd("n0", "mlx5_0"), WantedEnd("n1", "mlx5_3/1")], ports(2, 4))
    assert [(pair.source.full_name, pair.target.full_name) for pair in pairs] == [
        ("n0/mlx5_0/1", "n1/mlx5_3/1"), ("n1/mlx5_3/1", "n0/mlx5_0/1"),
    ]  # fmt: skip
    assert missing == []


def test_what_cannot_be_probed_is_named():
    have = ports(2, 2) | {"n2": []}
    have["n1"].pop()
    pairs, missing = mesh.pairs_of([WantedEnd("n0"), WantedEnd("n1"), WantedEnd("n2"), WantedEnd("n1", "mlx5_9")], have)
    assert len(pairs) == 2
    assert [line.partition(":")[0] for line in missing] == ["n2", "n1", "n0/mlx5_1/1"]
    assert "there are mlx5_0/1" in missing[1]


def test_ports_of_an_inventory_are_those_that_answer():
    rows = (Component("mlx5_0/1", {"role": "compute"}), Component("mlx5_1/1", {"role": "storage"}))
    answers = {"mlx5_0/1": "10.0.0.1:9795", "x": "10.0.0.2:a"}
    offers = tuple(Component(name, {"probe_address": where}) for name, where in answers.items())
    parts = (Part("ib", Kind.PORT, (), rows, 1.0), Part("flow", Kind.PORT, (), offers, 10.0))
    found = mesh.ports_of(Inventory(1, Identity("n0", "b", "a", "1", 0.0), parts))
    assert found == [ProbePort("n0", "mlx5_0/1", "10.0.0.1", 9795, network="compute")]


A, B = ports(2, 1)["n0"][0], ports(2, 1)["n1"][0]
PAIR = [PortPair(A, B)]


def flow(n: int, sent: int = 100, lost: int = 0, **other) -> FlowResult:
    """Flow number n of A to B; the last of an assignment is the large one."""
    target = mesh.assignments(PAIR, 4, 0, True)["n0"][0].targets[n]
    values = {"late": 0, "rtt": (1e-5, 2e-5, 3e-5), "own": 1e-4, "peer": 1e-4, "dscp": 0, "clock": "kernel"} | other
    packet = 9000 if target.size == WHOLE else SIZE + 28
    return FlowResult("mlx5_0/1", target, sent, lost, packet=packet, **values)


@pytest.mark.parametrize(
    ("flows", "status", "finding"),
    [
        ([flow(n) for n in range(5)], "pass", ""),
        ([flow(n, lost=100) for n in range(5)], "critical", "no answer to 500 probes"),
        ([flow(n, lost=100 * (n == 2)) for n in range(5)], "critical", "no answer on source port 61002"),
        ([flow(n, lost=100 * (n == 4)) for n in range(5)], "critical", "packets of 9000 bytes"),
        ([flow(n, lost=1) for n in range(5)], "warn", "5 of 500 probes lost"),
        ([flow(n, sent=25_000, lost=n == 1) for n in range(5)], "pass", ""),  # within what a healthy network loses
        ([flow(n, dscp=26) for n in range(5)], "warn", "DSCP 0 arrives as 26"),
        ([flow(n, late=n == 1) for n in range(5)], "warn", "1 of 500 were answered after more than a second"),
        ([flow(n, lost=100, void="the agent was 2 s late") for n in range(5)], "unknown", "the agent was 2 s late"),
        ([flow(n, sent=5, lost=2**60) for n in range(5)], "unknown", "contradict"),
        ([], "unknown", "no probe was sent"),
    ],
)  # fmt: skip
def test_what_results_mean(flows, status, finding):
    (found,) = mesh.pair_results(PAIR, {"n0": flows}, 0)
    assert (found.status, found.source, found.target) == (status, "n0/mlx5_0/1", "n1/mlx5_0/1")
    assert len(found.findings) == bool(finding)
    assert finding in "".join(found.findings)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100), st.integers(0, 100)), max_size=12))
def test_windows_add_up_and_a_loss_is_never_hidden(windows):
    flows = [flow(n, sent=max(a, b), lost=min(a, b)) for n, a, b in windows]
    (found,) = mesh.pair_results(PAIR, {"n0": flows, "n9": flows}, 0)
    assert found.sent == sum(one.sent for one in flows)
    assert found.lost == sum(one.lost for one in flows)
    assert (found.status == "unknown") == (found.sent == 0)
    if found.lost > 3:
        assert found.status != "pass"


def test_a_port_that_nobody_reaches_is_named_once():
    have = ports(4, 1)
    pairs, _ = mesh.pairs_of([WantedEnd(node) for node in have], have)
    sent = mesh.assignments(pairs, 1, 0, True)
    nothing = {"late": 0, "rtt": (None,) * 3, "own": None, "peer": None, "dscp": None, "clock": "kernel"}
    results = {
        node: [
            FlowResult("mlx5_0/1", one, 50, 50 * ("n2" in (node, one.peer[:2])), **nothing)
            for one in sent[node][0].targets
        ]
        for node in sent
    }
    found = mesh.pair_results(pairs, results, 0)
    assert mesh.unreached(found) == ["n2/mlx5_0/1"]
    assert {one.status for one in found} == {"pass", "critical"}
    of_two = [one for one in found if {one.source[:2], one.target[:2]} == {"n0", "n2"}]
    assert mesh.unreached(of_two) == []  # either of them


@pytest.mark.parametrize(
    ("text", "agent", "adapter"),
    [
        ("node-1", "node-1:9790", ""), ("node-1:80/mlx5_0", "node-1:80", "mlx5_0"), ("[::1]/a/1", "[::1]:9790", "a/1"),
        ("https://node-1/mlx5_0/1", "https://node-1:9790", "mlx5_0/1"), ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1", ""),
    ],
)  # fmt: skip
def test_arguments_of_the_command(text, agent, adapter):
    found = parser_of("ping").parse_args(["x", text]).node[1]
    assert (found.agent, found.adapter) == (agent, adapter)


@pytest.mark.parametrize("words", [["a"], ["a", "b", "c"], ["a:b", "c"], ["a", "b", "--dscp", "64"], ["--mesh", "a"],
                                   ["a", "b", "--seconds", "1000"], ["/", "b"]])  # fmt: skip
def test_wrong_arguments(words, capsys):
    try:
        code = main(["ping", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert "expected" in capsys.readouterr().err
