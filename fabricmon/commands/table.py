"""The table of all commands, and the parser of each.

A module is imported only when its command is used, so that `fabricmon check` does not import what the server needs. It
has `add_arguments(parser)`, `run(args) -> int`, its help as docstring, and EXAMPLES, one command per line.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import NoReturn

from fabricmon.forms.nearest import nearest

# verb -> (module, one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "status": ("fabricmon.commands.status", "summary of the fleet: exit 0 OK, 1 warning, 2 critical, 3 unknown"),
    "top": ("fabricmon.commands.top", "live view of incidents, rails and ports"),
    "incidents": ("fabricmon.commands.incidents", "open incidents, or all since a time; --watch follows them"),
    "explain": ("fabricmon.commands.explain", "one incident: evidence, ruled-out causes, affected jobs, next step"),
    "nodes": ("fabricmon.commands.nodes", "list the nodes and their state; with a name, the details of one"),
    "topology": ("fabricmon.commands.topology", "switches, hosts, links and rails: from the server or from files"),
    "acknowledge": ("fabricmon.commands.acknowledge", "acknowledge an incident: stops reminders and escalation"),
    "silence": ("fabricmon.commands.silence", "add, list and expire silences (no notifications)"),
    "maintenance": ("fabricmon.commands.maintenance", "add, list and end maintenance windows"),
    "notify": ("fabricmon.commands.notify", "test receivers: send a test incident, or preview the messages"),
    "check": ("fabricmon.commands.check", "health of this node: exit 0 OK, 1 warning, 2 critical, 3 unknown"),
    "ping": ("fabricmon.commands.probing.ping", "probe between adapters of nodes: loss, round trip, path MTU"),
    "fabric": ("fabricmon.commands.fabric", "sweep the InfiniBand fabric once: nodes, links, counters of every port"),
    "doctor": ("fabricmon.commands.doctor", "what is read on this node, what not, what to do; or of the server"),
    "support-bundle": ("fabricmon.commands.support_bundle", "a file for a bug report: state and settings, no secrets"),
    "capture": ("fabricmon.commands.capture", "save this host's fabric state to an archive"),
    "agent": ("fabricmon.commands.agent", "run the agent of this node: read counters, serve /metrics and /stream"),
    "central": ("fabricmon.commands.central", "run the central server: follow all agents, find causes, notify"),
    "alive": ("fabricmon.commands.alive", "health check of a container: does its agent or server answer?"),
    "install-units": ("fabricmon.commands.install_units", "install agent or server as a systemd service"),
    "config": ("fabricmon.commands.config", "check a configuration, or show it with all defaults"),
    "schema": ("fabricmon.commands.schemas.command", "print a JSON Schema or the OpenAPI document of the API"),
    "rules": ("fabricmon.commands.rules", "write the alerting rules for Prometheus and other rule evaluators"),
    "dashboards": ("fabricmon.commands.dashboards", "write the Grafana dashboards and their recording rules"),
    "demo": ("fabricmon.commands.demo", "run a simulated fabric with agents, server and web page"),
    "scenario": ("fabricmon.commands.scenario", "run simulated faults, compare the incidents with the expected ones"),
    "replay": ("fabricmon.commands.replay", "evaluate a recording again, with its own or another configuration"),
    "docs": ("fabricmon.commands.docs", "write or check the generated documents"),
    "completion": ("fabricmon.commands.completion", "print the completion script of a shell"),
    "man": ("fabricmon.commands.man", "show the manual page"),
    "version": ("fabricmon.commands.version", "print the version"),
}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Query the server", ("status", "top", "incidents", "explain", "nodes", "topology")),
    ("Manage incidents and notifications", ("acknowledge", "silence", "maintenance", "notify")),
    ("Inspect this node and its fabric", ("check", "doctor", "ping", "fabric", "capture", "support-bundle")),
    ("Run and set up", (
        "agent", "central", "alive", "install-units", "config", "schema", "rules", "dashboards", "completion",
    )),
    ("Simulate and replay", ("demo", "scenario", "replay")),
)  # fmt: skip
"""Sections of `fabricmon --help` and the manual; commands in none of them come last, under "Other"."""


def groups() -> Iterator[tuple[str, list[str]]]:
    """Title and verbs of each group that has any."""
    placed = {verb for _, verbs in GROUPS for verb in verbs}
    rest = tuple(verb for verb in COMMANDS if verb not in placed)
    for title, verbs in (*GROUPS, ("Other", rest)):
        if known := [verb for verb in verbs if verb in COMMANDS]:
            yield title, known


def module_of(verb: str) -> ModuleType:
    """The module of a command. KeyError for an unknown one."""
    return importlib.import_module(COMMANDS[verb][0])


class CommandParser(argparse.ArgumentParser):
    """Reports a mistake in one line, with the option that was meant; verbs have such parsers, too."""

    def error(self, message: str) -> NoReturn:
        unknown, options = message.removeprefix("unrecognized arguments: ").split(" "), self._options()
        wrong = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
        near = nearest(wrong, options) if wrong and wrong not in options else ""
        hint = f"did you mean {near}? " if near else ""
        if message.startswith("unrecognized arguments: -") and not near:
            hint = f"options: {', '.join(sorted({o for o in options if o.startswith('--')}))}; "
        self.exit(2, f"{self.prog}: {message}; {hint}`{self.prog} --help` shows the usage\n")

    def _options(self) -> list[str]:
        found = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += [option for verb in action.choices.values() for option in verb._option_string_actions]
        return found


def parser_of(verb: str, module: ModuleType | None = None) -> argparse.ArgumentParser:
    """The parser of one command."""
    module = module or module_of(verb)
    examples = getattr(module, "EXAMPLES", "")
    parser = CommandParser(
        prog=f"fabricmon {verb}",
        description=module.__doc__,
        epilog="examples:\n" + "".join(f"  {line}\n" for line in examples.splitlines()) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser
