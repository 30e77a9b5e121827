"""What a story expects of the messages that were sent."""

from __future__ import annotations

import re

from fabricmon.model import Severity
from tests.stories.sent import Inbox


def assert_named(inbox: Inbox, pattern: str, *, by: float, severity: Severity = Severity.WARNING) -> None:
    """A firing incident of at least that severity matches, sent by that second after the fault."""
    found = [one for one in inbox.firing(pattern, by=by) if one.incident.severity.rank >= severity.rank]
    assert found, f"no {severity.value} of {pattern} by {by:.0f} s:\n{inbox}"


def assert_only(inbox: Inbox, pattern: str, *, most: int) -> None:
    """No firing component but those that match is named, in at most that many messages, the resolved ones included."""
    others = [str(one) for one in inbox.firing() if not re.search(pattern, one.incident.component)]
    assert not others, f"named beside {pattern}:\n{inbox}"
    assert inbox.messages <= most, f"{inbox.messages} messages:\n{inbox}"


def assert_one_incident(inbox: Inbox) -> None:
    assert len({one.incident.id for one in inbox.firing()}) == 1, str(inbox)


def assert_silent(inbox: Inbox) -> None:
    assert inbox.messages == 0, str(inbox)


def assert_resolved(inbox: Inbox, *, most: int) -> None:
    """All that was sent is resolved, in at most that many messages."""
    assert not inbox.unresolved, f"not resolved: {inbox.unresolved}\n{inbox}"
    assert inbox.messages <= most, f"{inbox.messages} messages:\n{inbox}"


def assert_not_critical(inbox: Inbox, *, most: int) -> None:
    """Nothing critical, at most that many messages."""
    assert not inbox.of(Severity.CRITICAL), str(inbox)
    assert inbox.messages <= most, f"{inbox.messages} messages:\n{inbox}"
