"""A server reduced to what may lose a notification: a scripted engine, the plan, the store, the outbox. To be killed.

`python -m tests.chaos.feed STATE URL SEED STEPS [KEY_FILE]` walks through a script of incidents made from SEED. Its
position in the script is committed with what it committed of it, so a restart goes on exactly where the last
transaction ended, whenever that was. With a key the receiver is a pager.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from msgspec.structs import replace

from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.records import ExpectedNode
from fabricmon.central.store.store import Store
from fabricmon.model import Incident, Severity
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders import pagerduty
from fabricmon.senders.destination import destination
from fabricmon.senders.webhook import WebhookConfig
from fabricmon.units import Duration
from tests.notify.made import T0, due_notifications, incident

# No budget: the script is played faster than time, and each of its notifications must arrive.
NOTIFY = NotifyConfig(retry_min=Duration(0.02), retry_max=Duration(0.2), batch=3, budget=0)
IDS = 8  # incidents of a script
POSITION = 1e10  # later than any clock: the store forgets nodes that were seen long ago


def script(seed: int, steps: int) -> list[list[Incident]]:
    """What the engine would say at each step: the incidents that changed. All of them end, some come back."""
    rng = random.Random(seed)
    world: dict[str, Incident] = {}
    made: list[list[Incident]] = []
    for step in range(steps):
        changed: dict[str, Incident] = {}
        for n in range(IDS):
            id = f"i-{n}"
            old = world.get(id)
            if old is None or old.status == "resolved":
                if rng.random() < (0.3 if old is None else 0.05) and step < steps - 3:
                    changed[id] = incident(
                        id, since=T0 + step, updated=T0 + step, revision=old.revision + 1 if old else 1
                    )
            elif rng.random() < 0.15 or step >= steps - 2:
                changed[id] = replace(
                    old, status="resolved", resolved=T0 + step, updated=T0 + step, revision=old.revision + 1
                )
            elif rng.random() < 0.15 and old.severity is not Severity.CRITICAL:
                changed[id] = replace(old, severity=Severity.CRITICAL, updated=T0 + step, revision=old.revision + 1)
        world |= changed
        made.append(list(changed.values()))
    return made


async def main(state_directory: Path, url: str, seed: int, steps: int, key_file: str = "") -> None:
    store = Store(state_directory, T0)
    state = store.load(T0)
    told, world = LastNotifications(state.notified), {i.id: i for i in state.incidents}
    done = int(state.nodes[0].last_seen - POSITION) if state.nodes else 0
    kind, config = "webhook", WebhookConfig(url, timeout=Duration(2))
    if key_file:
        kind, config = "pagerduty", pagerduty.PagerDutyConfig(routing_key_file=key_file, url=url, timeout=Duration(2))
    dest = destination("ops", kind, config, NOTIFY)
    outbox = Outbox(store, [dest], NOTIFY, state.backlog)
    running = asyncio.create_task(outbox.run())
    for step in range(done, steps):
        changed = script(seed, steps)[step]
        world |= {i.id: i for i in changed}
        notes = due_notifications(world.values(), told, [dest.receiver], [], T0 + step)
        position = ExpectedNode("position", last_seen=POSITION + step + 1)
        queued = await store.commit(incidents=changed, notifications=notes, nodes=[position])
        for note in notes:
            told.add(note)
        outbox.accept([note for note in notes if note.key in queued])
        await asyncio.sleep(0.02)
    while await store.backlog():
        await asyncio.sleep(0.02)
    running.cancel()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
