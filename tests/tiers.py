"""Which tests `make test` leaves to `make test-all`: those that compute for long.

`tests/long_tests.txt` lists the ids of all tests that took more than LIMIT_S of CPU time, of their own process and of
the processes they started, when they were last measured; of a file of such tests only, the cheapest stays:

    FABRICMON_TEST_COSTS=costs.jsonl python -m pytest -p tests.tiers -n 2 -m "not rig"
    python -m tests.tiers costs.jsonl

Besides them, what is marked `vm` (boots the test machine) or `chaos` (kills processes) is left out.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_S = 0.1
LIST = Path(__file__).with_name("long_tests.txt")

KEPT: dict[str, str] = {
    "house/": "what a change of the code breaks first",
    "docs/test_lists_are_whole.py::": "a changed table without `make docs`",
    "fuzz/test_readers.py::test_every_module_that_decodes_has_a_row": "a new reader without its row",
    "lifecycle/test_lifecycle.py::test_whatever_happens_incidents_end_and_notifications_are_complete": "state machine",
    "engine/test_laws_of_the_situation.py::TestLaws": "state machine of incidents",
    "schemas/test_api.py::test_every_route_is_described": "a new route without its description",
    "page/test_page_in_a_browser.py::": "the page in Chromium",
    "demo/test_demo.py::test_the_live_demo_serves_its_page_and_ends_cleanly": "the demo as a user starts it",
    "web/test_security_with_peers.py::test_prometheus_scrapes_both_over_tls_with_a_password": "a real Prometheus",
    "fabric/test_real_subnet.py::test_every_node_name_and_link_is_as_in_the_netlist": "ibsim",
    "netns/test_link_event_time.py::": "a link event of the kernel",
    "recorded/": "a verdict that changed unseen",
    "replay/test_same_decisions.py::test_another_hash_seed_decides_the_same[1]": "decisions are repeatable",
}
"""Beginning of an id -> why `make test` runs these whatever they cost."""


def is_long(test_id: str) -> bool:
    """Whether the test with this id (`tests/peers/test_x.py::test_y[z]`) is left to `make test-all`."""
    return test_id.removeprefix("tests/") in _LONG


def _used_s() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Append `[id, CPU seconds]` of each test to the file named by FABRICMON_TEST_COSTS."""
    before = _used_s()
    yield
    with open(os.environ["FABRICMON_TEST_COSTS"], "a") as costs:
        costs.write(json.dumps([item.nodeid, round(_used_s() - before, 3)]) + "\n")


def long_of(costs: list[tuple[str, float]]) -> list[str]:
    """The ids for the list, sorted, from ids and CPU seconds."""
    cheapest: dict[str, tuple[float, str]] = {}
    for test, used_s in costs:
        file = test.partition("::")[0]
        cheapest[file] = min(cheapest.get(file, (used_s, test)), (used_s, test))
    stay = {test for _, test in cheapest.values()}
    ids = (test.removeprefix("tests/") for test, used_s in costs if used_s > LIMIT_S and test not in stay)
    return sorted({test for test in ids if not test.startswith(tuple(KEPT))})


_LONG = frozenset(LIST.read_text().splitlines())

if __name__ == "__main__":
    measured = [tuple(json.loads(line)) for line in Path(sys.argv[1]).read_text().splitlines()]
    LIST.write_text("".join(f"{test}\n" for test in long_of(measured)))
