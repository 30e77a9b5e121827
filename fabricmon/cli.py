"""The command line: parses and dispatches. Each command is a file in `fabricmon/commands/` and a row in its table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fabricmon import __version__
from fabricmon.commands.table import COMMANDS, groups, module_of, parser_of

__all__ = ["COMMANDS", "main"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    parts = [
        f"{title}:\n" + "".join(f"  {verb:<{width}}  {COMMANDS[verb][1]}\n" for verb in verbs)
        for title, verbs in groups()
    ]
    parser = argparse.ArgumentParser(
        prog="fabricmon",
        usage="fabricmon COMMAND [OPTIONS]",
        description="Fabric telemetry and health monitoring for GPU clusters.",
        epilog="\n".join(parts) + "\n`fabricmon COMMAND --help` shows the options of a command, with examples.\n"
        "No cluster at hand? `fabricmon demo` simulates one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fabricmon {__version__}")
    return parser


def _unknown(verb: str) -> int:
    from difflib import get_close_matches

    near = get_close_matches(verb, COMMANDS, 1, 0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    print(f"fabricmon: unknown command {verb!r}; {hint}`fabricmon --help` lists all commands", file=sys.stderr)
    return USAGE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for a wrong command line or configuration."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        _overview().print_help(sys.stderr)
        return USAGE
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    if words[0].startswith("-"):
        _overview().parse_args(words)
        return USAGE
    if words[0] not in COMMANDS:
        return _unknown(words[0])
    module = module_of(words[0])
    args = parser_of(words[0], module).parse_args(words[1:])
    try:
        return int(module.run(args))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of a pipe (`| head`) has ended: print nothing more, not at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        from fabricmon.config import ConfigError  # imported here: only some commands read a configuration

        if not isinstance(error, ConfigError):
            raise
        from fabricmon.runtime import logs

        logs.complain(str(error))
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
