"""Types of command-line arguments: a value outside its bounds or its form is an error of usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

_Number = TypeVar("_Number", int, float)

LABEL = re.compile(r"[a-zA-Z_]\w*")
_MATCHER = r"""[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*\""""
SELECTOR = re.compile(rf"{_MATCHER}(?:\s*,\s*{_MATCHER})*")


def number(least: _Number, most: _Number, unit: str = "") -> Callable[[str], _Number]:
    """A converter: a number of the bounds' type from `least` to `most`, else an error that names both and `unit`."""

    def converted(text: str) -> _Number:
        try:
            value = type(least)(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least:.12g} to {most:.12g}{unit}, got {text}")
        return value

    return converted


def matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    """A converter: the text if the whole of it matches, else an error "not a `what`"."""

    def checked(text: str) -> str:
        if not pattern.fullmatch(text):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what}")
        return text

    return checked


def add_series(parser: argparse.ArgumentParser, selector: str, label: str) -> None:
    """--selector and --node-label of commands that write PromQL; the two texts are their help."""
    matchers, name = matching(SELECTOR, "list of label matchers"), matching(LABEL, "label name")
    parser.add_argument("--selector", metavar="MATCHERS", type=matchers, help=selector)
    parser.add_argument("--node-label", metavar="LABEL", default="instance", type=name, help=label)
