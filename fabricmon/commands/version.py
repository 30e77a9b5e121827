"""Print the version of fabricmon."""

from __future__ import annotations

import argparse
import platform

from fabricmon import __version__

EXAMPLES = "fabricmon version\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(args: argparse.Namespace) -> int:
    """Print one line."""
    print(f"fabricmon {__version__} (Python {platform.python_version()})")
    return 0
