"""Kill -9 of centre, agent and receiver at random moments while links go down and come back.

No incident is lost, none is told under two ids, every telling that is repeated has its key, and nothing that a kill
left behind blocks a restart. Moments are random; the outcome may not depend on them, so no assertion depends on
time.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos.node import Node
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for
from tests.rigs.receiver import posts

RUNS = int(os.environ.get("FABRICMON_CHAOS_RUNS", "4"))
PATIENCE = 60.0

# The product's own settings, only quicker: what is tested is order and durability, not how long a link must be down.
SETTINGS = {
    "collect": {
        "infiniband_state": {"interval": "200ms"},
        "infiniband": {"interval": "1s"},
        "ethernet": {"enabled": False},
    },
    "rules": {"link_down": {"hold": "500ms", "clear": "500ms", "grace": "0s"}},
    "notify": {"retry_min": "50ms", "retry_max": "500ms"},
    "central": {"pull": {"retry_min": "50ms", "retry_max": "300ms"}},
}


class Site:
    """One node, its agent, a centre and a receiver, each a process that may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = Node(folder / "sys", 6)
        self.received = folder / "received.jsonl"
        self.agent_port, self.centre_port, self.hook_port = free_port(), free_port(), free_port()
        config = folder / "fabricmon.yaml"
        config.write_text(yaml.safe_dump(SETTINGS))
        self.commands: dict[str, list[object]] = {
            "receiver": [sys.executable, "-m", "tests.rigs.receiver", self.hook_port, self.received],
            "agent": [
                *FABRICMON, "agent", "--config", config, "--node", "node-1", "--path.sysfs", folder / "sys",
                "--listen", f"127.0.0.1:{self.agent_port}",
            ],
            "centre": [
                *FABRICMON, "central", "--config", config, "--state", folder / "state",
                "--listen", f"127.0.0.1:{self.centre_port}", "--target", f"127.0.0.1:{self.agent_port}",
                "--webhook", f"http://127.0.0.1:{self.hook_port}/",
            ],
        }  # fmt: skip
        self.daemons: dict[str, Daemon] = {}

    def start(self, name: str) -> None:
        self.daemons[name] = Daemon(self.folder / f"{name}.log", self.commands[name])

    def kill(self, name: str) -> None:
        """Kill -9 and start anew at once; it must have been alive: nothing ends by itself."""
        process = self.daemons[name].process
        assert process.poll() is None, f"{name} ended by itself:\n{self.daemons[name].tail()}"
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.start(name)

    def told(self) -> dict[str, list[dict[str, Any]]]:
        """Incident id -> its tellings as a receiver sees them that drops keys it knows."""
        by_key: dict[str, Any] = {}
        for post in posts(self.received):
            key = post["headers"]["Idempotency-Key"]
            assert by_key.setdefault(key, post["body"]) == post["body"], "the same key tells the same thing"
        found: dict[str, list[dict[str, Any]]] = {}
        for body in by_key.values():
            for incident in body["incidents"]:
                found.setdefault(incident["id"], []).append(incident)
        return found

    def told_firing(self, device: str) -> bool:
        return any(
            word["status"] == "firing" and any(device in part for part in (*word["parts"], word["component"]))
            for words in self.told().values()
            for word in words
        )

    def all_over(self) -> bool:
        return all(words[-1]["status"] == "resolved" for words in self.told().values())

    def wait(self, what: str, look: Any) -> None:
        def alive_and() -> Any:
            ended = [name for name, daemon in self.daemons.items() if daemon.process.poll() is not None]
            if ended:
                raise TimeoutError(f"{', '.join(ended)} ended by itself")
            return look()

        try:
            wait_for(what, alive_and, PATIENCE)
        except TimeoutError as error:
            tails = "\n".join(f"--- {name}\n{daemon.tail(2000)}" for name, daemon in self.daemons.items())
            raise TimeoutError(f"{error}\n{tails}") from None

    def centre_says(self, path: str) -> Any:
        return fetch_json(f"http://127.0.0.1:{self.centre_port}{path}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    for name in made.commands:
        made.start(name)
    yield made
    for daemon in made.daemons.values():
        daemon.process.kill()
        daemon.process.wait()


@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", range(RUNS))
def test_no_incident_is_lost_and_none_has_two_ids(run: int, site: Site) -> None:
    rng = random.Random(run)
    site.wait("the receiver", lambda: fetch(f"http://127.0.0.1:{site.hook_port}/") == "")
    site.wait("the node at the centre", lambda: site.centre_says("/api/v1/nodes")["nodes"][0]["presence"] == "live")

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
        "the centre to agree",
        lambda: site.centre_says("/api/v1/incidents?status=firing")["incidents"] == [] and site.all_over(),
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
    assert "damaged" not in (site.folder / "centre.log").read_text()
