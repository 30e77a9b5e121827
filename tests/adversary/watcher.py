"""A watcher that takes in deliveries and diagnoses nothing, and a play of a composite before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabricmon.adversary.composite import POLL, Composite
from fabricmon.adversary.delivery import AgentDelivery
from fabricmon.adversary.names import PartNames
from fabricmon.adversary.readings import Shown
from fabricmon.adversary.scene import Play
from fabricmon.adversary.truth import Truth, truth_of
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Event, Inventory, Presence

WALL = 1.8e9


@dataclass
class BareWatcher:
    """The tables of a fleet, and the events and presences that arrived."""

    fleet: Fleet = field(default_factory=Fleet)
    events: list[tuple[str, Event]] = field(default_factory=list)
    presences: list[tuple[float, str, Presence]] = field(default_factory=list)

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        self.fleet.inventory(node, inventory, now)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        self.presences.append((now - WALL, node, presence))
        self.fleet.presence(node, presence, detail, now)

    def event(self, node: str, event: Event, now: float) -> None:
        self.events.append((node, event))


@dataclass
class Played:
    """A composite that was played to its end."""

    composite: Composite
    truth: Truth
    shown: Shown
    watcher: BareWatcher
    delivery: AgentDelivery


def play(composite: Composite, faults: bool = True) -> Played:
    """Play a composite with a bare watcher; without `faults` in both plays, so that nothing may differ."""
    scene, without = composite.scene(), composite.scene()
    acts = [*composite.noise.acts, *(act for fault in composite.faults for act in fault.course.acts)]
    plays = Play(scene, acts, faults), Play(without, acts, False)
    watcher, delivery = BareWatcher(), AgentDelivery(composite, scene)
    shown = Shown(delivery, without)
    poll = 0.0
    while poll <= composite.end:
        for moment, offset in enumerate(composite.offsets):
            for each in plays:
                each.until(poll + offset)
            delivery.deliver(watcher, poll + offset, moment, WALL + poll + offset)
            shown.compare()
        poll += POLL
    names = PartNames(composite.fabric, scene.transit)
    return Played(composite, truth_of(composite, shown, names), shown, watcher, delivery)
