"""Each input of the corpus does what its name says: it is read, or refused for the reason that is listed here; what
agents say reaches the state that it is there for."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fabricmon import frame
from fabricmon.central.streams.pull import Pull
from fabricmon.engine.engine import Engine
from fabricmon.fleet.downs import MOST
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import Tracks
from fabricmon.frame import Goodbye
from fabricmon.model import Event, Inventory, Kind
from fabricmon.replay import records
from fabricmon.runtime import logs
from tests.fuzz import agent
from tests.fuzz.__main__ import CORPUS, Silent
from tests.fuzz.agent_corpus import FILES, data_of
from tests.fuzz.readers import READERS

REFUSED = {
    "archive/not_utf8": "can't decode byte",
    "configuration/tag_0": "agent.node",
    "configuration/tag_1": "agent.node",
    "configuration/tag_2": "agent.node",
    "configuration/tag_3": "agent.node",
    "configuration/tag_4": "month must be in",
    "duration/digits": "expected a duration",
    "evaluator/depth": "not an answer of a Prometheus API",
    "host-list/long_name_with_a_range": "names of the whole file are too many",
    "manifest/depth": "nested too deep",
    "neighbours/depth": "nested too deep",
    "recorded-block/node_is_no_text": "node of a record is no text",
    "slurm-nodes-json/errors_are_a_number": "5",
    "targets-yaml/tag_0": "not YAML",
    "targets-yaml/tag_1": "not YAML",
    "targets-yaml/tag_2": "not YAML",
    "targets-yaml/tag_3": "not YAML",
    "targets-yaml/tag_4": "month must be in",
    "topology-slurm/names_times_names": "no SwitchName or BlockName line",
    "topology-slurm/one_host_below_all": "at most 49151 are read",
    "topology-topograph/alias_of_itself": "alias 'a' stands for nothing before it",
    "topology-torus-2qos/digits_of_a_size": "no line `torus X Y Z`",
    "yaml/alias_of_itself": "alias 'a' stands for nothing before it",
    "yaml/depth": "64 levels",
    "yaml/tag_0": "x",
    "yaml/tag_1": "index out of range",
    "yaml/tag_2": "ScalarNode",
    "yaml/tag_3": "groupdict",
    "yaml/tag_4": "month must be in",
}
"""Inputs that their reader refuses, and words of its error; every other one is read."""


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logs.configure(level="error", stream=Silent())


def outcome(name: str, data: bytes) -> str:
    """What the reader's documented error says, "" where it read the input."""
    try:
        READERS[name].read(data)
    except READERS[name].error as error:
        return str(error) or type(error).__name__
    return ""


@pytest.mark.parametrize("name", READERS)
def test_each_input_is_read_or_refused_for_its_reason(name: str) -> None:
    for path in sorted((CORPUS / name).iterdir()):
        said, words = outcome(name, path.read_bytes()), REFUSED.get(f"{name}/{path.name}")
        assert re.search(re.escape(words), said) if words else said == "", (path.name, said)


def test_no_input_is_listed_that_is_gone() -> None:
    assert [name for name in REFUSED if not (CORPUS / name).exists()] == []


def test_messages_and_frames_are_what_their_names_say() -> None:
    kinds = {"inventory": Inventory, "event": Event, "goodbye": Goodbye}
    for path in (CORPUS / "message").iterdir():
        assert isinstance(frame.decode_text(path.read_text()), kinds[path.name])
    forms = {path.name: frame.decode(path.read_bytes()).index is None for path in (CORPUS / "frame").iterdir()}
    assert forms == {"full": True, "difference": False}
    for path in (CORPUS / "recorded-record").iterdir():
        assert records.RecordMark(path.read_bytes()[0]).name.lower() == path.name


# --- what agents say

Reached = Callable[[Engine, Pull], bool]


def ports_of(engine: Engine) -> Iterator[tuple[Table, Tracks, int]]:
    """The agent's ports: table, state, row."""
    table = engine.fleet.tables[Kind.PORT]
    assert isinstance(table.tracks, Tracks)
    for row, component in enumerate(table.ids):
        if component.node == "bad-0":
            yield table, table.tracks, row


def kinds_of(engine: Engine) -> set[Kind]:
    return {kind for kind, rows in engine.fleet.nodes["bad-0"].rows.items() if any(rows)}


def column(engine: Engine, name: str, row: int) -> float:
    return float(engine.fleet.tables[Kind.PORT].value(name)[row])


REACHED: dict[str, Reached] = {
    "a_counter_of_downs_that_leaps": lambda engine, _: any(
        tracks.downs.count[:, row].max() == MOST for _, tracks, row in ports_of(engine)),
    "differences": lambda engine, pull: any(
        column(engine, "state", row) == -1.0 and column(engine, "phys_state", row) == 5.0
        for *_, row in ports_of(engine)),
    "rows_of_links_devices_and_flows": lambda engine, _: kinds_of(engine) >= {
        Kind.PORT, Kind.NVLINK, Kind.PCIE, Kind.FLOW},
    "rows_of_gpus_and_the_node": lambda engine, _: (
        Kind.GPU in kinds_of(engine) and "node_hcas_found" in engine.fleet.tables[Kind.NODE].columns),
    "names_that_come_and_go": lambda engine, _: {
        (table.ids[row].name, bool(table.present[row])) for table, _, row in ports_of(engine)
    } == {("mlx5_0/1", True), ("mlx5_1/1", False), ("eth0", False)},
    "a_boot_between_two_streams": lambda engine, _: math.isfinite(engine.fleet.nodes["bad-0"].booted),
    "kernel_events": lambda engine, _: {
        event.kind for component, event in engine._nodes.events.items() if component.node == "bad-0"
    } == {"link", "xid", "sxid"},
    "raw_and_unknown_columns": lambda _, pull: (
        pull.admission.columns.raw == 2 and pull.admission.columns.unknown == {"bad-0": ("unknown",)}),
    "a_sweep": lambda _, pull: list(pull.admission.sweepers) == ["bad-0"],
    "a_port_of_too_many_digits": lambda _, pull: "the port 9999999" in pull.register.peers["bad:1"].detail,
    "values_that_no_counter_has": lambda engine, _: any(
        np.isnan(column(engine, "link_downed", row)) and column(engine, "rate", row) == 50e9
        for *_, row in ports_of(engine)),
    "a_read_at_no_time": lambda _, pull: "after the start of its node" in pull.register.peers["bad:1"].detail,
}  # fmt: skip
"""File of the corpus of `agent` -> whether what it is there for has come about."""


@pytest.mark.parametrize("name", FILES)
def test_what_an_agent_says_reaches_what_it_is_there_for(name: str) -> None:
    seen = []
    data = (CORPUS / "agent" / name).read_bytes()
    asyncio.run(agent.attack_now(data, lambda engine, pull: seen.append(REACHED[name](engine, pull))))
    assert any(seen)


def test_the_corpus_of_agents_is_what_is_written_down() -> None:
    assert {path.name: path.read_bytes() for path in (CORPUS / "agent").iterdir()} == {
        name: data_of(chosen) for name, chosen in FILES.items()
    }, "python -m tests.fuzz.agent_corpus"
    assert FILES.keys() == REACHED.keys()


def test_the_numbers_of_choices_do_not_depend_on_the_catalogue() -> None:
    """What files of the corpus choose stands in lists of its own; the catalogue is chosen from behind them."""
    assert len(agent.COLUMNS) < 256
    chosen = {one for parts in FILES.values() for one in parts if isinstance(one, str)}
    assert not chosen & set(agent.EVERY) - set(agent.COLUMNS)
    choose = agent.Choices(bytes([len(agent.COLUMNS)]) + len(agent.EVERY[:-1]).to_bytes(2, "big"))
    assert agent._column(choose) == agent.EVERY[-1]
