"""Recordings for tests: a small fabric in simulated time, recorded by the real recorder into real files."""

from __future__ import annotations

from fabricmon.model import Event, Maintenance
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import silence
from fabricmon.recording.tape import Tape
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.replay.settings import RecordConfig
from tests.engine.conftest import START, World

RECEIVERS = (Receiver("operations"),)


class Made:
    """A world whose engine is recorded below `directory`."""

    def __init__(self, directory, *, run="aaaa", hosts=4, units=2, params=None, **config):
        self.config = RecordConfig(directory=str(directory), **config)
        self.tape = Tape(self.config)
        plan = World(units, hosts, 4, engine=Deaf())
        self.engine = RecordedEngine(self.tape, run, START, plan.graph, params, "test")
        self.engine.planned_by(RECEIVERS, (), START)
        self.world = World(units, hosts, 4, engine=self.engine)

    def close(self, end=True):
        if end:
            self.engine.end(self.world.now)
        self.tape.close()


class Deaf:
    """An engine that hears nothing, for a world of which only the plan is wanted."""

    def __getattr__(self, name):
        from fabricmon.model import Change

        return lambda *_, **__: {"tick": Change(), "failures": ()}.get(name, True)


def bad_morning(made):
    """A leaf lost and back, a flapping cable, a silent host, a reboot, a lost adapter, maintenance and an event."""
    world, engine = made.world, made.engine
    world.run(8, 1.0)
    world.break_links(world.ports(world.hosts[:4], 2))
    world.run(14, 1.0)
    engine.event("host-003", Event(1, world.now, "link", "mlx5_2/1", "lost carrier"), world.now)
    engine.maintenance([Maintenance("m-1", world.now, world.now + 20, ("host-007",))])
    engine.planned_by(RECEIVERS, (silence("s-1", ["kind=link_errors"], START, START + 9e5, "mara"),), world.now)
    world.break_links([("host-007", 1)])
    world.mend(world.ports(world.hosts[:4], 2))
    for _ in range(3):
        world.flap(("host-005", 1))
        world.run(4, 1.0)
    world.silence(["host-006"])
    world.run(45, 1.0)
    world.reboot("host-006")
    world.speak(["host-006"])
    world.lose("host-004", 3)
    engine.reconfigure({"link_down": {"hold": "4s"}}, world.graph, world.now)
    world.run(45, 1.0)
    engine.forget("host-002", world.now)
    world.silent.add("host-002")
    world.run(15, 1.0)


def recorded(directory, play=bad_morning, **options):
    """A finished recording."""
    made = Made(directory, **options)
    play(made)
    made.close()
    return made
