"""Check a configuration (exit 0, or 2 with one line per error), or show it with all defaults as YAML."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
import yaml

from fabricmon import config
from fabricmon.units import Duration, Rate

_DURATIONS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"), (1e-3, "ms"))
_RATES = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "Kb/s"), (1.0, "b/s"))


EXAMPLES = """\
fabricmon config check fabricmon.yaml
fabricmon config show fabricmon.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=("check", "show"), help="report errors, or print it with all defaults")
    parser.add_argument("file", nargs="?", metavar="FILE", help="configuration file (default: built-in defaults)")


def run(args: argparse.Namespace) -> int:
    """0; ConfigError (exit 2) for an invalid configuration."""
    root = config.load(args.file)
    if args.verb == "check":
        check_security(root)
        print(f"{args.file or 'defaults'}: OK")
        return 0
    print(yaml.safe_dump(shown(root), sort_keys=False, allow_unicode=True, width=120), end="")
    return 0


def check_security(root: config.Root) -> None:
    """Read the files named by security settings. ConfigError with all errors in them."""
    from fabricmon.web import agent_links, loaded

    problems: list[config.ConfigProblem] = []
    for read in (
        lambda: loaded.load(root.agent.web, "", "agent"),
        lambda: loaded.load(root.central.web, root.central.token_file, "central"),
        lambda: agent_links.load(root.central.agents),
    ):
        try:
            read()
        except config.ConfigError as error:
            problems += error.problems
    if problems:
        raise config.ConfigError(*dict.fromkeys(problems))


def shown(root: config.Root) -> dict[str, Any]:
    """A configuration as plain values; `load` of them gives the same configuration."""
    tree: dict[str, Any] = {}
    for section in config.ORDER:
        value = getattr(root, section)
        if section == "senders":
            tree[section] = {name: {"kind": s.kind, **_plain(s.config)} for name, s in value.items()}
        else:
            tree[section] = _plain(value)
    return tree


def _plain(value: Any) -> Any:
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Rate):
        return rate_text(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, msgspec.Struct):
        return {f.encode_name: shown_value(getattr(value, f.name), f.type) for f in msgspec.structs.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value


def shown_value(value: Any, annotated: Any) -> Any:
    """A value as plain data; a default that is a bare number gets the type of its field first."""
    if annotated in (Duration, Rate) and isinstance(value, int | float):
        value = annotated(value)
    return _plain(value)


def duration_text(seconds: float) -> str:
    """A text that `Duration.parse` reads back: "250ms", "10s", "1m30s", "1h"."""
    if seconds <= 0:
        return "0s"
    text, left = "", round(seconds * 1000)
    for size, unit in _DURATIONS:
        whole, left = divmod(left, round(size * 1000))
        text += f"{whole}{unit}" if whole else ""
    return text or f"{seconds * 1000:g}ms"


def rate_text(rate: float) -> str:
    """Bytes per second as bits: "400Gb/s"."""
    bits = rate * 8
    size, unit = next((s for s in _RATES if bits >= s[0]), _RATES[-1])
    return f"{bits / size:g}{unit}"
