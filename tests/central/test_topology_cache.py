"""The topology of the last start: what is read back is what was kept, for the same files only."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.central import topology_cache
from fabricmon.central.topology_cache import ParsedTopology, TopologyCache, key_of, packed, unpacked
from fabricmon.central.topology_plan import load_plan
from fabricmon.config import Root, TopologyConfig
from fabricmon.sim.dump import write
from fabricmon.sim.shapes.fat_tree import rail_fabric
from fabricmon.topology.graph import Graph

KEY = bytes(range(topology_cache.SIZE))
FABRIC = write(rail_fabric(4, spines=2, parallel=1))


@pytest.fixture
def parsing(tmp_path, monkeypatch):
    """Paths that were parsed."""
    found = []

    def parse_file(path, names, real=sources.parse_file):
        found.append(path)
        return real(path, names)

    monkeypatch.setattr(sources, "parse_file", parse_file)
    monkeypatch.setattr(TopologyCache, "write", TopologyCache._write)  # waits for the disk
    return found


@pytest.fixture
def fabric(tmp_path):
    made = tmp_path / "fabric.txt"
    made.write_text(FABRIC)
    return made


def load(tmp_path, fabric, **topology):
    root = Root(topology=TopologyConfig(file=str(fabric), **topology))
    return load_plan(root, kept=TopologyCache(str(tmp_path / "state")))


def test_the_second_start_parses_nothing_and_has_the_same_plan(tmp_path, fabric, parsing):
    first, second = load(tmp_path, fabric), load(tmp_path, fabric)
    assert parsing == [str(fabric)]
    assert second == first
    assert len(second.graph.adapters) == 32
    kept = tmp_path / "state" / "topology.cache"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_another_file_other_names_or_another_program_are_parsed(tmp_path, fabric, parsing, monkeypatch):
    load(tmp_path, fabric)
    os.utime(fabric, (1.0, 1.0))  # the time is in the graph
    load(tmp_path, fabric)
    fabric.write_text(FABRIC.replace("leaf", "blade"))
    os.utime(fabric, (1.0, 1.0))
    load(tmp_path, fabric)
    names = tmp_path / "names"
    names.write_text("")
    load(tmp_path, fabric, node_names=str(names))
    monkeypatch.setattr(topology_cache, "_program", lambda: b"another")
    load(tmp_path, fabric)
    assert len(parsing) == 5


def test_a_pipe_is_no_file_to_be_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no file"):
        key_of([str(tmp_path / "pipe")])


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"x" * 100), lambda p: p.unlink(), lambda p: p.chmod(0)])
def test_a_damaged_or_missing_cache_costs_only_time(tmp_path, fabric, parsing, damage):
    first = load(tmp_path, fabric)
    damage(tmp_path / "state" / "topology.cache")
    assert load(tmp_path, fabric) == first


def test_where_nothing_can_be_written_the_topology_is_loaded_all_the_same(tmp_path, fabric, parsing):
    (tmp_path / "state").write_text("a file")
    assert load(tmp_path, fabric) == load(tmp_path, fabric)
    assert len(parsing) == 2


@settings(max_examples=60)
@given(st.data())
def test_no_other_key_and_no_changed_byte_is_taken(data):
    whole = packed(ParsedTopology((Graph({}, {}, ()),), Graph({}, {}, (), source="a")), KEY)
    assert unpacked(whole, KEY) == ParsedTopology((Graph({}, {}, ()),), Graph({}, {}, (), source="a"))
    at, to = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    other = whole[:at] + bytes([to]) + whole[at + 1 :]
    assert (unpacked(other, KEY) is None) == (other != whole)
    assert unpacked(whole[: data.draw(st.integers(0, len(whole) - 1))], KEY) is None
    assert unpacked(whole, KEY[::-1]) is None
