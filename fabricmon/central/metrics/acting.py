"""/metrics of the senders that act."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fabricmon.central.delivery.acting import ActingState, Actors
from fabricmon.runtime.exposition import Family

GAUGES: tuple[tuple[str, str, Callable[[ActingState], float]], ...] = (
    ("fabricmon_acting_success", "Whether the last call of the actor succeeded", lambda s: not s.error),
    ("fabricmon_acting_dry_run", "Whether the actor is in dry run", lambda s: s.report.dry),
    ("fabricmon_acting_held_nodes", "Nodes that the actor has drained or tainted", lambda s: s.report.held),
    ("fabricmon_acting_withheld_nodes", "Nodes with an incident of a listed kind that are not drained or tainted",
     lambda s: len(s.report.withheld)),
)  # fmt: skip


def families(actors: Actors) -> Iterator[Family]:
    """Actions done, failed and withheld, by actor; nothing where none is configured."""
    states = sorted(actors.states.items())
    if not states:
        return
    done = [({"actor": name, "verb": verb}, float(n)) for name, s in states for verb, n in sorted(s.done.items())]
    yield Family("fabricmon_actions_total", "counter", "Actions that succeeded, by verb", done)
    failed = [({"actor": name}, float(s.failed)) for name, s in states]
    yield Family("fabricmon_actions_failed_total", "counter", "Actions that failed; they are retried", failed)
    for metric, help, value in GAUGES:
        yield Family(metric, "gauge", help, [({"actor": name}, float(value(s))) for name, s in states])
