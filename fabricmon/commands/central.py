"""Follow all agents, find what is wrong and why, notify. Serves page, API and /metrics. Stops on SIGTERM or SIGINT;
SIGHUP reads the configuration, topology and rules' parameters again."""

from __future__ import annotations

import argparse
import asyncio

from fabricmon import config
from fabricmon.runtime import logs
from fabricmon.runtime.supervise import first_cause

EXAMPLES = """\
fabricmon central --config /etc/fabricmon/central.yaml
fabricmon central --state ./state --target node-1:9790 --target node-2:9790 --webhook http://your.receiver/hook
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag stands over the configuration file."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="configuration; without it the defaults hold")
    add("--listen", metavar="ADDR", action="append", help="HOST:PORT to serve on, repeatable (default 0.0.0.0:9791)")
    add("--state", metavar="DIR", help="where incidents, silences and the outbox are kept (default /var/lib/fabricmon)")
    add("--fabric", metavar="NAME", help="name of this fabric, part of incident ids")
    add("--target", metavar="HOST:PORT", action="append", help="an agent to follow, repeatable")
    add("--targets-file", metavar="FILE", action="append", help="agents in Prometheus file_sd format, repeatable")
    add("--topology", metavar="FILE", action="append", help="ibnetdiscover dump, cable plan, ...; repeatable: merged")
    add("--webhook", metavar="URL", action="append", help="POST incidents there, repeatable")
    add("--alertmanager", metavar="URL", action="append", help="an Alertmanager to send alerts to, repeatable")
    add("--external-url", metavar="URL", help="how people reach this page, for links in notifications")
    add("--web-config", "--web.config.file", dest="web_config", metavar="FILE",
        help="TLS, users and headers of the listener, in the form of Prometheus's exporters")
    add("--record", metavar="DIR", help="record everything that comes in there, for `fabricmon replay`")
    add("--check", action="store_true", help="read the configuration, say what is wrong in it, and start nothing")
    add("--log.format", dest="log_format", choices=logs.FORMATS, help="default logfmt")
    add("--log.level", dest="log_level", choices=logs.LEVELS, help="default info")


def overrides(args: argparse.Namespace) -> dict[str, object]:
    """The flags as paths of the configuration. Receivers of flags are there beside those of the file."""
    flags: dict[str, object] = {
        "central.listen": args.listen,
        "central.state": args.state,
        "central.fabric": args.fabric,
        "central.targets": args.target,
        "central.target_files": args.targets_file,
        "central.external_url": args.external_url,
        "central.web.config_file": args.web_config,
        "central.record.directory": args.record,
        "topology.file": None if args.topology is None else "",
        "topology.files": args.topology,
        "log.format": args.log_format,
        "log.level": args.log_level,
    }
    for number, url in enumerate(args.webhook or [], 1):
        flags[f"senders.flag-webhook-{number}"] = {"kind": "webhook", "url": url}
    if args.alertmanager:
        flags["senders.flag-alertmanager"] = {"kind": "alertmanager", "urls": args.alertmanager}
    return {path: value for path, value in flags.items() if value is not None}


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop: 0 after a signal, 1 when the centre cannot serve, 2 for a bad configuration."""
    flags = overrides(args)

    def read() -> config.Root:
        return config.load(args.config, flags, uses=("central", "topology", "rules", "notify", "senders", "log"))

    root = read()
    from fabricmon.central import app
    from fabricmon.central.store import StoreError

    if args.check:
        app.check(root)
        return 0
    logs.configure(root.log.format, root.log.level)
    try:
        asyncio.run(app.run(root, read))
    except (OSError, StoreError) as error:
        logs.complain(f"fabricmon central: {error}")
        return 1
    except BaseExceptionGroup as group:
        logs.get(part="centre").error("the centre cannot go on", exc_info=first_cause(group))
        return 1
    return 0
