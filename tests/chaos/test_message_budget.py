"""The message budget of a receiver over a kill -9 of the server: real processes over loopback."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fabricmon.engine.diagnosis.diagnose import POLL
from tests.chaos.site import Site
from tests.rigs.receiver import posts

BUDGET = 3


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_killed_server_neither_spends_the_budget_again_nor_forgets_what_waits(tmp_path: Path) -> None:
    """All of it takes less than the five minutes of the budget, so at most three messages may come."""
    with Site(tmp_path, links=12, budget=BUDGET) as site:

        def firing() -> int:
            return len(site.ask("/api/v1/incidents?status=firing")["incidents"])

        def waiting() -> float:
            return site.metric("fabricmon_outbox_withheld_incidents")

        devices = site.node.devices[:8:2]  # neighbours may share a cage: one incident
        for number, device in enumerate(devices, 1):
            time.sleep(POLL + 2)  # what begins within one poll is taken as one fault
            site.node.down(device)
            site.wait(f"incident {number}", lambda number=number: firing() == number)
        site.wait("two messages", lambda: len(posts(site.received)) == BUDGET - 1)
        site.wait("two that wait", lambda: waiting() == 2)
        site.kill("server")
        site.wait("the server", lambda: site.ask("/api/v1/nodes")["nodes"][0]["presence"] == "live")
        assert waiting() == 2
        site.node.up(devices[3])
        site.wait("its end", lambda: firing() == 3)
        assert waiting() == 2, "what ended is sent too"
        keys = [post["headers"]["Idempotency-Key"] for post in posts(site.received)]
        assert len(keys) == len(set(keys)) == BUDGET - 1, "the last message is kept for critical incidents"
