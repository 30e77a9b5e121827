"""Plays random scenarios against the server's engine with its defaults, and scores what one receiver gets."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fabricmon.adversary.composite import POLL, Composite, compose
from fabricmon.adversary.delivery import AgentDelivery
from fabricmon.adversary.names import PartNames
from fabricmon.adversary.readings import Shown
from fabricmon.adversary.scene import Play, PlayedFabric
from fabricmon.adversary.score import CompositeScore, SeenVersion, SentMessage, score
from fabricmon.adversary.truth import truth_of
from fabricmon.engine import Engine
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Maintenance, Notification
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.rules.rule import Scope
from fabricmon.senders.routing import Paced
from fabricmon.sim.scenarios.run import RECEIVER, Log
from fabricmon.sim.scenarios.stage import START

DELIVERED = Paced().receiver("delivered", NotifyConfig(), repeats_itself=False, acknowledged=False)
"""A receiver of the default configuration: a budget of messages, and rises of one incident that join."""


class RandomScore(CompositeScore, frozen=True, kw_only=True):
    """The score of what a receiver of the default configuration got. `unlimited`: of one without a budget."""

    unlimited: CompositeScore


def run_random(seed: int, number: int, stress: str = "", most: int = 2000) -> RandomScore:
    """Compose, play and score one scenario; always the same for the same arguments."""
    return run_composite(compose(seed, number, stress, most))


def run_composite(composite: Composite) -> RandomScore:
    """Play a composite with and without its faults, the former against an engine, and score it."""
    scene, without = composite.scene(), composite.scene()
    acts = [*composite.noise.acts, *(act for fault in composite.faults for act in fault.course.acts)]
    plays = Play(scene, acts, True), Play(without, acts, False)
    engine = Engine(Scope.FLEET, composite.map.graph, fabric=f"random-{composite.number}")
    engine.maintenance(_windows(composite))
    log, delivery = Log(engine, 0.0, (DELIVERED, RECEIVER)), AgentDelivery(composite, scene)
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
    truth = truth_of(composite, shown, PartNames(composite.fabric, scene.transit))
    versions = [SeenVersion(version.at, version.incident) for version in log.versions]
    scores = [
        score(
            truth, versions, _sent(log.notes, receiver), seed=composite.seed, number=composite.number,
            stress=composite.stress, shape=composite.fabric.shape, hosts=len(composite.fabric.layout.hosts),
            lookalikes=composite.noise.lookalikes,
        ) for receiver in (DELIVERED, RECEIVER)
    ]  # fmt: skip
    return RandomScore(**msgspec.structs.asdict(scores[0]), unlimited=scores[1])


def _sent(notes: Iterable[Notification], receiver: Receiver) -> list[SentMessage]:
    mine = (note for note in notes if note.receiver == receiver.name)
    return [SentMessage(note.created - START, note.reason, note.incidents) for note in mine]


def _windows(composite: Composite) -> list[Maintenance]:
    return [
        Maintenance(f"window-{at}", START + begins, START + ends, hosts, components)
        for at, (hosts, components, begins, ends) in enumerate(composite.noise.announced)
    ]


def _running(scene: PlayedFabric, now: float) -> tuple[Job, ...]:
    jobs = scene.world.traffic.jobs
    return tuple(Job(job.name, "", "", job.hosts, started=START + job.starts) for job in jobs if job.running(now))
