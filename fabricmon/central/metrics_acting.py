"""/metrics of the senders that act."""

from __future__ import annotations

from collections.abc import Iterator

from fabricmon.central.acting import Actors
from fabricmon.runtime.exposition import Family


def families(actors: Actors) -> Iterator[Family]:
    """What each actor did, could not do and did not do; nothing where none is configured."""
    states = sorted(actors.states.items())
    if not states:
        return
    done = [({"actor": name, "verb": verb}, float(n)) for name, s in states for verb, n in sorted(s.done.items())]
    yield Family("fabricmon_actions_total", "counter", "Actions that succeeded, by what was done", done)
    yield Family("fabricmon_actions_failed_total", "counter", "Actions that did not succeed; they are tried again",
                 [({"actor": name}, float(s.failed)) for name, s in states])  # fmt: skip
    for name, help, value in (
        ("success", "Whether the last look at what was done succeeded", lambda s: not s.error),
        ("dry_run", "Whether it only says what it would do", lambda s: s.report.dry),
        ("held_nodes", "Nodes that stand acted on", lambda s: s.report.held),
        (
            "withheld_nodes",
            "Nodes with an incident of a listed kind on which nothing is done",
            lambda s: len(s.report.withheld),
        ),
    ):
        yield Family(f"fabricmon_acting_{name}", "gauge", help, [({"actor": a}, float(value(s))) for a, s in states])
