"""The OpenAPI document describes every route, and the answers of a running server are what it describes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate

from fabricmon.central import app
from fabricmon.central.api.answers import PREFIX
from fabricmon.central.api.openapi import openapi
from fabricmon.model import Presence
from fabricmon.runtime.http import listen
from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage

DOCUMENT = Path(__file__).parents[2] / "docs" / "schemas" / "openapi.json"
METHODS = ("get", "post", "delete")


def strict() -> dict[str, Any]:
    """The document with every field beside the described ones an error."""
    document = openapi()
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


def test_the_document_is_valid_openapi() -> None:
    validate(json.loads(DOCUMENT.read_text()))


class Caller:
    """Calls a server and validates each answer; `called`: the operations that were."""

    def __init__(self, stage: Stage, session: aiohttp.ClientSession, routes: Callable[[], Any]) -> None:
        self.stage, self._session, self._document, self.routes = stage, session, strict(), routes
        self.called: set[tuple[str, str]] = set()

    async def __call__(self, method: str, path: str, *, query: str = "", body: Any = None, **names: str) -> Any:
        operation = self._document["paths"][path][method]
        address = self.stage.url.rstrip("/") + path.format(**names) + query
        async with self._session.request(method, address, json=body) as answer:
            found = await answer.json()
            response = operation["responses"][str(answer.status)]
        if "$ref" in response:
            response = self._document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        schema = {**response["content"]["application/json"]["schema"], "components": self._document["components"]}
        errors = Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(found)
        assert [f"{error.json_path}: {error.message[:300]}" for error in errors] == [], (method, path)
        if answer.status < 300:
            self.called.add((method, path))
        return found


@pytest.fixture
async def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    served: list[web.Application] = []

    async def listening(made: web.Application, *args: Any, **more: Any) -> Any:
        served.append(made)
        return await listen(made, *args, **more)

    monkeypatch.setattr(app, "listen", listening)
    jobs = tmp_path / "jobs.json"
    jobs.write_text('{"jobs": [{"id": "4711", "name": "train", "user": "mara", "nodes": "host-[001-002]"}]}')
    stage = Stage(tmp_path, 16, past=300, external_url="https://fabricmon.example", jobs={"files": [str(jobs)]})
    stage.then = {100.0: [FAULTS["link_down"](stage.layout, stage.layout.port_name(9))]}
    stage.live_through()
    stage.central.engine.presence("host-009", Presence.UNREACHABLE, "timed out", stage.central.evaluator.now())
    await stage.serve()
    async with aiohttp.ClientSession() as session:
        yield Caller(stage, session, lambda: served[0].router.routes())
    await stage.__aexit__()


async def test_every_route_is_described_and_answers_as_described(call: Caller) -> None:
    described = {(method, path) for path, item in openapi()["paths"].items() for method in item if method in METHODS}
    (incident,) = (await call("get", f"{PREFIX}/incidents"))["incidents"]
    one = {"id": incident["id"]}
    await call("post", f"{PREFIX}/incidents/{{id}}/acknowledgement", body={"author": "mara"}, **one)
    assert (await call("get", f"{PREFIX}/incidents/{{id}}", **one))["acknowledged"]["author"] == "mara"
    await call("delete", f"{PREFIX}/incidents/{{id}}/acknowledgement", **one)
    await call("post", f"{PREFIX}/acknowledgements", body={"incidents": [incident["id"]]})
    for kind, what in (("silences", {"matchers": ["kind=link_down"]}), ("maintenance", {"hosts": ["host-001"]})):
        path = f"{PREFIX}/{kind}"
        await call("post", path, body={**what, "duration": "1h", "preview": True})
        made = await call("post", path, body={**what, "duration": "1h"})
        assert (await call("get", path))["total"] == 1
        await call("delete", f"{path}/{{id}}", id=made["id"])
    await call("get", f"{PREFIX}/history", query="?kind=port&node=host-001&name=mlx5_1/1")
    for method, path in sorted(described - call.called):
        await call(method, path)
    assert call.called == described

    routes = [(route.method.lower(), route.resource) for route in call.routes()]
    served = {(method, resource.canonical) for method, resource in routes if resource is not None}
    assert {one for one in served if one[1].startswith(PREFIX) and one[0] != "head"} == described


async def test_errors_and_parameters_are_as_described(call: Caller) -> None:
    for path, item in openapi()["paths"].items():
        known = [each["name"] for each in item.get("get", {}).get("parameters", []) if each["in"] == "query"]
        if "get" in item and not path.endswith("/access"):
            error = (await call("get", path, query="?unknown=1", id="none"))["error"]
            assert error == "unknown parameter 'unknown'" + (f"; known here: {', '.join(known)}" if known else "")
    assert "no incident" in (await call("get", f"{PREFIX}/incidents/{{id}}", id="none"))["error"]
    assert "sort" in (await call("get", f"{PREFIX}/ports", query="?sort=up"))["error"]
    assert "matchers" in (await call("post", f"{PREFIX}/silences", body={"duration": "1h"}))["error"]
    assert "required" in (await call("get", f"{PREFIX}/history"))["error"]
