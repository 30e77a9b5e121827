"""Run the agent of this node: reads fabric counters and serves /metrics for Prometheus, /stream for the central server,
/health for `fabricmon check`. Needs no root. Stops on SIGTERM or SIGINT; SIGHUP reloads the configuration."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from fabricmon.host.protocol import Host, HostError
from fabricmon.runtime import logs

EXAMPLES = """\
fabricmon agent
fabricmon agent --config /etc/fabricmon/agent.yaml
fabricmon agent --listen 127.0.0.1:9790 --host node.host
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: built-in defaults)")
    parser.add_argument("--listen", metavar="ADDR", action="append",
                        help="HOST:PORT to serve on, repeatable (default 0.0.0.0:9790)")
    parser.add_argument("--node", metavar="NAME", help="name of this node in the fleet (default: host name)")
    parser.add_argument("--web-config", "--web.config.file", dest="web_config", metavar="FILE",
                        help="TLS, users and headers of the listener, in the format of Prometheus exporters")
    add_host_arguments(parser)
    add_expectation(parser)
    parser.add_argument("--check", action="store_true",
                        help="check the configuration and exit")
    parser.add_argument("--log.format", dest="log_format", choices=logs.FORMATS, help="default logfmt")
    parser.add_argument("--log.level", dest="log_level", choices=logs.LEVELS, help="default info")


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose the host to read."""
    parser.add_argument("--path.sysfs", dest="sysfs", metavar="DIR", help="where sysfs is mounted (default /sys)")
    parser.add_argument("--path.procfs", dest="procfs", metavar="DIR", help="where procfs is mounted (default /proc)")
    parser.add_argument("--host", metavar="FILE", help="read this archive of `fabricmon capture` instead of this host")

def add_expectation(parser: argparse.ArgumentParser) -> None:
    """The option for nodes without fabric hardware."""
    parser.add_argument("--expect-nothing", action="store_true", default=None,
                        help="OK also where the node has no fabric hardware (collect.inventory.none_expected)")


def load(args: argparse.Namespace) -> Any:
    """The configuration, overridden by the command line; with `rules` if the agent evaluates them. ConfigError."""
    from fabricmon import config

    given = overrides(args)
    # The rules import NumPy. Its linear algebra, which is not used, would allocate a buffer per processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    root = config.load(args.config, given, uses=("agent", "collect", "log"))
    if root.agent.evaluate:
        root = config.load(args.config, given, uses=("agent", "collect", "rules", "log"))
    return root


def overrides(args: argparse.Namespace) -> dict[str, object]:
    """Dotted path of the configuration -> value given on the command line."""
    flags = {
        "agent.listen": getattr(args, "listen", None),
        "agent.node": getattr(args, "node", None),
        "agent.web.config_file": getattr(args, "web_config", None),
        "agent.path.sysfs": args.sysfs and os.path.abspath(args.sysfs),
        "collect.inventory.none_expected": getattr(args, "expect_nothing", None),
        "agent.path.procfs": args.procfs and os.path.abspath(args.procfs),
        "log.format": getattr(args, "log_format", None),
        "log.level": getattr(args, "log_level", None),
    }
    return {path: value for path, value in flags.items() if value is not None}


def open_host(root: Any, archive: str | None) -> Host:
    """The recorded host in `archive`, else this machine. HostError if the archive cannot be read."""
    if archive:
        from fabricmon.host.recorded import RecordedHost

        return RecordedHost(archive)
    from fabricmon.host.live import LiveHost

    return LiveHost(root.agent.path.sysfs, root.agent.path.procfs, root.agent.node, root.agent.exclude)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal: 0; 1 if the agent cannot serve."""
    root = load(args)
    if args.check:
        from fabricmon.web.loaded import load as load_security

        load_security(root.agent.web, "", "agent")
        return 0
    logs.configure(root.log.format, root.log.level)
    try:
        host = open_host(root, args.host)
    except (HostError, OSError, ValueError) as error:
        logs.complain(f"fabricmon agent: {error}")
        return 1
    from fabricmon.agent import app

    try:
        asyncio.run(app.run(root, host, lambda: load(args)))
    except OSError as error:
        logs.complain(f"fabricmon agent: {error}")
        return 1
    return 0
