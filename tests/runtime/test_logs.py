"""The log: one line an event, in the format asked for; a transition once, with the count of what went before."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from fabricmon.runtime import logs


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_logfmt_is_one_line_whatever_is_said(out: io.StringIO) -> None:
    logs.configure("logfmt", "info", out)
    logs.get(node="n 1").warning("two\nlines\rand a return", path='/x "y"', ok=True)
    logs.get().debug("too quiet")
    (line,) = out.getvalue().splitlines()
    assert line.startswith("ts=")
    assert line.endswith(r'level=warning event="two\nlines\nand a return" node="n 1" path="/x \"y\"" ok=true')


def test_json_and_the_traceback_of_a_defect(out: io.StringIO) -> None:
    logs.configure("json", "info", out)
    try:
        raise ValueError("x")
    except ValueError as e:
        logs.get().error("failed", exc_info=e)
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"]) == ("failed", "error")
    assert "ValueError: x" in line["exception"]


@pytest.mark.parametrize("format", logs.FORMATS)
def test_libraries_log_in_the_same_format(out: io.StringIO, format: str) -> None:
    logs.configure(format, "debug", out)
    logging.getLogger("aiohttp.server").info("chatter")
    try:
        raise ValueError("y")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("bad %s", "thing")
    (line,) = out.getvalue().splitlines()
    assert "bad thing" in line
    assert "ValueError: y" in line


def test_an_unknown_format_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match="logfmt, json"):
        logs.configure("xml")
    with pytest.raises(ValueError, match="debug, info"):
        logs.configure(level="loud")


def test_a_state_is_said_when_it_changes(out: io.StringIO) -> None:
    logs.configure("json", "info", out)
    t = logs.Transitions(logs.get(), limit=2)

    def note(state: str, topic: str = "mlx5_0") -> bool:
        return t.note(topic, state, f"now {state}", bad=state != "ok")

    assert [note(s) for s in ("ok", "ok", "bad", "bad", "bad", "ok", "bad")] == [
        False, False, True, False, False, True, True]
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(x["event"], x["level"], x.get("seen_before")) for x in lines] == [
        ("now bad", "warning", 2), ("now ok", "info", 3), ("now bad", "warning", None)]
    # bounded: the oldest topic is forgotten, not the newest
    note("bad", "a")
    note("bad", "b")
    assert note("bad", "b") is False
    assert note("bad", "mlx5_0") is True


def test_the_journal_gets_priorities_and_no_second_time(
    out: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        about = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{about.st_dev}:{about.st_ino}")
        for format in logs.FORMATS:
            logs.configure(format, "info", stream)
            logs.get().error("no rows")
            logs.get().info("two\nlines")
            logging.getLogger("aiohttp.server").warning("chatter")
        monkeypatch.setattr("sys.stderr", stream)
        logs.complain("a.yaml:1: bad\na.yaml:2: worse")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:3] for line in lines] == ["<3>", "<6>", "<4>", "<3>", "<6>", "<4>", "<3>", "<3>"]
    assert lines[0] == '<3>level=error event="no rows"'
    assert json.loads(lines[4][3:]) == {"event": "two\nlines", "level": "info"}
    assert lines[7] == "<3>a.yaml:2: worse"


def test_another_stream_than_the_journals_is_left_as_it_is(
    out: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    with (tmp_path / "log").open("w") as stream:
        assert not logs.to_journal(stream)
    logs.configure("logfmt", "info", out)
    logs.get().info("started")
    assert out.getvalue().startswith("ts=")


def test_a_stream_that_is_closed_loses_lines_and_ends_nothing():
    stream = io.StringIO()
    logs.configure(stream=stream)
    log = logs.get(part="test")
    log.warning("before")
    assert "before" in stream.getvalue()
    stream.close()
    log.warning("after")
    logging.getLogger("library").warning("after")


def test_without_a_stderr_at_all_nothing_is_said_and_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)  # as Python has it after `2>&-`
    logs.configure()
    logs.get().error("lost")
    logging.getLogger("library").warning("nor this")
    logs.complain("a.yaml:1: bad")
