"""Kill -9 of server, agent and receiver at random moments while links go down and come back.

No incident is lost, none is told under two ids, every telling that is repeated has its key, and nothing that a kill
left behind blocks a restart. Moments are random; the outcome may not depend on them, so no assertion depends on
time.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path

import pytest

from tests.chaos.site import Site

RUNS = int(os.environ.get("FABRICMON_CHAOS_RUNS", "4"))


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", range(RUNS))
def test_no_incident_is_lost_and_none_has_two_ids(run: int, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        play(random.Random(run), site)


def play(rng: random.Random, site: Site) -> None:
    def trouble() -> None:
        for _ in range(rng.randint(1, 2)):
            time.sleep(rng.random())
            site.kill(rng.choice(list(site.commands)))

    links = rng.sample(site.node.devices, 2)
    for device in links:
        site.node.down(device)
        trouble()
    for device in links:
        site.wait(f"{device} told as firing", lambda device=device: site.told_firing(device))
    for device in links:
        site.node.up(device)
        trouble()
    site.wait("every end told", site.all_over)
    site.wait(
        "the server to agree",
        lambda: site.ask("/api/v1/incidents?status=firing")["incidents"] == [] and site.all_over(),
    )

    told = site.told()
    ids: dict[str, set[str]] = {}
    for id, words in told.items():
        assert words[0]["status"] == "firing", "an end is never the first word"
        for before, after in itertools.pairwise(words):
            assert (before["status"], before["revision"]) != (after["status"], after["revision"]), "told twice"
        for word in words:
            ids.setdefault(f"{word['kind']} {word['component']}", set()).add(id)
    assert all(len(known) == 1 for known in ids.values()), f"one thing, one id: {ids}"
    assert "damaged" not in (site.folder / "server.log").read_text()
