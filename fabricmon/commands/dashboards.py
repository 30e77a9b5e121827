"""Write the Grafana dashboards and the recording rules that they need (docs/dashboards.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fabricmon import config
from fabricmon.commands import generated
from fabricmon.commands.rules import yaml_text
from fabricmon.console import arguments

EXAMPLES = """\
fabricmon dashboards --write /var/lib/grafana/dashboards/fabricmon
fabricmon dashboards --write . --config /etc/fabricmon/central.yaml --selector 'cluster="east"' --node-label node
"""
RECORDINGS = "recording-rules.yml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="DIR", type=Path, help="write the files to this directory")
    what.add_argument("--check", metavar="DIR", type=Path, help="exit 1 if a file in this directory is not current")
    what.add_argument("--list", action="store_true", help="list the dashboards")
    about = "configuration whose rule limits are drawn (default: built-in limits)"
    parser.add_argument("--config", metavar="FILE", help=about)
    arguments.add_series(
        parser,
        "label matchers for all queries, as in PromQL: 'cluster=\"east\"'",
        "label with the node name (default instance)",
    )


def run(args: argparse.Namespace) -> int:
    """0; 1 if --check finds a file that is not current; 2 for an invalid configuration."""
    if args.list:
        for name, about in _boards().items():
            print(f"{name:<12} {about}")
        return 0
    files = _files(args)
    if args.check:
        return generated.check(files, args.check, "dashboards")
    generated.write(files, args.write)
    print(f"{len(files)} files in {args.write}", file=sys.stderr)
    return 0


def _boards() -> dict[str, str]:
    """Name -> uid and description of each dashboard."""
    from fabricmon.dashboards import BOARDS
    from fabricmon.dashboards.site import Site

    made = {name: make(Site()) for name, make in BOARDS.items()}
    return {name: f"{board.uid:<22} {board.description}" for name, board in made.items()}


def _files(args: argparse.Namespace) -> dict[str, str]:
    from fabricmon.dashboards import documents
    from fabricmon.dashboards.recordings import groups
    from fabricmon.dashboards.site import Site

    selector = args.selector or ""
    limits = config.load(args.config, uses=("rules",)).rules if args.config else {}
    head = "# Written by `fabricmon dashboards`: recording rules of the dashboards, for a rule evaluator.\n"
    rules = head + yaml_text({"groups": groups(selector)})
    return {**documents(Site(args.node_label, limits), selector), RECORDINGS: rules}
