"""What may go from a waiting queue without a receiver missing anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import Notification
from fabricmon.notify.coalesce import superseded
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, due_notifications, incident

OPS = Receiver("ops", repeat=60.0)


def queue(lives: list[list[str]]) -> list[Notification]:
    """The notifications of incidents that live as told, one step a minute; a firing one is repeated at each."""
    told, notes, now = LastNotifications(), list[Notification](), T0
    world = {}
    for step in range(max(map(len, lives), default=0)):
        now += 61.0
        for n, life in enumerate(lives):
            if step < len(life):
                old = world.get(n)
                firing = life[step] == "fire"
                begins = firing and (old is None or old.status != "firing")
                world[n] = replace(
                    old or incident(f"i-{n}"),
                    status="firing" if firing else "resolved",
                    since=now if begins else (old.since if old else now),
                    revision=step + 1,
                )
        for note in due_notifications(world.values(), told, [OPS], [], now):
            told.add(note)
            notes.append(note)
    return notes


def test_of_repeats_only_the_last_is_sent() -> None:
    notes = queue([["fire"] * 5])
    assert len(notes) == 5
    assert superseded(notes) == {n.key for n in notes[:-1]}


def test_an_end_and_the_word_before_it_stay() -> None:
    notes = queue([["fire", "fire", "end", "fire", "end"]])
    assert [n.incidents[0].status for n in notes if n.key not in superseded(notes)] == [
        "firing",
        "resolved",
        "firing",
        "resolved",
    ]


def test_a_batch_stays_while_one_of_its_incidents_is_reported_nowhere_else() -> None:
    a, b = incident("a"), incident("b")
    told = LastNotifications()
    first = due_notifications([a, b], told, [OPS], [], T0)
    told.add(first[0])
    second = due_notifications([a], told, [OPS], [], T0 + 61)
    assert superseded([*first, *second]) == set()


@given(st.lists(st.lists(st.sampled_from(["fire", "end"]), max_size=8), max_size=3))
def test_beginnings_and_ends_of_every_episode_remain(lives: list[list[str]]) -> None:
    notes = queue(lives)
    gone = superseded(notes)

    def episodes(which: list[Notification]) -> dict[str, list[str]]:
        """Each incident's states as a receiver sees them, equal ones in a row taken together."""
        seen: dict[str, list[str]] = {}
        for n in which:
            for i in n.incidents:
                states = seen.setdefault(i.id, [])
                if not states or states[-1] != i.status:
                    states.append(i.status)
        return seen

    left = [n for n in notes if n.key not in gone]
    assert episodes(left) == episodes(notes)
    assert superseded(left) == set()
