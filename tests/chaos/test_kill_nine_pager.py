"""Kill -9 of the centre between an alert's beginning and its end: nothing is lost, nothing is told under another id.

The centre is the one of tests/chaos/feed.py, its receiver is a pager. What it shows at the end is what the script ended
with.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.feed import script
from tests.chaos.test_kill_nine_delivery import KILLS, STEPS, kill
from tests.rigs.daemons import Daemon, fetch, free_port
from tests.rigs.receiver import posts


@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", [1])
def test_an_alert_that_began_ends_under_the_same_key(run: int, tmp_path: Path) -> None:
    rng = random.Random(run)
    port, file, state = free_port(), tmp_path / "received.jsonl", tmp_path / "state"
    url = f"http://127.0.0.1:{port}/"
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef")

    def receiver() -> Daemon:
        return Daemon(tmp_path / "receiver.log", [sys.executable, "-m", "tests.rigs.receiver", port, file])

    def centre() -> Daemon:
        command = [sys.executable, "-m", "tests.chaos.feed", state, url, run, STEPS, tmp_path / "key"]
        return Daemon(tmp_path / "centre.log", command)

    hook, feed = receiver(), centre()
    try:
        for _ in range(KILLS):
            time.sleep(rng.choice((0.05, 0.4, 0.6, 0.9)) + rng.random() * 0.3)
            if feed.process.poll() is not None:
                break
            kill(feed)
            feed = centre()
        hook.wait_until("receiver", lambda: fetch(url) == "")
        assert feed.process.wait(60) == 0, feed.tail()
    finally:
        for daemon in (hook, feed):
            kill(daemon)

    final = {i.id: i for step in script(run, STEPS) for i in step}
    got = posts(file)
    seen: dict[str, list[dict[str, Any]]] = {}
    for post in got:
        body = post["body"]
        seen.setdefault(body["dedup_key"], []).append(body)
    assert set(seen) == set(final), "no incident lost, and none under another key"
    for id, events in seen.items():
        assert events[0]["event_action"] == "trigger"
        assert events[-1]["event_action"] == "resolve", f"{id} would ring on"
        # The same telling may come twice after a kill, and then it is the same word for word.
        distinct = list(dict.fromkeys(json.dumps(event, sort_keys=True) for event in events))
        actions = [json.loads(event)["event_action"] for event in distinct]
        assert actions.count("resolve") == sum(
            i.id == id and i.status == "resolved" for step in script(run, STEPS) for i in step
        )
