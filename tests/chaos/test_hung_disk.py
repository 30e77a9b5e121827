"""A state disk that hangs, with real processes: it is reported, evaluation and accepted deliveries continue, nothing is
lost.

The disk is a FUSE file system whose operations wait (tests/rigs/faulty_disk.py).
"""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fabricmon.central.store.database import FILE
from tests.chaos.site import Site
from tests.rigs.faulty_disk import FaultyDisk
from tests.rigs.receiver import posts


def firing(site: Site) -> set[str]:
    """Components of the incidents that the server shows."""
    return {i["component"] for i in site.ask("/api/v1/incidents?status=firing")["incidents"]}


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_hung_disk_is_shown_and_stops_neither_evaluation_nor_deliveries(
    tmp_path: Path, require: Callable[..., str]
) -> None:
    require("fuse", "the disk that hangs")
    with FaultyDisk(tmp_path) as disk, Site(tmp_path, disk.root / "state", limit="1s") as site:
        first, second = site.node.devices[0], site.node.devices[2]  # neighbours may share a cage: one incident
        # The receiver does not answer: the first incident is accepted, and not delivered before the disk hangs.
        site.daemons["receiver"].process.send_signal(signal.SIGSTOP)
        site.node.down(first)
        site.wait("an accepted notification", lambda: "} 1.0" in outbox(site))
        site.wait("an attempt", lambda: '"ops"} 0.0' not in retried(site))
        disk.be("hung")
        hung = time.monotonic()
        site.wait("the metric", lambda: site.metric("fabricmon_central_store_success") == 0)
        print(f"hung disk in the metric after {time.monotonic() - hung:.1f} s")
        reason = "the disk has not answered"
        site.wait("the page, /health and the log", lambda: all(
            reason in text for text in (site.text("/"), site.text("/health"), (tmp_path / "server.log").read_text())
        ))  # fmt: skip
        ticks = site.metric("fabricmon_central_ticks_total")
        site.node.down(second)
        site.wait("evaluation beside the hung disk", lambda: len(firing(site)) >= 2)
        assert site.metric("fabricmon_central_ticks_total") > ticks
        assert not posts(site.received)
        site.daemons["receiver"].process.send_signal(signal.SIGCONT)
        site.wait("the accepted one, delivered while the disk hangs", lambda: site.told_firing(first))
        site.wait("no more attempts", lambda: "} 0.0" in outbox(site))
        assert not site.told_firing(second), "what the disk did not accept is not sent: a restart would forget it"
        assert site.metric("fabricmon_central_store_success") == 0
        disk.be("ok")
        site.wait("the second one", lambda: site.told_firing(second))
        site.wait("the recovery", lambda: site.metric("fabricmon_central_store_success") == 1)
        site.wait("every outcome in the store", lambda: not pending(site.state))
        keys = [post["headers"]["Idempotency-Key"] for post in posts(site.received)]
        site.kill("server")
        site.node.up(first)
        site.node.up(second)
        site.wait("both ends", lambda: len(site.told()) >= 2 and site.all_over())
        again = [post["headers"]["Idempotency-Key"] for post in posts(site.received)][len(keys) :]
        assert not set(again) & set(keys), "what was delivered while the disk hung was recorded when it answered"


def pending(state: Path) -> int:
    """Notifications in the store without an outcome."""
    with closing(sqlite3.connect(f"file:{state / FILE}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM outbox WHERE state = 'pending'").fetchone()[0])


def outbox(site: Site) -> str:
    return line(site, "fabricmon_outbox_notifications{")


def retried(site: Site) -> str:
    return line(site, "fabricmon_notifications_retried_total{")


def line(site: Site, start: str) -> str:
    return next(line for line in site.text("/metrics").splitlines() if line.startswith(start))
