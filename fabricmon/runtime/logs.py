"""The process's log: one line an event on stderr, logfmt or JSON. Transitions are logged once, repetitions counted."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import Any, Literal, TextIO

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")

PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2, "exception": 3}
"""Syslog priorities of the levels, which the journal takes from the start of a line (sd-daemon(3))."""

MAX_TOPICS = 4096
"""Topics whose state `Transitions` remembers; the oldest is forgotten first (and may then be logged again)."""


class LogConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The process's log on stderr.

    format  one line an event, as key=value pairs or as JSON.
    level   the least severe events that are written.
    """

    format: Literal["logfmt", "json"] = "logfmt"
    level: Literal["debug", "info", "warning", "error"] = "info"


def configure(format: str = "logfmt", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up logging for the whole process. ValueError for an unknown format or level.

    Lines to the journal begin with their priority and have no time, which the journal adds.
    """
    if format not in FORMATS:
        raise ValueError(f"log format must be one of {', '.join(FORMATS)}, got {format!r}")
    if level not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, got {level!r}")
    number = getattr(logging, level.upper())
    out: Any = Lossy(stream or sys.stderr)
    first, last = _processors(format, to_journal(stream or sys.stderr))
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    # libraries (aiohttp, asyncio) use the standard library: the same line format, from warnings on
    handler = logging.StreamHandler(out)
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=[bare, *last]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))


def _processors(format: str, journal: bool) -> tuple[list[Any], list[Any]]:
    """The processors that add to an event, and those that render it."""
    order = ["level", "event"] if journal else ["ts", "level", "event"]
    stamp: list[Any] = [] if journal else [structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")]
    if format == "json":
        clean: list[Any] = []
        render: Any = structlog.processors.JSONRenderer()
    else:
        clean, render = [_one_line], structlog.processors.LogfmtRenderer(key_order=order, bool_as_flag=False)
    last: Any = _prioritised(render) if journal else render
    return [structlog.processors.add_log_level, *stamp], [structlog.processors.format_exc_info, *clean, last]


class Lossy:
    """A stream without write errors: a log that cannot be written (stderr closed, disk full) must not stop the
    process. `stream` None: Python's stderr where it was closed before the start."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text)

    def flush(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.flush()


def to_journal(stream: TextIO | None) -> bool:
    """Whether `stream` goes to systemd's journal: JOURNAL_STREAM is its device and inode."""
    if stream is None:
        return False
    try:
        about = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM", "") == f"{about.st_dev}:{about.st_ino}"


def complain(text: str) -> None:
    """Write a command's error message to stderr; to the journal each line with the priority of an error."""
    head = f"<{PRIORITY['error']}>" if to_journal(sys.stderr) else ""
    Lossy(sys.stderr).write("".join(f"{head}{line}\n" for line in text.splitlines()))


def get(**bound: object) -> FilteringBoundLogger:
    """A logger; `bound` goes on each of its lines."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger


class Transitions:
    """Logs the state of a topic when it changes, with the number of repetitions before."""

    def __init__(self, log: FilteringBoundLogger, limit: int = MAX_TOPICS) -> None:
        self._log, self._limit = log, limit
        self._states: dict[str, tuple[str, int]] = {}

    def note(self, topic: str, state: str, event: str, *, bad: bool, **fields: object) -> bool:
        """Log `event` if `topic` is not in `state` already; returns whether it was logged.

        The first state of a topic is logged only if it is bad.
        """
        known = self._states.get(topic)
        if known is not None and known[0] == state:
            self._states[topic] = (state, known[1] + 1)
            return False
        self._states.pop(topic, None)
        while len(self._states) >= self._limit:
            del self._states[next(iter(self._states))]
        self._states[topic] = (state, 1)
        if known is None and not bad:
            return False
        if known is not None and known[1] > 1:
            fields["seen_before"] = known[1]
        (self._log.warning if bad else self._log.info)(event, **fields)
        return True

    def forget(self, topic: str) -> None:
        self._states.pop(topic, None)


def _prioritised(render: Any) -> Any:
    """The renderer, with the level's priority before its line."""

    def rendered(logger: object, name: str, fields: Any) -> str:
        number = PRIORITY.get(fields.get("level", ""), PRIORITY["info"])
        return f"<{number}>{render(logger, name, fields)}"

    return rendered


def _one_line(_logger: object, _name: str, fields: Any) -> Any:
    """The renderer escapes line feeds but not carriage returns, with which a value could overwrite its own line."""
    for key, value in fields.items():
        if isinstance(value, str) and "\r" in value:
            fields[key] = value.replace("\r", "\n")
    return fields
