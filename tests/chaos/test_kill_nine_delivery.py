"""Kill -9 of what delivers and of what receives, at random moments: nothing is lost, nothing changes its key.

The script goes on exactly where the last transaction ended (tests/chaos/feed.py), so what must arrive is known
exactly and no assertion depends on time.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fabricmon.central.store.database import FILE
from fabricmon.model import Notification
from tests.chaos.feed import script
from tests.chaos.play import STEPS, Play
from tests.rigs.receiver import posts

RUNS = int(os.environ.get("FABRICMON_CHAOS_RUNS", "6"))


def committed(state: Path) -> dict[str, Notification]:
    """Every notification that a transaction accepted and that was not superseded by a later one, by key."""
    db = sqlite3.connect(state / FILE)
    rows = db.execute("SELECT key, state, body FROM outbox ORDER BY seq").fetchall()
    db.close()
    assert {s for _, s, _ in rows} <= {"sent", "superseded"}, "nothing waits, nothing failed"
    return {key: msgspec.msgpack.decode(body, type=Notification) for key, s, body in rows if s == "sent"}


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", range(RUNS))
def test_nothing_is_lost_and_nothing_changes_its_key(run: int, tmp_path: Path) -> None:
    play = Play(tmp_path, run)
    play.to_the_end((("server",), ("receiver",), ("server", "receiver")))
    assert "damaged" not in play.server_log.read_text()
    expected, got = committed(play.state), posts(play.received)
    keys = [post["headers"]["Idempotency-Key"] for post in got]
    assert set(keys) >= set(expected), "every accepted notification arrived"
    bodies: dict[str, Any] = {}
    for key, post in zip(keys, got, strict=True):
        assert bodies.setdefault(key, post["body"]) == post["body"], "the same key tells the same thing"
    # As a receiver sees it that drops keys it knows: each incident of the script, and its own last word.
    final = {i.id: i for step in script(run, STEPS) for i in step}
    seen: dict[str, list[dict[str, Any]]] = {}
    for body in bodies.values():
        for i in body["incidents"]:
            seen.setdefault(i["id"], []).append(i)
    assert set(seen) == set(final), "no incident lost, none invented"
    for id, words in seen.items():
        assert words[0]["status"] == "firing"
        assert words[-1]["status"] == "resolved"
        assert words[-1]["revision"] == final[id].revision
        revisions = [w["revision"] for w in words]
        assert revisions == sorted(set(revisions)), "in order, and no state told under two keys"
