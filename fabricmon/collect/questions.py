"""Questions to the driver of one interface, one by one; unsupported ones are left out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fabricmon.collect.machine.interfaces import Interface
from fabricmon.host.protocol import HostError, Unsupported
from fabricmon.model import Fault

GONE = frozenset({errno.ENODEV, errno.ENXIO})
"""The interface is no longer there."""

_NEVER = frozenset({errno.EOPNOTSUPP, errno.EINVAL})  # unsupported by this driver or kernel

Values = dict[str, float]
"""Column -> value."""


class Question(NamedTuple):
    """`ask` returns the values at the cost of `commands` firmware commands; `what` is its name in a fault."""

    ask: Callable[[], Values]
    commands: int
    what: str


class Answers(NamedTuple):
    """`asked`: the supported questions; `queries`: firmware commands."""

    values: Values
    faults: list[Fault]
    asked: tuple[Question, ...]
    queries: int


def ask(collector: str, interface: Interface, questions: Iterable[Question]) -> Answers:
    """Ask them all. HostError where the interface has gone."""
    values: Values = {}
    faults: list[Fault] = []
    asked: list[Question] = []
    for question in questions:
        try:
            values |= question.ask()
        except HostError as error:
            if error.errno in GONE:
                raise
            if isinstance(error, Unsupported) or error.errno in _NEVER:
                continue
            faults.append(Fault(collector, interface.row, f"{question.what} {interface.name}", error.text))
        asked.append(question)
    return Answers(values, faults, tuple(asked), sum(question.commands for question in asked))
