"""Show the manual page. If the output is not a terminal, print its source for `man -l` or mandoc."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

EXAMPLES = """\
fabricmon man
fabricmon man --source > /usr/local/share/man/man1/fabricmon.1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", action="store_true", help="print the source, on a terminal too")


def run(args: argparse.Namespace) -> int:
    """0, or the exit code of `man`."""
    from fabricmon.commands.manual import page

    shower = shutil.which("man")
    if args.source or not sys.stdout.isatty() or shower is None:
        sys.stdout.write(page())
        return 0
    return subprocess.run([shower, "-l", "-"], input=page().encode(), check=False).returncode
