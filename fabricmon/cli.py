"""The command line: parses and dispatches. Each verb is a file in `fabricmon/commands/`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from fabricmon import __version__

# verb -> (module, one line). A module offers `add_arguments(parser)` and `run(args) -> int` and is imported only when
# its verb is used, so that `fabricmon check` does not pay for what the centre needs.
COMMANDS: dict[str, tuple[str, str]] = {
    "agent": ("fabricmon.commands.agent", "read this node's fabric counters and serve /metrics and /stream"),
    "central": ("fabricmon.commands.central", "follow all agents, find causes, notify"),
    "check": ("fabricmon.commands.check", "is this node's fabric healthy? exit 0, 1 warning, 2 critical, 3 unknown"),
    "silence": ("fabricmon.commands.silence", "add, list and expire silences at the centre"),
    "maintenance": ("fabricmon.commands.maintenance", "announce planned work at the centre"),
    "topology": ("fabricmon.commands.topology", "show what a fabric description says and what is odd in it"),
    "fabric": ("fabricmon.commands.fabric", "sweep the InfiniBand fabric once: nodes, links, counters of every port"),
    "install-units": ("fabricmon.commands.install_units", "make agent or centre a service of this machine (systemd)"),
    "config": ("fabricmon.commands.config", "check a configuration, show it with all defaults"),
    "rules": ("fabricmon.commands.rules", "write the rules for Prometheus and what speaks its language"),
    "capture": ("fabricmon.commands.capture", "write this host's fabric state as one archive"),
    "replay": ("fabricmon.commands.replay", "judge a recording again, as it was or by another configuration"),
    "demo": ("fabricmon.commands.demo", "a simulated fabric, this machine's agent, a centre and its page"),
    "scenario": ("fabricmon.commands.scenario", "run simulated fabrics with faults, judged by what must come of them"),
    "docs": ("fabricmon.commands.docs", "write or check the generated documents"),
    "version": ("fabricmon.commands.version", "print the version"),
}

OK, FAILED, USAGE = 0, 1, 2


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {verb:<{width}}  {text}" for verb, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="fabricmon",
        usage="fabricmon COMMAND [OPTIONS]",
        description="Fabric telemetry and health monitoring for GPU clusters.",
        epilog=f"commands:\n{rows}\n\n`fabricmon COMMAND --help` tells each command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fabricmon {__version__}")
    parser.add_argument("command", choices=tuple(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for a wrong command line or configuration."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        _overview().print_help(sys.stderr)
        return USAGE
    verb = _overview().parse_args(words[:1]).command
    module = importlib.import_module(COMMANDS[verb][0])
    parser = argparse.ArgumentParser(
        prog=f"fabricmon {verb}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    from fabricmon.config import ConfigError

    try:
        return int(module.run(args))
    except ConfigError as error:
        from fabricmon.runtime import logs

        logs.complain(str(error))
        return USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe (`| head`) has gone: nothing left to say
        return OK


if __name__ == "__main__":
    sys.exit(main())
