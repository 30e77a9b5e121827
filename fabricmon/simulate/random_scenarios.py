"""Plays random scenarios against the server's engine with its defaults, and scores what one receiver gets."""

from __future__ import annotations

from fabricmon.adversary.composite import POLL, Composite, compose
from fabricmon.adversary.delivery import AgentDelivery
from fabricmon.adversary.names import PartNames
from fabricmon.adversary.readings import Shown
from fabricmon.adversary.scene import Play, PlayedFabric
from fabricmon.adversary.score import CompositeScore, SeenVersion, SentMessage, score
from fabricmon.adversary.truth import truth_of
from fabricmon.engine import Engine
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Maintenance
from fabricmon.rules.rule import Scope
from fabricmon.sim.scenarios.run import Log
from fabricmon.sim.scenarios.stage import START


def run_random(seed: int, number: int, stress: str = "", most: int = 2000) -> CompositeScore:
    """Compose, play and score one scenario; always the same for the same arguments."""
    return run_composite(compose(seed, number, stress, most))


def run_composite(composite: Composite) -> CompositeScore:
    """Play a composite with and without its faults, the former against an engine, and score it."""
    scene, without = composite.scene(), composite.scene()
    acts = [*composite.noise.acts, *(act for fault in composite.faults for act in fault.course.acts)]
    plays = Play(scene, acts, True), Play(without, acts, False)
    engine = Engine(Scope.FLEET, composite.map.graph, fabric=f"random-{composite.number}")
    engine.maintenance(_windows(composite))
    log, delivery = Log(engine, 0.0), AgentDelivery(composite, scene)
    shown = Shown(delivery, without)
    poll = 0.0
    while poll <= composite.end:
        for moment, offset in enumerate(composite.offsets):
            now = poll + offset
            for play in plays:
                play.until(now)
            if composite.scheduler and moment == 0:
                engine.jobs([Jobs("scheduler", START + now, _running(scene, now))], START + now)
            delivery.deliver(engine, now, moment, START + now)
            shown.compare()
            log.tick(now)
        poll += POLL
    log.finish(poll)
    return score(
        truth_of(composite, shown, PartNames(composite.fabric, scene.transit)),
        [SeenVersion(version.at, version.incident) for version in log.versions],
        [SentMessage(note.created - START, note.reason, note.incidents) for note in log.notes],
        seed=composite.seed, number=composite.number, stress=composite.stress, shape=composite.fabric.shape,
        hosts=len(composite.fabric.layout.hosts), lookalikes=composite.noise.lookalikes,
    )  # fmt: skip


def _windows(composite: Composite) -> list[Maintenance]:
    return [
        Maintenance(f"window-{at}", START + begins, START + ends, hosts, components)
        for at, (hosts, components, begins, ends) in enumerate(composite.noise.announced)
    ]


def _running(scene: PlayedFabric, now: float) -> tuple[Job, ...]:
    jobs = scene.world.traffic.jobs
    return tuple(Job(job.name, "", "", job.hosts, started=START + job.starts) for job in jobs if job.running(now))
