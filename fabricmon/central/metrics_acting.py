"""/metrics of the senders that act."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fabricmon.central.acting import ActingState, Actors
from fabricmon.runtime.exposition import Family

GAUGES: tuple[tuple[str, str, Callable[[ActingState], float]], ...] = (
    ("fabricmon_acting_success", "Whether the last look at what was done succeeded", lambda s: not s.error),
    ("fabricmon_acting_dry_run", "Whether it only says what it would do", lambda s: s.report.dry),
    ("fabricmon_acting_held_nodes", "Nodes that stand acted on", lambda s: s.report.held),
    ("fabricmon_acting_withheld_nodes", "Nodes with an incident of a listed kind on which nothing is done",
     lambda s: len(s.report.withheld)),
)  # fmt: skip


def families(actors: Actors) -> Iterator[Family]:
    """What each actor did, could not do and did not do; nothing where none is configured."""
    states = sorted(actors.states.items())
    if not states:
        return
    done = [({"actor": name, "verb": verb}, float(n)) for name, s in states for verb, n in sorted(s.done.items())]
    yield Family("fabricmon_actions_total", "counter", "Actions that succeeded, by what was done", done)
    failed = [({"actor": name}, float(s.failed)) for name, s in states]
    yield Family("fabricmon_actions_failed_total", "counter", "Actions that failed; they are tried again", failed)
    for metric, help, value in GAUGES:
        yield Family(metric, "gauge", help, [({"actor": name}, float(value(s))) for name, s in states])
