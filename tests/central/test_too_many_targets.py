"""Targets beyond the limit are left out, counted, and named in a warning until they fit."""

from __future__ import annotations

from fabricmon.central.targets.discovery import Target, TargetDiscovery


async def test_targets_beyond_the_limit_are_a_warning_with_their_number() -> None:
    given: list[dict[str, Target]] = []
    for limit, left in ((3, 2), (5, 0)):
        found = TargetDiscovery([Target(f"n{n}:1") for n in range(5)], [], limit, given.append, lambda *_: None)
        found.start()
        found.stop()
        assert len(given.pop()) == 5 - left
        warnings = found.warnings()
        assert [word for one in warnings for word in one.split() if word.isdigit()] == ([str(left)] if left else [])
