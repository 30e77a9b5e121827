"""The message budget of a receiver over a kill -9 of the server: real processes over loopback."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fabricmon.engine.diagnosis.diagnose import POLL
from tests.chaos.site import Site
from tests.rigs.receiver import posts

BUDGET = 2


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_killed_server_neither_spends_the_budget_again_nor_forgets_what_waits(tmp_path: Path) -> None:
    """All of it takes less than the five minutes of the budget, so at most two messages may come."""
    with Site(tmp_path, links=12, budget=BUDGET) as site:

        def firing() -> int:
            return len(site.ask("/api/v1/incidents?status=firing")["incidents"])

        def waiting() -> float:
            return site.metric("fabricmon_outbox_withheld_incidents")

        # Neighbours may share a cage, a third link of a host within a minute is the host's, and what begins within one
        # poll is one fault: each would be one incident.
        devices = site.node.devices[:4:2]
        for number, device in enumerate(devices, 1):
            time.sleep(POLL + 2)
            site.node.down(device)
            site.wait(f"incident {number}", lambda number=number: firing() == number)
        site.wait("the first message", lambda: len(posts(site.received)) == BUDGET - 1)
        site.wait("one that waits", lambda: waiting() == 1)
        site.kill("server")
        site.wait("the server", lambda: site.ask("/api/v1/nodes")["nodes"][0]["presence"] == "live")
        assert waiting() == 1
        site.node.up(devices[1])
        site.wait("its end", lambda: firing() == 1)
        assert waiting() == 1, "what ended is sent too"
        keys = [post["headers"]["Idempotency-Key"] for post in posts(site.received)]
        assert len(keys) == len(set(keys)) == BUDGET - 1, "the last message is kept for critical incidents"
