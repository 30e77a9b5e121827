"""A node, its agent, a server and a receiver: real processes over loopback that a test kills, stops and starves."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.chaos.node import Node
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for
from tests.rigs.receiver import posts

PATIENCE = 120.0

# The product's own settings, only quicker: what is tested is order and durability, not how long a link must be down.
SETTINGS: dict[str, Any] = {
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
    """The processes "receiver", "agent" and "server"; a context manager that starts them and waits for the first data.

    state    directory of the server's state
    limit    of the time that the receiver has for an answer
    prefix   before the command of a process, by its name
    budget   messages to the receiver in any 5 minutes; 0: no limit
    rules    further limits of rules
    """

    def __init__(
        self,
        folder: Path,
        state: Path | None = None,
        limit: str = "10s",
        prefix: Mapping[str, Sequence[str]] | None = None,
        links: int = 6,
        budget: int = 0,
        rules: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.state = folder, state or folder / "state"
        self.node = Node(folder / "sys", links)
        self.received = folder / "received.jsonl"
        self.agent_port, self.server_port, self.hook_port = free_port(), free_port(), free_port()
        self._prefix = dict(prefix or {})
        config = folder / "fabricmon.yaml"
        address = f"http://127.0.0.1:{self.hook_port}/"
        hook = {"kind": "webhook", "url": address, "timeout": limit, "budget": budget}
        limits = {**SETTINGS["rules"], **(rules or {})}
        config.write_text(yaml.safe_dump({**SETTINGS, "rules": limits, "senders": {"ops": hook}}))
        self.commands: dict[str, list[object]] = {
            "receiver": [sys.executable, "-m", "tests.rigs.receiver", self.hook_port, self.received],
            "agent": [
                *FABRICMON, "agent", "--config", config, "--node", "node-1", "--path.sysfs", folder / "sys",
                "--listen", f"127.0.0.1:{self.agent_port}",
            ],
            "server": [
                *FABRICMON, "central", "--config", config, "--state", self.state,
                "--listen", f"127.0.0.1:{self.server_port}", "--target", f"127.0.0.1:{self.agent_port}",
            ],
        }  # fmt: skip
        self.daemons: dict[str, Daemon] = {}

    def __enter__(self) -> Site:
        for name in self.commands:
            self.start(name)
        self.wait("the receiver", lambda: fetch(f"http://127.0.0.1:{self.hook_port}/") == "")
        self.wait("the node at the server", lambda: self.ask("/api/v1/nodes")["nodes"][0]["presence"] == "live")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for daemon in self.daemons.values():
            daemon.process.send_signal(signal.SIGCONT)
            daemon.process.kill()
            daemon.process.wait()

    def start(self, name: str) -> None:
        self.daemons[name] = Daemon(self.folder / f"{name}.log", self.commands[name], self._prefix.get(name, ()))

    def pid(self, name: str) -> int:
        return self.daemons[name].process.pid

    def end(self, name: str) -> None:
        """Kill -9; it must have been alive: nothing ends by itself."""
        process = self.daemons[name].process
        assert process.poll() is None, f"{name} ended by itself:\n{self.daemons[name].tail()}"
        process.send_signal(signal.SIGKILL)
        process.wait()

    def kill(self, name: str) -> None:
        """Kill -9 and start anew at once."""
        self.end(name)
        self.start(name)

    def told(self) -> dict[str, list[dict[str, Any]]]:
        """Incident id -> its states as a receiver sees them that drops keys it knows."""
        by_key: dict[str, Any] = {}
        for post in posts(self.received):
            key = post["headers"]["Idempotency-Key"]
            assert by_key.setdefault(key, post["body"]) == post["body"], "the same key has the same content"
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

    def wait(self, what: str, look: Callable[[], Any], patience: float = PATIENCE) -> None:
        """Until `look` is true; TimeoutError with the ends of all logs."""

        def alive_and() -> Any:
            ended = [name for name, daemon in self.daemons.items() if daemon.process.poll() is not None]
            if ended:
                raise TimeoutError(f"{', '.join(ended)} ended by itself")
            return look()

        try:
            wait_for(what, alive_and, patience)
        except TimeoutError as error:
            tails = "\n".join(f"--- {name}\n{daemon.tail(2000)}" for name, daemon in self.daemons.items())
            raise TimeoutError(f"{error}\n{tails}") from None

    def ask(self, path: str) -> Any:
        """The server's answer, JSON."""
        return fetch_json(f"http://127.0.0.1:{self.server_port}{path}")

    def text(self, path: str, of: str = "server") -> str:
        port = self.server_port if of == "server" else self.agent_port
        return fetch(f"http://127.0.0.1:{port}{path}")

    def metric(self, name: str, of: str = "server") -> float:
        """The value of a series without labels, or of the only one."""
        lines = [line for line in self.text("/metrics", of).splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        assert len(lines) == 1, lines
        return float(lines[0].rpartition(" ")[2])
