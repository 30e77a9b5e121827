"""How busy a link is: exact shares by the node's clock, and nothing said where something is unknown."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.port_groups import ADAPTERS
from fabricmon.fleet.utilisation import SOURCES, utilisation
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from tests.fleet.site import Site, port_part

LINE = 50e9
INFINIBAND = ("rate", "xmit", "rcv")
WORDS = [word for word, _, _ in SOURCES]


def after(site, seconds, node, first, then, taken=10.0):
    """Two readings of a node, `seconds` apart by its own clock; the receiver's clock runs as it likes."""
    site.send(node, first, 1000.0)
    site.tick(1.0)
    site.send(node, then, 1000.0 + seconds)
    return utilisation(site.tick(taken))


def cells(name, rate=LINE, **columns):
    return {(name, "rate"): rate, **{(name, column): value for column, value in columns.items()}}


@given(
    sent=st.integers(0, int(10 * LINE)), received=st.integers(0, int(10 * LINE)), start=st.integers(0, 2**50),
    receiver=st.floats(5.0, 20.0),
)  # fmt: skip
def test_the_share_is_bytes_over_what_the_line_carries_in_the_nodes_time(sent, received, start, receiver):
    site = Site()
    site.inventory("h1", port_part("infiniband", INFINIBAND, "mlx5_0/1"))
    got = after(
        site, 10.0, "h1",
        cells("mlx5_0/1", xmit=start, rcv=start),
        cells("mlx5_0/1", xmit=start + sent, rcv=start + received), receiver,
    )  # fmt: skip
    row = site.row("h1", "mlx5_0/1")
    assert got.transmit[row] == pytest.approx(sent / 10 / LINE, abs=1e-12)
    assert got.receive[row] == pytest.approx(received / 10 / LINE, abs=1e-12)
    assert WORDS[got.source[row]] == "port"


@pytest.mark.parametrize(
    "then",
    [{"rate": math.nan}, {"xmit": math.nan}, {"rcv": math.nan}, {"rate": 0.0}],
    ids=["no rate", "sent unknown", "received unknown", "rate of none"],
)
def test_what_is_unknown_has_no_share(then):
    site = Site()
    site.inventory("h1", port_part("infiniband", INFINIBAND, "a/1", "b/1"))
    first = cells("a/1", xmit=0, rcv=0) | cells("b/1", xmit=0, rcv=0)
    moved = cells("a/1", **{"xmit": 5e9, "rcv": 5e9, **then}) | cells("b/1", xmit=5e9, rcv=0)
    got = after(site, 10.0, "h1", first, moved)
    bad, good = site.row("h1", "a/1"), site.row("h1", "b/1")
    assert np.isnan([got.receive[bad], got.transmit[bad]]).all()
    assert (got.receive[good], got.transmit[good]) == (0.0, pytest.approx(0.01))


def test_a_first_reading_a_reboot_and_an_old_reading_have_no_share():
    site = Site()
    part = port_part("infiniband", INFINIBAND, "a/1")
    site.inventory("h1", part)
    site.send("h1", cells("a/1", xmit=1e12, rcv=1e12), 1000.0)
    row = site.row("h1", "a/1")
    assert np.isnan(utilisation(site.tick(1.0)).receive[row])
    site.send("h1", cells("a/1", xmit=2e12, rcv=2e12), 1100.0 - 80)
    assert np.isfinite(utilisation(site.tick(10.0)).receive[row])
    assert np.isnan(utilisation(site.tick(60.0)).receive[row]), "nothing came for a minute"
    site.inventory("h1", part, boot="boot-2")
    site.send("h1", cells("a/1", xmit=3e12, rcv=3e12), 5.0)
    assert np.isnan(utilisation(site.tick(1.0)).receive[row])


def test_the_wire_counts_before_the_port_and_the_port_before_rdma():
    site = Site()
    site.inventory(
        "h1",
        port_part("infiniband", ("rate", "xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes"), "a/1", "b/1", "c/1"),
        port_part("roce", ("phy_tx", "phy_rx"), "a/1", "b/1", "c/1"),
    )

    def reading(k):
        a = cells("a/1", phy_tx=3e9 * k, phy_rx=4e9 * k, xmit=2e9 * k, rcv=2e9 * k)
        b = cells("b/1", phy_tx=math.nan, phy_rx=4e9 * k, xmit=2e9 * k, rcv=1e9 * k)
        c = cells("c/1", phy_tx=math.nan, phy_rx=math.nan, xmit=math.nan, rcv=math.nan,
                  rdma_tx_bytes=1e9 * k, rdma_rx_bytes=0)  # fmt: skip
        return a | b | c

    got = after(site, 10.0, "h1", reading(1), reading(51))
    rows = [site.row("h1", name) for name in ("a/1", "b/1", "c/1")]
    assert [WORDS[got.source[row]] for row in rows] == ["wire", "port", "rdma"]
    assert got.transmit[rows].tolist() == pytest.approx([0.3, 0.2, 0.1])
    assert got.receive[rows].tolist() == pytest.approx([0.4, 0.1, 0.0])


def test_an_interface_without_an_rdma_port_is_measured_by_its_own_speed():
    site = Site()
    site.inventory("h1", port_part("ethernet", ("netdev_rate", "phy_tx", "phy_rx"), "eth0"))
    name = {("eth0", "netdev_rate"): 12.5e9}
    first, then = ({**name, ("eth0", "phy_tx"): v, ("eth0", "phy_rx"): v} for v in (0.0, 62.5e9))
    got = after(site, 10.0, "h1", first, then)
    assert got.transmit[site.row("h1", "eth0")] == pytest.approx(0.5)


def test_a_rail_is_all_its_lines_together_and_says_of_how_many_it_speaks():
    """Half the capacity at 40 % and a slower line at full rate: weighed by what the lines carry."""
    site = Site()
    for node in ("h1", "h2", "h3"):
        labels = {"port": "1", "role": "compute"}
        site.inventory(node, port_part("infiniband", INFINIBAND, "mlx5_0/1", "mlx5_1/1", **labels))
    rates = {"h1": LINE, "h2": LINE / 2, "h3": math.nan}
    sent = {"h1": 0.4 * 10 * LINE, "h2": 10 * LINE / 2, "h3": 7e9}
    for node in rates:
        for taken, share in ((1000.0, 0), (1010.0, 1)):
            site.send(node, cells("mlx5_0/1", rates[node], xmit=sent[node] * share, rcv=0.0)
                      | cells("mlx5_1/1", LINE, xmit=0.0, rcv=0.0), taken)  # fmt: skip
            site.tick(1.0)
    table = site.tick().table
    table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})
    got = utilisation(site.tick())
    first, second = got.rails()
    assert (first.name, first.known, first.of) == ("0", 2, 3)
    assert first.transmit == pytest.approx((0.4 * LINE + LINE / 2) / (1.5 * LINE))
    assert (second.name, second.known, second.of, second.transmit) == ("1", 3, 3, 0.0)
    (tier,) = got.tiers()
    assert (tier.name, tier.known, tier.of) == (ADAPTERS, 5, 6)


def test_rails_are_in_the_order_of_their_numbers():
    site = Site()
    names = [f"mlx5_{n}/1" for n in range(12)]
    site.inventory("h1", port_part("infiniband", INFINIBAND, *names, port="1", role="compute"))
    table = site.tick(1.0).table
    table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})
    assert [rail.name for rail in utilisation(site.tick()).rails()] == [str(n) for n in range(12)]


def test_without_ports_there_is_nothing_to_say():
    got = utilisation(Site().tick())
    assert (got.rails(), got.tiers(), len(got.rate)) == ([], [], 0)


def test_swept_ports_count_in_the_tier_of_their_cable_and_in_no_rail():
    leaf, spine, node = "0x00000000000000a1", "0x00000000000000b1", "0x00000000000000c1"
    graph = Graph(
        {leaf: Switch(leaf, "leaf-1", 0, labels={"unit": "su0", "rail": "0"}), spine: Switch(spine, "spine-1", 1)},
        {node: Adapter(node, "h1", "mlx5_0")},
        (cable(End(leaf, 1), End(node, 1)), cable(End(leaf, 2), End(spine, 1))),
    )
    site = Site()
    ends = {"leaf-1/1": (leaf, "1"), "leaf-1/2": (leaf, "2"), "spine-1/1": (spine, "1")}
    parts = [port_part("infiniband", INFINIBAND, "mlx5_0/1", device="mlx5_0", port="1", node_guid=node)]
    parts += [port_part(f"fabric{n}", INFINIBAND, name, swept="mlx5_0", node_guid=guid, port=port)
              for n, (name, (guid, port)) in enumerate(ends.items())]  # fmt: skip
    site.inventory("h1", *parts)
    sent = {"mlx5_0/1": 0.1, "leaf-1/1": 0.2, "leaf-1/2": 0.3, "spine-1/1": 0.5}
    for taken in (1000.0, 1010.0):
        reading = {}
        for name, share in sent.items():
            reading |= cells(name, xmit=share * LINE * (taken - 1000), rcv=0.0)
        site.send("h1", reading, taken)
        site.tick(1.0)
    table = site.tick().table
    table.domains = assign(graph, list(zip(table.ids, table.labels, strict=True)), {})
    got = utilisation(site.tick())
    (rail,) = got.rails()
    assert (rail.name, rail.transmit, rail.of) == ("su0/0", pytest.approx(0.1), 1)
    assert [(t.name, round(t.transmit, 9), t.of) for t in got.tiers()] == [(ADAPTERS, 0.1, 1), ("0-1", 0.4, 2)]
