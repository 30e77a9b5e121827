"""Two and three servers that see one node, started at different times, and a receiver that joins what they send.

Real processes over loopback. The receiver uses the function of docs/webhook.md. No assertion depends on time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos.faults import clock_of
from tests.chaos.site import SETTINGS, Site
from tests.notify.test_two_servers import is_news
from tests.rigs.daemons import FABRICMON, free_port
from tests.rigs.receiver import posts


class Servers(Site):
    """The site's own server is "a"; "b", "c" have their own state and see the same agent."""

    def __init__(self, folder: Path, prefix: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(folder, prefix=prefix)
        self.commands["server"] = self._command("a")

    def _command(self, name: str) -> list[object]:
        hook = {"kind": "webhook", "url": f"http://127.0.0.1:{self.hook_port}/", "budget": 0}
        settings = {**SETTINGS, "senders": {"ops": hook}, "central": {**SETTINGS["central"], "name": name}}
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(settings))
        return [
            *FABRICMON, "central", "--config", config, "--state", self.folder / f"state-{name}",
            "--listen", f"127.0.0.1:{self.server_port if name == 'a' else free_port()}",
            "--target", f"127.0.0.1:{self.agent_port}",
        ]  # fmt: skip

    def start_server(self, name: str) -> None:
        self.commands[name] = self._command(name)
        self.start(name)

    def sent(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Every incident in every notification, with the notification, as the receiver got them; second deliveries of
        one server are left out."""
        known = set()
        for post in posts(self.received):
            body = post["body"]
            if (body["server"], body["key"]) not in known:
                known.add((body["server"], body["key"]))
                yield from ((body, incident) for incident in body["incidents"])

    def states(self, device: str, server: str) -> list[str]:
        """What a server sent about a device."""
        return [i["status"] for body, i in self.sent() if body["server"] == server and device in i["component"]]

    def wait_for_states(self, device: str, *states: str, servers: str) -> None:
        for server in servers:
            self.wait(
                f"{states} of {device} by {server}",
                lambda s=server: self.states(device, s)[-len(states) :] == list(states),
            )


@pytest.mark.timeout(600)
def test_a_receiver_that_joins_by_key_gets_each_state_once(tmp_path: Path) -> None:
    first, second = "mlx5_0", "mlx5_3"
    with Servers(tmp_path) as site:
        site.start_server("b")
        site.wait("b", lambda: "server listening" in (tmp_path / "b.log").read_text())
        site.node.down(first)
        site.wait_for_states(first, "firing", servers="ab")
        site.start_server("c")  # it finds the incident open, and has no state
        site.wait_for_states(first, "firing", servers="abc")
        site.node.down(second)
        site.wait_for_states(second, "firing", servers="abc")
        site.kill("server")
        site.node.up(first)
        site.wait_for_states(first, "firing", "resolved", servers="abc")
        site.node.down(first)
        site.wait_for_states(first, "firing", "resolved", "firing", servers="abc")
        site.end("c")
        del site.daemons["c"]
        for device in (first, second):
            site.node.up(device)
            site.wait_for_states(device, "firing", "resolved", servers="ab")
        sent = list(site.sent())

    assert {body["server"] for body, _ in sent} == {"a", "b", "c"}
    ids = {device: {i["id"] for _, i in sent if device in i["component"]} for device in (first, second)}
    assert all(len(known) == 1 for known in ids.values()), "one thing, one id"
    keys: dict[tuple[str, str], set[str]] = {}
    for _, i in sent:
        keys.setdefault((i["id"], i["status"]), set()).add(i["key"])
    assert all(len(known) == 1 for known in keys.values()), "the same state has one key, on every server, at any time"
    alone: dict[tuple[str, str, str], set[str]] = {}
    for body, i in sent:
        if len(body["incidents"]) == 1:  # no reminder is that late: the minute of the onset tells the episodes apart
            alone.setdefault((i["id"], i["status"], i["since"][:16]), set()).add(body["key"])
    assert all(len(known) <= 2 for known in alone.values()), "one key, or two where it began twice in a minute"

    news, known = is_news(), dict[str, Any]()
    heard = [(i["id"], i["status"]) for _, i in sent if news(known, i)]
    one, other = (next(iter(ids[device])) for device in (first, second))
    assert [status for id, status in heard if id == one] == ["firing", "resolved", "firing", "resolved"]
    assert [status for id, status in heard if id == other] == ["firing", "resolved"]
    assert len(sent) == 6 + 6 + 4, "every server sent all that it saw"


@pytest.mark.timeout(600)
def test_a_fault_that_begins_in_two_minutes_is_joined_by_the_keys_of_its_states(
    tmp_path: Path, require: Callable[..., str]
) -> None:
    require("faketime", "clocks that differ")
    prefix = {"b": clock_of("b", tmp_path)}
    (tmp_path / "b.clock").write_text("+90\n")
    with Servers(tmp_path, prefix) as site:
        site.start_server("b")
        site.wait("b", lambda: "server listening" in (tmp_path / "b.log").read_text())
        site.node.down("mlx5_0")
        site.wait_for_states("mlx5_0", "firing", servers="ab")
        site.node.up("mlx5_0")
        site.wait_for_states("mlx5_0", "firing", "resolved", servers="ab")
        sent = list(site.sent())
    for status in ("firing", "resolved"):
        both = [(body, i) for body, i in sent if i["status"] == status]
        assert {body["server"] for body, _ in both} == {"a", "b"}
        assert len({body["key"] for body, _ in both}) == 2, "the minute of the onset differs"
        assert len({i["key"] for _, i in both}) == 1
    news, known = is_news(), dict[str, Any]()
    assert [i["status"] for _, i in sent if news(known, i)] == ["firing", "resolved"]
