"""What one agent may say of others: nothing."""

from fabricmon.central.claims import Claims, swept
from fabricmon.model import Component, Identity, Inventory, Kind, Part


def inventory(node, *ports, kind=Kind.PORT):
    """Ports as (name, node GUID, further labels)."""
    rows = tuple(Component(name, {"node_guid": guid, "device": name, **dict(more)}) for name, guid, *more in ports)
    return Inventory(1, Identity(node, "b", "a", "0", 0.0), (Part("fake", kind, ("state",), rows),))


def guids(inv):
    return [c.labels.get("node_guid") for part in inv.parts for c in part.components]


def test_a_guid_is_the_nodes_that_said_it_first_while_it_is_heard():
    heard = {"a", "b"}
    claims = Claims(heard.__contains__)
    mine = inventory("a", ("mlx5_0", "0x1"), ("mlx5_1", "0x2"))
    assert claims.settle("a", mine) is mine
    told = claims.settle("b", inventory("b", ("mlx5_0", "0x1"), ("mlx5_1", "0x3")))
    assert guids(told) == [None, "0x3"]
    assert [c.labels["device"] for c in told.parts[0].components] == ["mlx5_0", "mlx5_1"]
    assert claims.disputed == {"b": 1}
    assert claims.settle("a", mine) is mine  # who came first is not troubled


def test_an_adapter_that_was_moved_takes_its_guid_along():
    heard = {"a", "b"}
    claims = Claims(heard.__contains__)
    claims.settle("a", inventory("a", ("mlx5_0", "0x1")))
    claims.settle("a", inventory("a"))  # it was taken out
    moved = inventory("b", ("mlx5_0", "0x1"))
    assert claims.settle("b", moved) is moved
    heard.discard("b")  # and that node is switched off, the adapter back in the first
    assert guids(claims.settle("a", inventory("a", ("mlx5_0", "0x1")))) == ["0x1"]
    heard.add("b")
    assert guids(claims.settle("b", moved)) == [None]
    claims.forget("a")
    assert claims.settle("b", moved) is moved
    assert claims.disputed == {}


def test_zeros_are_nobodys_and_sweeps_tell_of_others():
    claims = Claims(lambda node: True)
    for node in ("a", "b"):
        zeros = inventory(node, ("mlx5_0", "0x0000000000000000"), ("mlx5_1", "0000:0000:0000:0000"))
        assert claims.settle(node, zeros) is zeros
    claims.settle("a", inventory("a", ("mlx5_0", "0x1")))
    view = inventory("b", ("leaf-1/3", "0x1", ("swept", "switch")))
    assert claims.settle("b", view) is view
    assert (swept(view), swept(inventory("a", ("mlx5_0", "0x1")))) == (1, 0)
