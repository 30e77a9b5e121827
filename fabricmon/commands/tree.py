"""All commands, options and operands, read from the parsers: for completion and the manual."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from fabricmon.commands.table import groups, parser_of

FILES = ("FILE", "DIR")
NAMES = {"ID": "ids", "NODE": "nodes"}
"""Metavars whose values the server lists: incidents and nodes."""


class Option(NamedTuple):
    """flags    "-o", "--output"
    value    its metavar, "" for a switch
    choices  the values allowed, () any
    group    title of its group of options
    """

    flags: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str
    group: str


class Verb(NamedTuple):
    """path     ("silence", "add")
    verbs    subcommands, each with its help line
    operands  positional arguments: metavar and allowed values
    """

    path: tuple[str, ...]
    about: str
    options: tuple[Option, ...]
    verbs: tuple[tuple[str, str], ...]
    operands: tuple[tuple[str, tuple[str, ...]], ...]


def verbs() -> Iterator[Verb]:
    """Every command and subcommand, in the order of the help."""
    from fabricmon.commands.table import COMMANDS

    for _, names in groups():
        for name in names:
            yield from _below((name,), COMMANDS[name][1], parser_of(name))


def _below(path: tuple[str, ...], about: str, parser: argparse.ArgumentParser) -> Iterator[Verb]:
    options, operands, deeper = [], [], []
    groups_of = {id(action): group.title or "" for group in parser._action_groups for action in group._group_actions}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            deeper = [(name, lines.get(name, ""), sub) for name, sub in action.choices.items()]
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            options.append(_option(parser, action, groups_of.get(id(action), "")))
        else:
            operands.append((str(action.metavar or action.dest), tuple(map(str, action.choices or ()))))
    yield Verb(path, about, tuple(options), tuple((name, line) for name, line, _ in deeper), tuple(operands))
    for name, line, sub in deeper:
        yield from _below((*path, name), line, sub)


def _option(parser: argparse.ArgumentParser, action: argparse.Action, group: str) -> Option:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    choices = tuple(map(str, action.choices or ())) if value else ()
    about = parser._get_formatter()._expand_help(action) if action.help else ""
    return Option(tuple(action.option_strings), value, choices, about, group)
