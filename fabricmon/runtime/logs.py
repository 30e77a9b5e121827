"""The process's log: one line an event on stderr, logfmt or JSON. Transitions are said once, repetitions counted."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")

PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2, "exception": 3}
"""Syslog's numbers of our levels, which the journal takes from the start of a line (sd-daemon(3))."""

MAX_TOPICS = 4096
"""Topics whose state `Transitions` remembers; the oldest is forgotten first (and may then be said again)."""


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """The process's log on stderr.

    format  one line an event, as key=value pairs or as JSON.
    level   the least severe events that are written.
    """

    format: Literal["logfmt", "json"] = "logfmt"
    level: Literal["debug", "info", "warning", "error"] = "info"


def configure(format: str = "logfmt", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up logging for the whole process. ValueError for a format or level that does not exist.

    Where stderr is the journal each line begins with its priority, which the journal keeps, and has no time, which the
    journal has.
    """
    if format not in FORMATS:
        raise ValueError(f"log format must be one of {', '.join(FORMATS)}, got {format!r}")
    if level not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, got {level!r}")
    number = getattr(logging, level.upper())
    journal = to_journal(stream or sys.stderr)
    out: Any = Lossy(stream or sys.stderr)
    first = ["level", "event"] if journal else ["ts", "level", "event"]
    last: Any = (
        structlog.processors.JSONRenderer()
        if format == "json"
        else structlog.processors.LogfmtRenderer(key_order=first, bool_as_flag=False)
    )
    if journal:
        last = _prioritised(last)
    stamp: Any = _as_is if journal else structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            _one_line if format == "logfmt" else _as_is,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    # Libraries (aiohttp, asyncio) log by the standard library: the same line format, warnings and worse only.
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.processors.add_log_level, stamp],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _one_line if format == "logfmt" else _as_is,
                last,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))


class Lossy:
    """A stream of which a line may be lost: a log that cannot be written (stderr closed, its disk full) must not end
    what it would tell of. `stream` None is stderr as Python has it where it was closed before the start."""

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


def to_journal(stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `stream` goes to systemd's journal: JOURNAL_STREAM names the device and inode of the one that does."""
    if stream is None:
        return False
    try:
        about = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM", "") == f"{about.st_dev}:{about.st_ino}"


def complain(text: str) -> None:
    """What a command has to say on stderr when it cannot go on, as it is; to the journal each line as an error."""
    head = f"<{PRIORITY['error']}>" if to_journal(sys.stderr) else ""
    Lossy(sys.stderr).write("".join(f"{head}{line}\n" for line in text.splitlines()))


def get(**bound: object) -> FilteringBoundLogger:
    """A logger; `bound` goes on each of its lines."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger


class Transitions:
    """Says a topic's state when it changes, and how often it was seen meanwhile."""

    def __init__(self, log: FilteringBoundLogger, limit: int = MAX_TOPICS) -> None:
        self._log, self._limit = log, limit
        self._states: dict[str, tuple[str, int]] = {}

    def tell(self, topic: str, state: str, event: str, *, bad: bool, **fields: object) -> bool:
        """Log `event` if `topic` is not in `state` already; True if it was logged.

        A topic that was never seen and is not bad is not worth a line: it is remembered silently.
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


def _as_is(_logger: object, _name: str, fields: Any) -> Any:
    return fields
