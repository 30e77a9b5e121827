"""The fabric collector: rows, labels and units; what a walk, a cut and a lost port do to them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import msgspec
import pytest

from fabricmon.catalogue import CATALOGUE
from fabricmon.collect import COLLECTORS
from fabricmon.collect.fabric_session import FabricSession
from fabricmon.fabric.subnet import At
from fabricmon.fabric.transport import TransportError
from fabricmon.host.archive import FORMAT, VERSION, Archive
from fabricmon.host.protocol import HostError
from fabricmon.host.recorded import RecordedHost
from fabricmon.model import ComponentId, Kind, Reading
from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology import swept
from fabricmon.units import Duration
from tests.fabric.played import Played

fabric = COLLECTORS["fabric"]

PLAN = rail_fabric(nodes=4, rails=2, unit=2, spines=2, parallel=2)


class Host:
    """A host with one management port into a played fabric."""

    def __init__(self, played: Played) -> None:
        self.played, self.now, self.opened = played, 1000.0, 0

    def monotonic(self) -> float:
        return self.now

    def fabric_port(self, device: str = "", port: int = 0) -> Played:
        self.opened += 1
        return self.played


@pytest.fixture
def played() -> Played:
    return Played(PLAN)


@pytest.fixture
def host(played: Played) -> Host:
    return Host(played)


def session_of(host: Host, **settings: object) -> FabricSession:
    config = msgspec.structs.replace(fabric.config(enabled=True), **settings)
    (session,) = fabric.open(host, config).sessions().values()  # type: ignore[arg-type]
    return session


def rows(reading: Reading) -> dict[str, dict[str, float]]:
    """Row name -> column -> value, of all parts."""
    found: dict[str, dict[str, float]] = {}
    base = 0
    for part in reading.parts:
        for component in part.components:
            values = reading.values[base : base + len(part.columns)]
            found.setdefault(component.name, {}).update(zip(part.columns, values, strict=True))
            base += len(part.columns)
    assert base == len(reading.values)
    return found


def name_of(played: Played, at: At) -> str:
    return f"{PLAN.name(f'0x{at.node:016x}')}/{at.port}"


def test_it_is_off_unless_asked_for_and_no_part_of_a_quick_look() -> None:
    assert not fabric.config().enabled
    assert fabric.wide


def test_every_end_of_every_cable_is_a_row_in_exported_units(played: Played, host: Host) -> None:
    at = At(*next(iter(played.far)))
    played.counters[at] = {"port_xmit_data": 10, "symbol_error": 3, "unicast_xmit_packets": 7, "port_rcv_errors": 2,
                           "local_physical_errors": 1}  # fmt: skip
    reading = session_of(host).read()
    table = rows(reading)
    assert sorted(table) == sorted(name_of(played, at) for at in played.far)
    row = table[name_of(played, at)]
    assert row["xmit"] == 40  # bytes of 4-byte words
    assert row["symbol_errors"] == 3
    assert row["unicast_xmit_packets"] == 7
    assert row["rcv_local_physical_errors"] == 1
    assert (row["state"], row["phys_state"], row["width"], row["rate"]) == (4, 5, 4, 50e9)
    assert {c for part in reading.parts for c in part.columns} <= CATALOGUE.keys()
    assert [part.wire for part in reading.parts] == [True, False]
    assert reading.queries > 2 * len(table)
    assert not reading.faults


def test_the_labels_draw_the_fabric(host: Host) -> None:
    reading = session_of(host).read()
    told = [(ComponentId(Kind.PORT, "sweeper", c.name), c.labels) for c in reading.parts[0].components]
    graph = swept.graph_of(told)
    assert graph is not None
    assert {s.id: (s.name, s.level) for s in graph.switches.values()} == {
        s.id: (s.name, s.level) for s in PLAN.switches.values()
    }
    assert {a.id: (a.host, a.name) for a in graph.adapters.values()} == {
        a.id: (a.host, a.name) for a in PLAN.adapters.values()
    }
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in PLAN.cables}
    assert not graph.findings
    twice = swept.graph_of([*told, *((ComponentId(Kind.PORT, "other", c.name), labels) for c, labels in told)])
    assert twice is not None
    assert not twice.findings  # two agents that sweep one subnet do not contradict each other
    assert len(twice.cables) == len(graph.cables)


def test_the_shape_stands_until_the_fabric_changes(played: Played, host: Host) -> None:
    session = session_of(host)
    first = session.read()
    host.now += 30
    assert session.read().parts is first.parts
    host.now += 300  # walked anew, with the same result
    assert session.read().parts is first.parts
    assert host.opened == 1


def test_a_cut_cable_keeps_both_its_rows(played: Played, host: Host) -> None:
    session = session_of(host)
    first = session.read()
    at = next(at for at, far in played.far.items() if at.node in played.switches and far.node in played.adapters
              and far != played.origin)  # fmt: skip
    near, far = name_of(played, at), name_of(played, played.far[at])
    played.pull(at)
    for later in (30, 300):
        host.now += later
        reading = session.read()
        assert reading.parts is first.parts
        table = rows(reading)
        assert (table[near]["state"], table[far]["state"]) == (1, 1)
        assert math.isnan(table[far]["symbol_errors"])
        assert table[near]["symbol_errors"] == 0
    labels = {c.name: c.labels for c in reading.parts[0].components}
    assert (labels[near]["remote"], labels[far]["remote"]) == (far, near)


def test_a_link_that_comes_back_is_looked_at_anew(played: Played, host: Host) -> None:
    session = session_of(host)
    session.read()
    at = next(at for at in played.far if at.node in played.switches and played.far[at] != played.origin)
    far = played.far[at]
    played.pull(at)
    host.now += 30
    session.read()
    played.cut.clear()
    if far.node in played.switches:
        pytest.skip("the first cable of a switch is an adapter's")
    # meanwhile somebody has changed the adapter
    new = At(far.node + 0x100000, 1)
    played.adapters[new.node] = msgspec.structs.replace(played.adapters[far.node], description="spare mlx5_0")
    played.lid[new.node] = 5000
    played.guid[5000] = new.node
    played.far[at], played.far[new] = new, at
    del played.far[far]
    host.now += 30
    session.read()
    host.now += 30
    labels = {c.name: c.labels for c in session.read().parts[0].components}
    assert labels[name_of(played, at)]["remote"] == "spare/mlx5_0/1"


def test_lids_that_a_new_subnet_manager_gave_are_learned_before_anything_is_read(played: Played, host: Host) -> None:
    at = sorted(played.far)[3]
    played.counters[at] = {"symbol_error": 7}
    session = session_of(host)
    session.read()
    played.lid = {guid: 5000 - lid for guid, lid in played.lid.items()}
    played.guid = {lid: guid for guid, lid in played.lid.items()}
    host.now += 30
    table = rows(session.read())
    assert {name: row["symbol_errors"] for name, row in table.items() if row["symbol_errors"]} == {
        name_of(played, at): 7
    }


def test_silent_nodes_are_reported(played: Played, host: Host) -> None:
    session = session_of(host)
    session.read()
    dead = next(guid for guid, s in played.switches.items() if s.level == 1)
    played.dead.add(dead)
    host.now += 30
    reading = session.read()
    assert [(f.component, f.error) for f in reading.faults] == [(played.switches[dead].name, "does not answer")]
    host.now += 30  # walked anew: it is known to be out of reach now
    assert {f.component for f in session.read().faults} <= {played.switches[dead].name}


def test_nodes_of_one_name_have_rows_of_their_own() -> None:
    played = Played(PLAN)
    for guid, adapter in played.adapters.items():
        played.adapters[guid] = msgspec.structs.replace(adapter, description="localhost mlx5_0")
    reading = session_of(Host(played)).read()
    assert len(rows(reading)) == len(played.far)


def test_a_port_that_fails_is_opened_anew(played: Played, host: Host) -> None:
    session = session_of(host)
    session.read()
    send = played.send

    def broken(*_: object) -> None:
        raise TransportError(19, "no such device")

    played.send = broken  # type: ignore[method-assign]
    with pytest.raises(HostError, match="no such device"):
        session.read()
    assert played.closed
    played.send = send  # type: ignore[method-assign]
    assert rows(session.read())
    assert host.opened == 2


def test_a_recorded_host_has_no_fabric_around_it() -> None:
    recorded = RecordedHost(Archive(FORMAT, VERSION, "", "host", 0.0, 0.0))
    host = SimpleNamespace(fabric_port=recorded.fabric_port, monotonic=lambda: 0.0)
    with pytest.raises(HostError, match="recorded"):
        session_of(host).read()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"window": 0}, {"window": 17}, {"tries": 0}, {"timeout": Duration(13)}, {"timeout": Duration(0)}]
)
def test_settings_out_of_range(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        fabric.config(**settings)  # type: ignore[arg-type]
