"""YAML and JSON texts as data, with the place of what is wrong in them."""

from __future__ import annotations

import json
from typing import Any

import yaml

from fabricmon.sources.error import SourceError


class StrictLoader(yaml.SafeLoader):
    """YAML allows a key twice and takes the last; in a topology that is a host lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    text = f"{key.value!r} is written twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(text: str, path: str) -> Any:
    try:
        return yaml.load(text, Loader=StrictLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        raise SourceError(path, where, f"not YAML: {getattr(error, 'problem', None) or error}") from error


def load_json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(path, f"line {error.lineno}", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise SourceError(path, "", "not JSON: nested too deep") from error
