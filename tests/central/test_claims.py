"""What one agent may say of others: nothing."""

import pytest

from fabricmon.central.streams.claims import KEPT, Claims
from fabricmon.central.streams.intake import swept_ports
from fabricmon.model import Component, Identity, Inventory, Kind, Part


def inventory(node, *ports, kind=Kind.PORT):
    """Ports as (name, node GUID, further labels)."""
    rows = tuple(Component(name, {"node_guid": guid, "device": name, **dict(more)}) for name, guid, *more in ports)
    return Inventory(1, Identity(node, "b", "a", "0", 0.0), (Part("fake", kind, ("state",), rows),))


def guids(inv):
    return [c.labels.get("node_guid") for part in inv.parts for c in part.components]


class Heard(dict):
    """When each node was last heard."""

    def __call__(self, node):
        return self.get(node, float("-inf"))


def test_a_guid_is_the_nodes_that_said_it_first():
    claims = Claims(Heard(a=100.0, b=100.0))
    mine = inventory("a", ("mlx5_0", "0x1"), ("mlx5_1", "0x2"))
    assert claims.settle("a", mine, 100.0) is mine
    told = claims.settle("b", inventory("b", ("mlx5_0", "0x1"), ("mlx5_1", "0x3")), 100.0)
    assert guids(told) == [None, "0x3"]
    assert [c.labels["device"] for c in told.parts[0].components] == ["mlx5_0", "mlx5_1"]
    assert claims.disputed == {"b": 1}
    assert claims.settle("a", mine, 100.0) is mine  # who came first is not troubled


@pytest.mark.parametrize("other", ["0011:2233:4455:6677", "0X11223344556677", "1122:3344556677", "0011_2233_4455_6677"])
def test_a_guid_is_the_same_however_it_is_written(other):
    claims = Claims(Heard(a=100.0, b=100.0))
    claims.settle("a", inventory("a", ("mlx5_0", "0x0011223344556677")), 100.0)
    assert guids(claims.settle("b", inventory("b", ("mlx5_0", other)), 100.0)) == [None]


def test_a_reboot_gives_nothing_away_and_a_machine_that_is_gone_keeps_nothing():
    heard = Heard(a=100.0, b=100.0)
    claims = Claims(heard)
    claims.settle("a", inventory("a", ("mlx5_0", "0x1")), 100.0)
    moved = inventory("b", ("mlx5_0", "0x1"))
    assert guids(claims.settle("b", moved, 100.0 + KEPT - 1)) == [None]
    assert claims.freed(100.0 + KEPT - 1) == []
    assert claims.freed(100.0 + KEPT) == ["b"]
    assert claims.settle("b", moved, 100.0 + KEPT) is moved
    assert (claims.disputed, claims.freed(100.0 + KEPT)) == ({}, [])
    heard["a"] = heard["b"] = 800.0  # and the first comes back without it
    assert guids(claims.settle("a", inventory("a", ("mlx5_0", "0x1")), 800.0)) == [None]


def test_an_adapter_that_was_taken_out_or_whose_node_is_no_target_is_anybodys():
    claims = Claims(Heard(a=100.0, b=100.0, c=100.0))
    claims.settle("a", inventory("a", ("mlx5_0", "0x1"), ("mlx5_1", "0x2")), 100.0)
    claims.settle("b", inventory("b", ("mlx5_0", "0x1")), 100.0)
    claims.settle("c", inventory("c", ("mlx5_0", "0x2")), 100.0)
    claims.settle("a", inventory("a", ("mlx5_1", "0x2")), 100.0)
    assert claims.freed(100.0) == ["b"]
    moved = inventory("b", ("mlx5_0", "0x1"))
    assert claims.settle("b", moved, 100.0) is moved
    claims.forget("a")
    assert claims.freed(100.0) == ["c"]


def test_zeros_are_nobodys_and_sweeps_tell_of_others():
    claims = Claims(lambda node: 100.0)
    for node in ("a", "b"):
        zeros = inventory(node, ("mlx5_0", "0x0000000000000000"), ("mlx5_1", "0000:0000:0000:0000"))
        assert claims.settle(node, zeros, 100.0) is zeros
    claims.settle("a", inventory("a", ("mlx5_0", "0x1")), 100.0)
    view = inventory("b", ("leaf-1/3", "0x1", ("swept", "switch")))
    assert claims.settle("b", view, 100.0) is view
    assert (len(swept_ports(view)), len(swept_ports(inventory("a", ("mlx5_0", "0x1"))))) == (1, 0)
