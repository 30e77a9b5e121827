"""docs/webhook.md says what is sent: its example has the fields of a real body, its code checks a real signature."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

from fabricmon.model import Impact, JobImpact, JobVerdict, RuledOut
from fabricmon.notify.links import IncidentLinks
from fabricmon.senders.webhook import body, signature
from tests.notify.made import incident, note

HIT = JobImpact("4711", "train-70b", "mara", "slurm", JobVerdict.STALL, "it waits", ("host-007",), 1, 64, 1.0, 2.0)
OTHER = RuledOut("leaf(su1/rail3)", "31 of its 32 observed members show no sign of it")
IMPACT = Impact("known", "slurm", 1.0, (HIT,), 1)
DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/webhook.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def shape(value: Any) -> Any:
    """The keys of a document, all the way down; labels are the site's own."""
    if isinstance(value, dict):
        return {k: "labels" if k == "labels" else shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value[:1]] if value and isinstance(value[0], dict) else "list"
    return None


def test_the_example_has_the_fields_that_are_sent() -> None:
    told = note("k", incident(impact=IMPACT, ruled_out=(OTHER,)))
    sent = json.loads(body(told, IncidentLinks("https://page", dashboards="https://grafana")))
    example = json.loads(blocks("json")[0])
    assert shape(example) == shape(sent)


def test_every_field_is_explained() -> None:
    told = note("k", incident(impact=IMPACT, ruled_out=(OTHER,)))
    sent = json.loads(body(told, IncidentLinks("https://page", dashboards="https://grafana")))
    explained = set(re.findall(r"`([a-z_]+)`", DOCUMENT))
    plain = {"version", "receiver", "incidents", "title", "why", "action", "labels", "history"}
    of_jobs = {*sent["incidents"][0]["impact"], *sent["incidents"][0]["impact"]["jobs"][0]}
    assert {*sent, *sent["incidents"][0], *of_jobs} - explained <= plain


def test_the_check_of_a_signature_accepts_the_genuine_and_nothing_else() -> None:
    names: dict[str, Any] = {"hmac": hmac, "hashlib": hashlib}
    exec(blocks("python")[0], names)
    genuine, sent = names["genuine"], body(note("k", incident(impact=IMPACT, ruled_out=(OTHER,))))
    headers = signature("s3cret", sent, 1000)
    assert genuine(b"s3cret", headers, sent, 1001)
    assert not genuine(b"s3cret", headers, sent + b" ", 1001)
    assert not genuine(b"other", headers, sent, 1001)
    assert not genuine(b"s3cret", headers, sent, 2000), "too old"
    assert not genuine(b"s3cret", {**headers, "X-Fabricmon-Timestamp": "1999"}, sent, 2000)
