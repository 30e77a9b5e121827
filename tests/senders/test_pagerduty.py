"""PagerDuty as its Events API v2 sees us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Severity
from fabricmon.notify.batch import DIGEST
from fabricmon.senders import pagerduty
from fabricmon.senders.attempt import Attempt, DeliveryOutcome
from fabricmon.units import Duration
from tests.notify.made import T0, incident
from tests.senders.incidents import LINKS, ended, leaf, telling
from tests.senders.service import Service

KEY = "0123456789abcdef0123456789abcdef"


def check(body: dict[str, Any]) -> None:
    """The published fields of an event, and their limits."""
    assert set(body) <= {
        "routing_key",
        "event_action",
        "dedup_key",
        "payload",
        "images",
        "links",
        "client",
        "client_url",
    }
    assert len(body["routing_key"]) == 32
    assert body["event_action"] in ("trigger", "acknowledge", "resolve")
    assert 1 <= len(body["dedup_key"]) <= 255
    payload = body["payload"]
    assert set(payload) <= {
        "summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details",
    }  # fmt: skip
    assert 1 <= len(payload["summary"]) <= 1024
    assert payload["source"]
    assert payload["severity"] in ("critical", "error", "warning", "info")
    assert all(set(link) == {"href", "text"} for link in body["links"])
    assert len(json.dumps(body)) < 512_000


def accept(body: dict[str, Any]) -> web.Response:
    check(body)
    return web.json_response(
        {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}, status=202
    )


def config(service: Service, folder: Path, **changes: Any) -> pagerduty.PagerDutyConfig:
    (folder / "key").write_text(KEY + "\n")
    return pagerduty.PagerDutyConfig(
        routing_key_file=str(folder / "key"), url=f"{service.url}/v2/enqueue", timeout=Duration(5), **changes
    )


async def sent(config: pagerduty.PagerDutyConfig, note: Any) -> Attempt:
    async with aiohttp.ClientSession() as session:
        return await pagerduty.send(session, config, note, LINKS)


async def test_an_incident_is_one_alert_from_its_beginning_to_its_end(tmp_path):
    async with Service(usual=accept) as service:
        made = config(service, tmp_path)
        for reason, told in (
            ("new incident", leaf(severity=Severity.WARNING)),
            ("severity rose", leaf()),
            ("acknowledged", leaf()),
            ("resolved", ended(leaf())),
        ):
            assert (await sent(made, telling(told, reason=reason))).outcome is DeliveryOutcome.DONE
    bodies = [got.body for got in service.got]
    assert [b["event_action"] for b in bodies] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert {b["dedup_key"] for b in bodies} == {"5f1d6d0f3c2b9a47"}
    assert [b["payload"]["severity"] for b in bodies[:2]] == ["warning", "critical"]
    about = bodies[1]["payload"]
    assert (about["component"], about["group"], about["class"]) == ("leaf(su1/rail2)", "east", "fault_domain")
    assert about["custom_details"]["Affected jobs"].startswith("train-70b (4711, mara) crashes")
    assert [link["href"] for link in bodies[1]["links"]] == [
        "https://fabricmon.example/#5f1d6d0f3c2b9a47",
        "https://fabricmon.example/runbooks/fault_domain",
        "https://grafana.example/d/incidents?var-id=5f1d6d0f3c2b9a47",
    ]


async def test_a_digest_is_one_alert_and_closes_those_that_ended(tmp_path):
    acknowledged = leaf("taken", history=(HistoryEntry(T0 + 60, "acknowledged", "by mara"),))
    note = telling(
        incident("worse"), acknowledged, ended(incident("over")), ended(incident("short")), reason=DIGEST, waiting=3
    )
    note = replace(note, before={id: at for id, at in note.before.items() if id != "short"})
    async with Service(usual=accept) as service:
        assert (await sent(config(service, tmp_path), note)).outcome is DeliveryOutcome.DONE
    digest, *rest = [got.body for got in service.got]
    assert (digest["event_action"], digest["dedup_key"]) == ("trigger", f"digest-{note.key}")
    assert digest["payload"]["summary"] == "[CRITICAL] digest: 2 firing (1 critical), 2 resolved, 3 more wait"
    assert [text for name, text in digest["payload"]["custom_details"].items() if name.isdigit()] == [
        "[WARNING] Link flaps (https://fabricmon.example/#worse)",
        "[RESOLVED] Link flaps (https://fabricmon.example/#short)",
    ]
    assert [(b["event_action"], b["dedup_key"]) for b in rest] == [("acknowledge", "taken"), ("resolve", "over")]


async def test_a_digest_of_ends_alone_calls_nobody(tmp_path):
    async with Service(usual=accept) as service:
        await sent(config(service, tmp_path), telling(ended(incident("a")), ended(incident("b")), reason=DIGEST))
    assert [got.body["event_action"] for got in service.got] == ["resolve", "resolve"]


async def test_severities_may_be_called_otherwise(tmp_path):
    async with Service(usual=accept) as service:
        await sent(config(service, tmp_path, severities={"warning": "error"}), telling(incident()))
    assert service.got[0].body["payload"]["severity"] == "error"


async def test_several_incidents_are_several_events_and_one_refused_holds_up_no_other(tmp_path):
    async with Service(usual=accept) as service:
        service.answers = [lambda _: web.json_response({"status": "invalid event", "message": "no"}, status=400)]
        result = await sent(config(service, tmp_path), telling(incident("a"), incident("b"), incident("c")))
    assert [got.body["dedup_key"] for got in service.got] == ["a", "b", "c"]
    assert result.outcome is DeliveryOutcome.NEVER
    assert result.reason.startswith("a: HTTP 400")


@pytest.mark.parametrize(
    ("status", "body", "outcome", "answered"),
    [
        (202, {"status": "success"}, DeliveryOutcome.DONE, True),
        (400, {"status": "invalid event", "errors": ["'summary' is missing"]}, DeliveryOutcome.NEVER, True),
        (
            400,
            {"status": "invalid event", "errors": ["Length of 'routing_key' is incorrect"]},
            DeliveryOutcome.RETRY,
            False,
        ),
        (429, {}, DeliveryOutcome.RETRY, True),
        (500, {}, DeliveryOutcome.RETRY, True),
    ],
)
async def test_what_an_answer_means(status, body, outcome, answered, tmp_path):
    async with Service(usual=lambda _: web.json_response(body, status=status)) as service:
        result = await sent(config(service, tmp_path), telling(leaf()))
    assert (result.outcome, result.answered) == (outcome, answered)


async def test_the_key_is_a_secret_and_read_anew(tmp_path):
    async with Service(usual=lambda b: web.json_response({"error": f"bad {b['routing_key']}"}, status=400)) as service:
        made = config(service, tmp_path)
        assert KEY not in (await sent(made, telling(leaf()))).reason
        (tmp_path / "key").write_text("f" * 32)
        await sent(made, telling(leaf()))
        (tmp_path / "key").unlink()
        gone = await sent(made, telling(leaf()))
    assert [got.body["routing_key"] for got in service.got] == [KEY, "f" * 32]
    assert gone.outcome is DeliveryOutcome.RETRY
    assert KEY not in pagerduty.preview(made, telling(leaf()), LINKS)


async def test_the_longest_incident_fits(tmp_path):
    async with Service(usual=accept) as service:
        big = leaf(title="t" * 5000, why="w" * 600_000, component="c" * 5000, labels={"fabric": "f" * 5000})
        result = await sent(config(service, tmp_path, body="{why}\n" * 100, title="{why}{title}"), telling(big))
    assert result.outcome is DeliveryOutcome.DONE, result


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"severities": {"grave": "critical"}}, "severities"), ({"url": "ftp://x"}, "url"), ({"body": "{nope}"}, "body")],
)
def test_a_configuration_that_makes_no_sense_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        pagerduty.PagerDutyConfig(routing_key_file="/dev/null", **fields)
