"""Kill -9 of the server between an alert's beginning and its end: nothing is lost, nothing is told under another id.

The server is the one of tests/chaos/feed.py, its receiver is a pager. What it shows at the end is what the script ended
with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.feed import script
from tests.chaos.play import STEPS, Play
from tests.rigs.receiver import posts


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", [1])
def test_an_alert_that_began_ends_under_the_same_key(run: int, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef")
    play = Play(tmp_path, run, key)
    play.to_the_end([("server",)])

    final = {i.id: i for step in script(run, STEPS) for i in step}
    got = posts(play.received)
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
