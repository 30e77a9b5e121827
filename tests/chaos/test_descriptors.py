"""Processes without a free file descriptor: deliveries and answers continue, one line in the log says why."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos.site import Site
from tests.chaos.starve import without_descriptors

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def lines(log: Path) -> list[str]:
    """Lines of a log about descriptors, and of asyncio's own about the same."""
    words = ("descriptor", "Too many open files", "out of system resource")
    return [line for line in log.read_text().splitlines() if any(word in line for word in words)]


def test_a_server_without_descriptors_delivers_answers_and_logs_one_line(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        first, second = site.node.devices[:2]
        with without_descriptors(site.pid("server")):
            began = time.monotonic()
            site.node.down(first)
            site.wait("its notification", lambda: site.told_firing(first))
            site.wait("an answer", lambda: site.text("/-/live"))
            site.wait("the page", lambda: "Out of file descriptors" in site.text("/"))
            # An agent that restarts is followed later, and is not taken for one that refuses.
            site.kill("agent")
            site.wait("the agent", lambda: site.text("/-/ready", "agent"))
            found = lines(tmp_path / "server.log")
            assert len(found) <= 1 + (time.monotonic() - began) / 60, found
            assert "reserve" in found[0]
        site.wait("the stream", lambda: site.ask("/api/v1/nodes")["nodes"][0]["presence"] == "live")
        site.node.down(second)
        site.wait("the next notification", lambda: site.told_firing(second))
        site.wait("nothing scarce", lambda: "Out of file descriptors" not in site.text("/"))


def test_an_agent_without_descriptors_streams_answers_and_logs_one_line(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        first = site.node.devices[0]
        with without_descriptors(site.pid("agent")):
            began = time.monotonic()
            site.wait("an answer", lambda: site.text("/-/live", "agent"))
            site.wait("the reason", lambda: "Out of file descriptors" in site.text("/health", "agent"))
            site.node.down(first)
            site.wait("its notification", lambda: site.told_firing(first))
            found = lines(tmp_path / "agent.log")
            assert len(found) <= 1 + (time.monotonic() - began) / 60, found
            assert "reserve" in found[0]
        site.node.up(first)
        site.wait("its end", site.all_over)
