"""What a receiver answered is kept with what it was told: over restarts, and when half of it was told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.records import PENDING, SENT, Ack
from fabricmon.central.store.store import Store
from fabricmon.model import Notification
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders import slack
from fabricmon.senders.destination import destination
from fabricmon.units import Duration
from tests.notify.made import T0, incident
from tests.senders.incidents import LINKS, ended, leaf, telling
from tests.senders.test_slack import Slack

NOTIFY = NotifyConfig(retry_min=Duration(0.02), retry_max=Duration(0.05))


async def deliver(state: Path, config: slack.SlackConfig, *notes: Notification) -> dict[str, str]:
    """A server's life: accept these, deliver all that waits, end. What it keeps of the incident then."""
    store = Store(state, T0)
    outbox = Outbox(store, [destination("ops", "slack", config, NOTIFY, LINKS)], NOTIFY, store.load(T0).backlog)
    running = asyncio.create_task(outbox.run())
    await store.commit(notifications=notes)
    outbox.accept(notes)
    async with asyncio.timeout(60):
        while await store.backlog():
            await asyncio.sleep(0.02)
    running.cancel()
    kept = await store.receipts("ops", ["5f1d6d0f3c2b9a47", "b"])
    store.close()
    return kept


def bot(service: Slack, folder: Path) -> slack.SlackConfig:
    (folder / "token").write_text("xoxb-1")
    return slack.SlackConfig(token_file=str(folder / "token"), channel="#fabric", api=f"{service.url}/api")


async def test_a_thread_goes_on_after_a_restart(tmp_path):
    async with Slack() as service:
        config = bot(service, tmp_path)
        await deliver(tmp_path / "state", config, telling(leaf()))
        await deliver(tmp_path / "state", config, telling(ended(leaf()), reason="resolved", key="end"))
    root, reply = service.messages.values()
    assert reply["thread_ts"] == "1800000000.000000"
    assert "[RESOLVED]" in root["text"]


async def test_what_was_reported_before_a_failure_is_not_reported_again(tmp_path):
    async with Slack() as service:
        # the second of two messages fails three times
        failures = [lambda _: web.Response(status=503)] * 3
        service.answers = [service.answer, *failures]
        await deliver(tmp_path / "state", bot(service, tmp_path), telling(leaf(), incident("b")))
    assert len(service.got) == 5
    assert ["Leaf" in m["text"] for m in service.messages.values()] == [True, False]


async def test_receipts_of_what_still_waits_leave_it_waiting(tmp_path):
    store = Store(tmp_path, T0)
    note = telling(leaf(), receiver="ops")
    await store.commit(notifications=[note])
    kept: Any = Ack(note.key, PENDING, T0, 0, "", "ops", {"5f1d6d0f3c2b9a47": "half"})
    await store.commit(acked=[kept])
    assert [p.notification.key for p in await store.pending("ops", 9)] == [note.key]
    assert await store.receipts("ops", ["5f1d6d0f3c2b9a47", "x"]) == {"5f1d6d0f3c2b9a47": "half"}
    assert await store.receipts("other", ["5f1d6d0f3c2b9a47"]) == {}
    assert await store.receipts("ops", []) == {}
    await store.commit(acked=[Ack(note.key, SENT, T0, 1, "", "ops", {"5f1d6d0f3c2b9a47": "whole"})])
    assert await store.pending("ops", 9) == []
    assert await store.receipts("ops", ["5f1d6d0f3c2b9a47"]) == {"5f1d6d0f3c2b9a47": "whole"}
    store.close()
