"""What a receiver makes of servers that see one fleet: the function of docs/webhook.md, on planned notifications."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.forms.times import rfc3339
from fabricmon.model import Incident, Severity
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, due_notifications, incident

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/webhook.md").read_text()
OPS = Receiver("ops", repeat=0.0)
LEAST = 5.0  # seconds of an episode, and between two, at least


def is_news() -> Any:
    """The function that docs/webhook.md shows."""
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "def is_news" in c)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_news"]


class Sent:
    """What one server sends of one incident, in order: (time of arrival, the incident's document)."""

    def __init__(
        self, episodes: list[tuple[float, float, float | None]], starts: float, skew: float, lag: float
    ) -> None:
        """`episodes`: begin, end and the time at which it becomes critical. `skew` of the clock, `lag` of delivery."""
        told = LastNotifications()
        self.arrivals: list[tuple[float, dict[str, Any]]] = []
        for number, (begin, end, worse) in enumerate(episodes):
            if end <= starts:
                continue
            seen = max(begin, starts)
            now = incident(since=seen + skew, revision=10 * number + 1)
            changes = [(seen, now)]
            if worse is not None:
                now = replace(now, severity=Severity.CRITICAL, revision=now.revision + 1)
                changes.append((max(worse, starts), now))
            over = replace(now, status="resolved", resolved=end + skew, revision=now.revision + 1)
            for at, change in [*changes, (end, over)]:
                self._plan(change, at, skew, lag, told)

    def _plan(self, change: Incident, at: float, skew: float, lag: float, told: LastNotifications) -> None:
        for note in due_notifications([change], told, [OPS], [], at + skew):
            told.add(note)
            for i in note.incidents:
                document = {"id": i.id, "status": i.status, "key": note.states[i.id].key, "severity": i.severity.value}
                times = {"since": rfc3339(i.since), "resolved": i.resolved and rfc3339(i.resolved)}
                self.arrivals.append((at + lag, document | times))


_EPISODES = st.lists(
    st.tuples(st.floats(LEAST, 5000), st.floats(LEAST, 5000), st.none() | st.floats(0.1, 0.9)), min_size=1, max_size=4
)
_SERVERS = st.lists(
    st.tuples(st.just(0.0) | st.floats(0, 10_000), st.floats(-0.2, 0.2), st.floats(0, 6000)), min_size=1, max_size=2
)


@given(_EPISODES, _SERVERS)
def test_each_state_of_each_episode_is_news_once(
    lives: list[tuple[float, float, float | None]], others: list[tuple[float, float, float]]
) -> None:
    at, episodes = T0, []
    for pause, length, worse in lives:
        at += pause
        episodes.append((at, at + length, None if worse is None else at + length * worse))
        at += length
    servers = [Sent(episodes, T0, 0.0, 0.0), *(Sent(episodes, T0 + begins, skew, lag) for begins, skew, lag in others)]
    news, known = is_news(), dict[str, Any]()
    arrivals = sorted((a for s in servers for a in s.arrivals), key=lambda a: a[0])
    heard = [document for _, document in arrivals if news(known, document)]
    expected = []
    for _, _, worse in episodes:
        grades = ["warning"] if worse is None else ["warning", "critical"]
        expected += [("firing", grade) for grade in grades] + [("resolved", grades[-1])]
    assert [(d["status"], d["severity"]) for d in heard] == expected


@given(_EPISODES)
def test_a_server_that_replaces_a_dead_one_is_heard(lives: list[tuple[float, float, float | None]]) -> None:
    """The first server dies after the first episode and its state is lost; the second has never seen that episode."""
    at, episodes = T0, []
    for pause, length, worse in lives:
        at += pause
        episodes.append((at, at + length, None if worse is None else at + length * worse))
        at += length
    first, second = Sent(episodes[:1], T0, 0.0, 0.0), Sent(episodes, episodes[0][1] + 1.0, 0.1, 0.0)
    news, known = is_news(), dict[str, Any]()
    heard = [document for _, document in first.arrivals + second.arrivals if news(known, document)]
    assert [d["status"] for d in heard].count("resolved") == len(episodes)
