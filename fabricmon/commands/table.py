"""The commands there are, and the parser of each.

A module is imported only when its command is used, so that `fabricmon check` does not pay for what the centre needs. It
offers `add_arguments(parser)`, `run(args) -> int`, its help as docstring and EXAMPLES, a command a line.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from types import ModuleType

# verb -> (module, one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "status": ("fabricmon.commands.status", "the fleet on one screen; exit 0, 1 warning, 2 critical, 3 unknown"),
    "top": ("fabricmon.commands.top", "the same live: incidents, rails, the busiest and most held up ports"),
    "incidents": ("fabricmon.commands.incidents", "open incidents, or those since a time; --watch follows them"),
    "explain": ("fabricmon.commands.explain", "one incident: why, for and against, what was ruled out, what to do"),
    "nodes": ("fabricmon.commands.nodes", "nodes and how they stand; with a name, all that is known of one"),
    "topology": ("fabricmon.commands.topology", "how the fabric is cabled: as the centre knows it, or as files say"),
    "acknowledge": ("fabricmon.commands.acknowledge", "take an incident on: no reminders, and nobody else is called"),
    "silence": ("fabricmon.commands.silence", "add, list and expire silences at the centre"),
    "maintenance": ("fabricmon.commands.maintenance", "announce planned work at the centre"),
    "notify": ("fabricmon.commands.notify", "try receivers out: send a test incident, or show what would be sent"),
    "check": ("fabricmon.commands.check", "is this node's fabric healthy? exit 0, 1 warning, 2 critical, 3 unknown"),
    "fabric": ("fabricmon.commands.fabric", "sweep the InfiniBand fabric once: nodes, links, counters of every port"),
    "capture": ("fabricmon.commands.capture", "write this host's fabric state as one archive"),
    "agent": ("fabricmon.commands.agent", "read this node's fabric counters and serve /metrics and /stream"),
    "central": ("fabricmon.commands.central", "follow all agents, find causes, notify"),
    "alive": ("fabricmon.commands.alive", "does the agent or centre of this container answer? for its health check"),
    "install-units": ("fabricmon.commands.install_units", "make agent or centre a service of this machine (systemd)"),
    "config": ("fabricmon.commands.config", "check a configuration, show it with all defaults"),
    "rules": ("fabricmon.commands.rules", "write the rules for Prometheus and what speaks its language"),
    "dashboards": ("fabricmon.commands.dashboards", "write the Grafana dashboards and their recording rules"),
    "demo": ("fabricmon.commands.demo", "a simulated fabric, this machine's agent, a centre and its page"),
    "scenario": ("fabricmon.commands.scenario", "run simulated fabrics with faults, judged by what must come of them"),
    "replay": ("fabricmon.commands.replay", "judge a recording again, as it was or by another configuration"),
    "docs": ("fabricmon.commands.docs", "write or check the generated documents"),
    "completion": ("fabricmon.commands.completion", "print what a shell needs to complete fabricmon's words"),
    "man": ("fabricmon.commands.man", "show the manual page"),
    "version": ("fabricmon.commands.version", "print the version"),
}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Ask the centre", ("status", "top", "incidents", "explain", "nodes", "topology")),
    ("Tell the centre", ("acknowledge", "silence", "maintenance", "notify")),
    ("Look at this node and its fabric", ("check", "fabric", "capture")),
    ("Run and set up", ("agent", "central", "alive", "install-units", "config", "rules", "dashboards", "completion")),
    ("Try out and judge again", ("demo", "scenario", "replay")),
)
"""How `fabricmon --help` and the manual order them; what is in none comes last."""

OTHERS = "Further"


def groups() -> Iterator[tuple[str, list[str]]]:
    """Title and verbs of each group that has any."""
    placed = {verb for _, verbs in GROUPS for verb in verbs}
    rest = tuple(verb for verb in COMMANDS if verb not in placed)
    for title, verbs in (*GROUPS, (OTHERS, rest)):
        if known := [verb for verb in verbs if verb in COMMANDS]:
            yield title, known


def module_of(verb: str) -> ModuleType:
    """KeyError for a verb that is none."""
    return importlib.import_module(COMMANDS[verb][0])


def parser_of(verb: str, module: ModuleType | None = None) -> argparse.ArgumentParser:
    """The parser of one command."""
    module = module or module_of(verb)
    examples = getattr(module, "EXAMPLES", "")
    parser = argparse.ArgumentParser(
        prog=f"fabricmon {verb}",
        description=module.__doc__,
        epilog="examples:\n" + "".join(f"  {line}\n" for line in examples.splitlines()) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser
