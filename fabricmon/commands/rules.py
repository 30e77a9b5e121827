"""Write the rules as PromQL for a rule evaluator: Prometheus, Thanos Ruler, Mimir, vmalert (docs/prometheus.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fabricmon import __version__, config
from fabricmon.console import arguments

EXAMPLES = """\
fabricmon rules export > fabricmon.rules.yml
fabricmon rules export --config fabricmon.yaml --selector 'job="fabric"' -o fabricmon.rules.yml
fabricmon rules export --dashboards -o fabricmon.rules.yml
fabricmon rules export --format kubernetes --label release=kube-prometheus-stack | kubectl apply -f -
"""
FORMATS = ("prometheus", "kubernetes")
RUNBOOKS_HERE = "http://fabricmon:9791/runbooks/{kind}"
"""Runbooks of a server under its usual name, as the Kubernetes objects call it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    about = "write the rules that PromQL can express, with the configured limits"
    export = verbs.add_parser("export", help=about)
    add = export.add_argument
    add("--format", choices=FORMATS, default="prometheus", help="a rule file (default) or a PrometheusRule object")
    add("--config", metavar="FILE", help="configuration with the limits (default: built-in limits)")
    add(
        "--runbook-url",
        metavar="URL",
        help="address of the runbooks (default: as configured, else http://fabricmon:9791/runbooks)",
    )
    arguments.add_series(
        export,
        "label matchers of the series, as in PromQL: 'job=\"fabric\"' (default: job starts with fabricmon)",
        "label with the node name, for the texts (default instance)",
    )
    add("--rule", metavar="NAME", action="append", default=[], help="only this rule, repeatable")
    add("--dashboards", action="store_true", help="include the recording rules of the dashboards (docs/dashboards.md)")
    add(
        "--no-keep-firing-for",
        dest="keep_firing",
        action="store_false",
        help="for rule evaluators without keep_firing_for: Prometheus before 2.42, vmalert before 1.92",
    )
    add("--name", metavar="NAME", default="fabricmon", help="name of the PrometheusRule object")
    add("--label", metavar="NAME=VALUE", action="append", default=[], help="label of the PrometheusRule, repeatable")
    add("-o", "--output", metavar="FILE", type=Path, help="output file (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """0; 2 for an invalid configuration, rule or label."""
    from fabricmon.rules import RULES
    from fabricmon.rules.prometheus.rulefile import RulefileOptions, groups, kubernetes

    unknown = sorted(set(args.rule) - {rule.name for rule in RULES})
    labels = dict(text.partition("=")[::2] for text in args.label)
    if unknown or not all(labels) or not all("=" in text for text in args.label):
        names = ", ".join(rule.name for rule in RULES)
        error = f"unknown rule: {', '.join(unknown)}; rules are {names}" if unknown else "--label must be NAME=VALUE"
        print(f"fabricmon rules export: {error}", file=sys.stderr)
        return 2
    own = {} if args.runbook_url is None else {"central.links.runbook": args.runbook_url}
    root = config.load(args.config, own, uses=("rules", "central"))
    runbook = root.central.as_links().runbook("{kind}") or RUNBOOKS_HERE
    rules = [rule for rule in RULES if not args.rule or rule.name in args.rule]
    options = RulefileOptions(args.selector or "", args.node_label, args.keep_firing, runbook)
    content = groups(rules, root.rules, options)
    if args.dashboards:
        from fabricmon.dashboards import recordings

        content += recordings.groups(args.selector or "")
    document = {"groups": content} if args.format == "prometheus" else kubernetes(content, args.name, labels)
    text = f"# Written by `fabricmon rules export` {__version__}; differences from fabricmon: docs/prometheus.md\n"
    text += yaml_text(document)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def yaml_text(document: dict[str, Any]) -> str:
    """The document as YAML, keys in the order given."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
    return text
