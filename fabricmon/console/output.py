"""Standard output of a command: its width and colours."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable

from fabricmon.terminal.style import Style, TextView, wanted

COLOURS = ("auto", "always", "never")
FALLBACK = (100, 24)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--colour",
        "--color",
        choices=COLOURS,
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set (default %(default)s)",
    )


def view(args: argparse.Namespace, now: float) -> TextView:
    """Style and width of standard output. Without a terminal no line is cut, unless COLUMNS is set."""
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size(FALLBACK).columns if terminal or os.environ.get("COLUMNS") else None
    return TextView(Style(wanted(args.colour, terminal, os.environ)), columns, now)


def show(lines: Iterable[str]) -> None:
    """Print the lines; characters missing in the terminal's encoding become question marks."""
    text = "".join(f"{line}\n" for line in lines)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
