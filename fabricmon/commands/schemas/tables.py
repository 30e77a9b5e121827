"""Every schema by the name of its file, made of the types that the program itself uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from fabricmon.central.api.openapi import described, openapi
from fabricmon.commands.schemas.configuration import configuration
from fabricmon.jobs.file import JobsFile
from fabricmon.senders.webhook import WebhookBody
from fabricmon.sources.formats.cable_plan import CablePlan

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Schema(NamedTuple):
    """One schema: file name, and what makes it."""

    file: str
    make: Callable[[], dict[str, Any]]


SCHEMAS: dict[str, Schema] = {
    "config": Schema("fabricmon.schema.json", lambda: {"$schema": DIALECT, "title": "fabricmon", **configuration()}),
    "plan": Schema("cable-plan.schema.json", lambda: _of(CablePlan, closed=True)),
    "jobs": Schema("jobs.schema.json", lambda: _of(JobsFile)),
    "webhook": Schema("webhook.schema.json", lambda: _of(WebhookBody)),
    "api": Schema("openapi.json", openapi),
}


def text_of(name: str) -> str:
    """A schema as JSON with line ends."""
    return msgspec.json.format(msgspec.json.encode(SCHEMAS[name].make()), indent=1).decode() + "\n"


def _of(tp: Any, *, closed: bool = False) -> dict[str, Any]:
    """The schema of a type; `closed`: further keys are errors."""
    made = msgspec.json.schema(tp)
    made["$defs"] = described(made["$defs"])
    for each in made["$defs"].values() if closed else ():
        if "properties" in each:
            each["additionalProperties"] = False
    return {"$schema": DIALECT, **made}
