"""Run the central server: follows all agents, finds faults and their causes, notifies receivers, serves web page, API
and /metrics. Stops on SIGTERM or SIGINT; SIGHUP reloads configuration, topology and rule limits."""

from __future__ import annotations

import argparse
import asyncio

from fabricmon import config
from fabricmon.runtime import logs
from fabricmon.runtime.fair_loop import new_loop
from fabricmon.runtime.supervise import first_cause

EXAMPLES = """\
fabricmon central --config /etc/fabricmon/central.yaml
fabricmon central --state ./state --target node-1:9790 --target node-2:9790 --webhook http://your.receiver/hook
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", metavar="FILE", help="configuration file (default: built-in defaults)")
    add("--listen", metavar="ADDR", action="append", help="HOST:PORT to serve on, repeatable (default 0.0.0.0:9791)")
    add("--state", metavar="DIR", help="for incidents, silences and unsent notifications (default /var/lib/fabricmon)")
    add("--fabric", metavar="NAME", help="name of this fabric, used in incident ids")
    add("--target", metavar="HOST:PORT", action="append", help="address of an agent, repeatable")
    add("--targets-file", metavar="FILE", action="append", help="agents in Prometheus file_sd format, repeatable")
    add("--topology", metavar="FILE", action="append", help="ibnetdiscover dump, cable plan, ...; repeatable: merged")
    add("--webhook", metavar="URL", action="append", help="webhook to POST incidents to, repeatable")
    add("--alertmanager", metavar="URL", action="append", help="Alertmanager to send alerts to, repeatable")
    add("--external-url", metavar="URL", help="address of the web page, for links in notifications")
    add(
        "--web-config",
        "--web.config.file",
        dest="web_config",
        metavar="FILE",
        help="TLS, users and headers of the listener, in the format of Prometheus exporters",
    )
    add("--record", metavar="DIR", help="record all input into this directory, for `fabricmon replay`")
    add("--check", action="store_true", help="check the configuration and exit")
    add("--log.format", dest="log_format", choices=logs.FORMATS, help="default logfmt")
    add("--log.level", dest="log_level", choices=logs.LEVELS, help="default info")


def overrides(args: argparse.Namespace) -> dict[str, object]:
    """Dotted path of the configuration -> value of a flag. Receivers of flags are added to those of the file."""
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
    """Serve until a signal: 0; 1 if the server cannot serve, 2 for an invalid configuration."""
    flags = overrides(args)

    def read() -> config.Root:
        return config.load(args.config, flags, uses=("central", "topology", "rules", "notify", "senders", "log"))

    root = read()
    from fabricmon.central import app, prepared
    from fabricmon.central.store.database import StoreError

    if args.check:
        prepared.check(root)
        return 0
    logs.configure(root.log.format, root.log.level)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(app.run(root, read))
    except (OSError, StoreError) as error:
        logs.complain(f"fabricmon central: {error}")
        return 1
    except BaseExceptionGroup as group:
        logs.get(part="server").error("the server stops after a failure", exc_info=first_cause(group))
        return 1
    return 0
