"""Incidents at a real Alertmanager: they arrive, change their face, end, and come back after it forgot them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.store import Store
from fabricmon.forms.times import rfc3339
from fabricmon.model import Face, Incident, Severity
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders import alertmanager
from fabricmon.senders.alertmanager import AHEAD, AlertmanagerConfig, alert, alertname, alerts
from fabricmon.senders.attempt import DeliveryOutcome
from fabricmon.senders.destination import destination
from tests.notify.made import T0, due_notifications, incident, note
from tests.rigs.daemons import Daemon, fetch, fetch_json, free_port, wait_for
from tests.rigs.receiver import posts

Require = Callable[..., str]


class Peer:
    """An Alertmanager of our own that tells a webhook receiver of our own."""

    def __init__(self, directory: Path, program: str) -> None:
        self.directory, self.program = directory, program
        self.port, self.hook = free_port(), free_port()
        self.received = directory / "received.jsonl"
        (directory / "alertmanager.yml").write_text(
            json.dumps(
                {
                    "route": {
                        "receiver": "hook",
                        "group_by": ["incident"],
                        "group_wait": "100ms",
                        "group_interval": "200ms",
                        "repeat_interval": "1h",
                    },
                    "receivers": [
                        {
                            "name": "hook",
                            "webhook_configs": [{"url": f"http://127.0.0.1:{self.hook}/", "send_resolved": True}],
                        }
                    ],
                }
            )
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Daemon:
        daemon = Daemon(
            self.directory / "alertmanager.log",
            [
                self.program,
                f"--config.file={self.directory}/alertmanager.yml",
                f"--storage.path={self.directory}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
            ],
        )
        daemon.wait_until("Alertmanager", lambda: fetch(f"{self.url}/-/ready"))
        return daemon

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds as firing."""
        found: list[dict[str, Any]] = fetch_json(f"{self.url}/api/v2/alerts")
        return found

    def told(self) -> list[tuple[str, str, str]]:
        """(status, kind, severity) of every alert it has told the receiver, in order."""
        return [
            (a["status"], a["labels"]["kind"], a["labels"]["severity"])
            for post in posts(self.received)
            for a in post["body"]["alerts"]
        ]


@pytest.fixture
def peer(tmp_path: Path, require: Require) -> Iterator[Peer]:
    made = Peer(tmp_path, require("prometheus-alertmanager", "the real receiver of alerts"))
    hook = Daemon(tmp_path / "hook.log", [sys.executable, "-m", "tests.rigs.receiver", made.hook, made.received])
    with hook:
        hook.wait_until("receiver", lambda: fetch(f"http://127.0.0.1:{made.hook}/") == "")
        yield made


@asynccontextmanager
async def running(store: Store, config: AlertmanagerConfig) -> AsyncIterator[Outbox]:
    outbox = Outbox(store, [destination("am", "alertmanager", config)], NotifyConfig(), {})
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(what: str, look: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_for, what, look, 30.0)


@pytest.mark.peer
async def test_an_incident_arrives_changes_its_face_and_resolves(peer: Peer, tmp_path: Path) -> None:
    store, told = Store(tmp_path / "state"), LastNotifications()
    config = AlertmanagerConfig((peer.url, f"http://127.0.0.1:{free_port()}"), labels={"cluster": "training-1"})
    dest = destination("am", "alertmanager", config)

    async def tick(outbox: Outbox, i: Incident) -> None:
        notes = due_notifications([i], told, [dest.receiver], [], time.time())
        await store.commit(incidents=[i], notifications=notes)
        for n in notes:
            told.add(n)
        outbox.accept(notes)

    now = time.time()
    i = incident(kind="link_down", since=now - 5, updated=now, labels={"fabric": "east", "rack": "r7"})
    with peer.start():
        async with running(store, config) as outbox:
            await tick(outbox, i)
            await until("the alert", lambda: len(peer.alerts()) == 1)
            [held] = await asyncio.to_thread(peer.alerts)
            assert held["labels"] == {
                "alertname": "FabricLinkDown",
                "kind": "link_down",
                "component": i.component,
                "severity": "warning",
                "incident": "i-1",
                "domain": "link",
                "fabric": "east",
                "cluster": "training-1",
            }
            assert held["annotations"]["summary"] == i.title
            assert held["annotations"]["label_rack"] == "r7"
            await until("its telling", lambda: peer.told() == [("firing", "link_down", "warning")])

            worse = replace(i, kind="link_flapping", severity=Severity.CRITICAL, revision=2)
            await tick(outbox, worse)
            await until(
                "the sharper alert in the place of the former",
                lambda: [a["labels"]["alertname"] for a in peer.alerts()] == ["FabricLinkFlapping"],
            )
            await until("its telling", lambda: ("firing", "link_flapping", "critical") in peer.told())
            assert ("resolved", "link_down", "warning") in peer.told()

            await tick(outbox, replace(worse, status="resolved", resolved=time.time(), revision=3))
            await until("no alert any more", lambda: peer.alerts() == [])
            await until("the end's telling", lambda: ("resolved", "link_flapping", "critical") in peer.told())
            assert outbox.deliveries()["am"].sent == 3
    store.close()


@pytest.mark.peer
async def test_an_alertmanager_that_forgot_everything_is_reported_again_what_stands(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertmanager, "REFRESH", 0.2)
    store = Store(tmp_path / "state")
    firing, over = incident("a", since=time.time()), incident("b", since=time.time())
    config = AlertmanagerConfig((peer.url,))
    ended = replace(over, status="resolved", resolved=time.time())
    await store.commit(
        incidents=[firing, over], notifications=[note("k1", firing, over, receiver="am", created=time.time())]
    )
    async with running(store, config) as outbox:
        with peer.start():
            await until("both alerts", lambda: len(peer.alerts()) == 2)
            second = note("k2", ended, receiver="am", created=time.time())
            await store.commit(incidents=[ended], notifications=[second])
            outbox.accept([second])
            await until("one alert", lambda: [a["labels"]["incident"] for a in peer.alerts()] == ["a"])
            await until("its answer", lambda: outbox.deliveries()["am"].sent == 2)
        # It stops and forgets: its data go, as those of a pod without a volume.
        for file in (peer.directory / "data").glob("*"):
            file.unlink()
        with peer.start():
            await until("the alert that stands", lambda: [a["labels"]["incident"] for a in peer.alerts()] == ["a"])
            assert outbox.deliveries()["am"].sent == 2, "as a refresh, not as news"
    store.close()


@pytest.mark.peer
async def test_alertmanagers_own_refusal_is_final(peer: Peer) -> None:
    with peer.start():
        async with aiohttp.ClientSession() as session:
            good = await alertmanager.send(
                session, AlertmanagerConfig((peer.url,)), note("k", incident(since=time.time()))
            )
            assert good.outcome is DeliveryOutcome.DONE
            bad = await alertmanager.send(
                session, AlertmanagerConfig((f"{peer.url}/elsewhere",)), note("k", incident())
            )
            assert bad.outcome is DeliveryOutcome.NEVER
            assert "HTTP 404" in bad.reason


async def test_no_alertmanager_reachable_is_tried_again() -> None:
    async with aiohttp.ClientSession() as session:
        config = AlertmanagerConfig((f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"))
        assert (await alertmanager.send(session, config, note("k", incident()))).outcome is DeliveryOutcome.RETRY


def test_identity_holds_while_everything_else_moves() -> None:
    i, config = incident(), AlertmanagerConfig(("http://am:9093",))
    moved = replace(i, confidence=0.2, title="other", labels={"slow": "true"}, parts=("x",), updated=T0 + 9, revision=9)
    one, two = (alerts(config, note("k", x), T0)[0] for x in (i, moved))
    assert one["labels"] == two["labels"]
    assert one["annotations"] != two["annotations"]


def test_a_former_face_is_ended_with_the_request_that_begins_the_new_one() -> None:
    i = incident()
    former = Face("link_down", i.component, i.severity)
    made = alerts(AlertmanagerConfig(("http://am:9093",)), note("k", i, before={"i-1": (former,)}), T0)
    assert [(a["labels"]["alertname"], a["endsAt"]) for a in made] == [
        ("FabricLinkDown", "2027-01-15T08:00:00.000Z"),
        ("FabricLinkFlapping", "2027-01-15T08:04:00.000Z"),
    ]


@given(
    since=st.floats(allow_nan=True, allow_infinity=True), resolved=st.none() | st.floats(0, 2e9), now=st.floats(1, 2e9)
)
def test_every_alert_begins_before_it_ends(since: float, resolved: float | None, now: float) -> None:
    for status in ("firing", "resolved"):
        i = incident(since=since, status=status, resolved=resolved)
        made = alert(AlertmanagerConfig(("http://am:9093",)), i, Face(i.kind, i.component, i.severity), now)
        assert made["startsAt"] is None or made["startsAt"] <= made["endsAt"]
        assert (made["endsAt"] > rfc3339(now)) == (status == "firing" and AHEAD > 0)


def test_alert_names_are_camel_case() -> None:
    assert [alertname(k) for k in ("link_down", "fault_domain", "nic_fault")] == [
        "FabricLinkDown",
        "FabricFaultDomain",
        "FabricNicFault",
    ]


@pytest.mark.parametrize("labels", [{"severity": "x"}, {"a-b": "x"}, {"": "x"}])
def test_static_labels_may_not_break_identity(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="labels"):
        AlertmanagerConfig(("http://am:9093",), labels=labels)
    with pytest.raises(ValueError, match="urls"):
        AlertmanagerConfig(())
