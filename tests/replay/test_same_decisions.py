"""The same recording gives the same decisions, to the byte, whatever the process."""

import inspect
import json
import os
import subprocess
import sys

import pytest

from fabricmon.engine.engine import Engine
from fabricmon.recording.reading import Recording
from fabricmon.replay import records
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.replay.records import RecordMark
from fabricmon.replay.run import play
from tests.replay.made import recorded

READERS = {"incidents", "symptoms", "topology", "utilisation", "waiting", "open_by_rule", "counters", "nodes",
           "evaluate", "failures", "time_steps", "checked"}
"""Methods of the engine that only return something; `evaluate` is within `tick`."""


@pytest.fixture(scope="module")
def morning(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recording")
    made = recorded(directory)
    return directory, made


def test_every_tick_of_a_bad_morning_is_decided_again_to_the_byte(morning):
    directory, made = morning
    outcome = play(Recording([directory]).items())
    assert outcome.facts.whole
    assert outcome.verification.named == []
    assert outcome.verification.same == outcome.verification.ticks == made.engine.counters()["ticks"]
    assert {e.kind for e in outcome.recorded.episodes} >= {"fault_domain", "link_flapping", "nic_fault"}
    told = {(i.id, i.kind) for i in made.world.changed}
    assert {(e.id, e.kind) for e in outcome.recorded.episodes} <= told
    assert outcome.recorded.notifications["operations"] > 3


def test_all_that_came_in_is_in_the_recording(morning):
    directory, made = morning
    marks = [item.mark for item in Recording([directory]).items()]
    for name in (
        "START", "GRAPH", "INVENTORY", "FRAME", "EVENT", "PRESENCE", "FORGET", "MAINTENANCE", "RECONFIGURE", "PLAN",
        "TICK", "INCIDENT", "SYMPTOM", "END",
    ):  # fmt: skip
        assert RecordMark[name] in marks, name
    assert marks[-1] is RecordMark.END
    assert made.tape.lost() == 0


def test_an_input_of_the_engine_that_is_not_recorded_would_be_missed():
    public = {n for n, f in inspect.getmembers(Engine, inspect.isfunction) if not n.startswith("_")}
    assert public - READERS == set(RecordedEngine.INPUTS)
    for name in RecordedEngine.INPUTS:
        assert name in vars(RecordedEngine), f"{name} is an input and is not recorded"


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_another_hash_seed_decides_the_same(morning, seed):
    directory, _ = morning
    done = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", "replay", str(directory), "--json"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    said = json.loads(done.stdout)
    assert said["decisions"]["different"] == 0
    assert said["decisions"]["same"] == said["decisions"]["ticks"] > 100


def test_asking_the_engine_for_its_incidents_changes_nothing_that_it_decides(tmp_path):
    """The API asks whenever somebody looks; a replay never does."""

    def flap_twice(made):
        world = made.world
        world.break_links([("host-001", 0)])
        world.run(20)
        world.mend([("host-001", 0)])
        world.run(40)
        world.now += 3700.0
        made.engine.incidents()
        made.engine._now = world.now
        made.engine.incidents()
        world.run(20)
        world.break_links([("host-001", 0)])
        world.run(20)

    recorded(tmp_path, flap_twice, hosts=4, units=1)
    assert play(Recording([tmp_path]).items()).verification.named == []


def test_parameters_that_are_no_more_are_left_out_and_named(tmp_path, monkeypatch):
    real = records.plain_params

    def of_another_version(params):
        plain = real(params)
        link_down = {**plain.get("link_down", {}), "patience": 3.0}
        return {**plain, "link_down": link_down, "ether_wind": {"hold": 1.0}}

    monkeypatch.setattr(records, "plain_params", of_another_version)
    recorded(tmp_path, lambda made: made.world.run(5), hosts=2, units=1, params={"link_down": {"hold": "3s"}})
    outcome = play(Recording([tmp_path]).items())
    assert len(outcome.notes) == 2
    assert any("rules.ether_wind" in note for note in outcome.notes)
    assert any("rules.link_down.patience" in note for note in outcome.notes)
    assert outcome.verification.named == []
