"""The OpenAPI 3.1 document of the API, from its table of operations and the types of its answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from fabricmon import __version__
from fabricmon.central.api.answers import PREFIX, answer
from fabricmon.central.api.operations import ERRORS, OPERATIONS, ErrorDocument, Operation, Parameter
from fabricmon.central.api.request import query
from fabricmon.forms.docstring import fields_in, summary

Schema = dict[str, Any]

_WHERE = "#/components/schemas/{name}"
_TEXT = "HTTP API of the central server (docs/api.md). Fields may be added at any time: ignore unknown fields."


def openapi() -> Schema:
    """The document."""
    found = [op.answer for op in OPERATIONS] + [op.body for op in OPERATIONS if op.body is not None]
    _, components = msgspec.json.schema_components([*dict.fromkeys(found), ErrorDocument], ref_template=_WHERE)
    paths: dict[str, Schema] = {}
    for op in OPERATIONS:
        paths.setdefault(PREFIX + op.path, {})[op.method.lower()] = _operation(op)
    errors = {status: {"description": why, "content": _json(ErrorDocument)} for status, why in ERRORS.items()}
    schemes = {"basic": {"type": "http", "scheme": "basic"}, "bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "fabricmon", "version": __version__, "description": _TEXT},
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {"schemas": described(components), "responses": errors, "securitySchemes": schemes},
    }


async def serve(request: web.Request) -> web.Response:
    """GET /api/v1/openapi.json."""
    query(request)
    return answer(openapi())


def described(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Schemas of msgspec with the docstrings' lines `name  text` moved to the fields that they describe."""
    return {name: _described(schema) for name, schema in schemas.items()}


def _described(schema: Schema) -> Schema:
    text, meaning = schema.get("description", ""), fields_in(schema.get("description"))
    properties = {
        name: {**field, "description": meaning[name]} if name in meaning else field
        for name, field in schema.get("properties", {}).items()
    }
    words = {"description": summary(text)} if text else {}
    return {**schema, **words, **({"properties": properties} if properties else {})}


def _operation(op: Operation) -> Schema:
    made: Schema = {
        "summary": op.summary,
        "operationId": _id(op),
        "responses": {
            **{str(status): {"description": text, "content": _json(op.answer)} for status, text in op.statuses.items()},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in ERRORS},
        },
    }
    names = re.findall(r"{(\w+)}", op.path)
    in_path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if parameters := in_path + _parameters(op.parameters):
        made["parameters"] = parameters
    if op.body is not None:
        made["requestBody"] = {"required": True, "content": _json(op.body)}
    return made


def _id(op: Operation) -> str:
    words = re.findall(r"\w+", op.path.replace("{id}", "one"))
    return "_".join((op.method.lower(), *words))


def _json(tp: Any) -> Schema:
    (schema,), _ = msgspec.json.schema_components([tp], ref_template=_WHERE)
    return {"application/json": {"schema": schema}}


def _parameters(parameters: Iterable[Parameter]) -> list[Schema]:
    return [
        {
            "name": each.name,
            "in": "query",
            "description": each.text,
            "required": each.required,
            "schema": {"enum": list(each.type)} if isinstance(each.type, tuple) else msgspec.json.schema(each.type),
        }
        for each in parameters
    ]
