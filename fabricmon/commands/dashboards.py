"""Grafana dashboards and the recording rules behind them, as files (docs/dashboards.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fabricmon import config
from fabricmon.commands.rules import LABEL, SELECTOR, matching, yaml_text

EXAMPLES = """\
fabricmon dashboards --write /var/lib/grafana/dashboards/fabricmon
fabricmon dashboards --write . --config /etc/fabricmon/central.yaml --selector 'cluster="east"' --node-label node
"""
RECORDINGS = "recording-rules.yml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="DIR", type=Path, help="write the files into this directory")
    what.add_argument("--check", metavar="DIR", type=Path, help="exit 1 if a file there is not current")
    what.add_argument("--list", action="store_true", help="name the dashboards")
    add = parser.add_argument
    add("--config", metavar="FILE", help="configuration whose rules' limits are drawn; without it the defaults")
    add(
        "--selector",
        metavar="MATCHERS",
        type=matching(SELECTOR, "list of label matchers"),
        help="matchers that all of fabricmon's series must have, as in PromQL: 'cluster=\"east\"'",
    )
    add(
        "--node-label",
        metavar="LABEL",
        default="instance",
        type=matching(LABEL, "label name"),
        help="the label that has a node's name (default instance)",
    )


def run(args: argparse.Namespace) -> int:
    """0; 1 where --check finds a file that is not current; 2 for a configuration that cannot be used."""
    if args.list:
        for name, said in _boards().items():
            print(f"{name:<12} {said}")
        return 0
    files = _files(args)
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (args.write / name).write_text(text, encoding="utf-8")
        print(f"{len(files)} files in {args.write}", file=sys.stderr)
        return 0
    stale = [name for name, text in files.items() if _content(args.check / name) != text]
    for name in stale:
        print(f"{args.check / name}: not current, run `fabricmon dashboards --write {args.check}`", file=sys.stderr)
    return 1 if stale else 0


def _boards() -> dict[str, str]:
    """Name -> title and description of each dashboard."""
    from fabricmon.dashboards import BOARDS
    from fabricmon.dashboards.site import Site

    made = {name: make(Site()) for name, make in BOARDS.items()}
    return {name: f"{board.uid:<22} {board.description}" for name, board in made.items()}


def _files(args: argparse.Namespace) -> dict[str, str]:
    """File name -> text."""
    from fabricmon.dashboards import documents
    from fabricmon.dashboards.recordings import groups
    from fabricmon.dashboards.site import Site

    selector = args.selector or ""
    limits = config.load(args.config, uses=("rules",)).rules if args.config else {}
    head = "# Written by `fabricmon dashboards`: what its dashboards need of a Prometheus-compatible ruler.\n"
    rules = head + yaml_text({"groups": groups(selector)})
    return {**documents(Site(args.node_label, limits), selector), RECORDINGS: rules}


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
