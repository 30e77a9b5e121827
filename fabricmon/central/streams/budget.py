"""What is left of what one agent may send, by kind of message. Decides only; the numbers are in `limits`."""

from __future__ import annotations

from dataclasses import dataclass

from fabricmon.central.streams.limits import LIMITS, OverLimit

SIZES = {
    "frames": "frame_bytes",
    "events": "event_bytes",
    "controls": "control_bytes",
    "inventories": "inventory_bytes",
    "names": "",
}
"""Kind of message -> limit of the bytes of all of them, in times `central.pull.max_message`; "": they have none."""


@dataclass(slots=True)
class BudgetWindow:
    """Messages and bytes that are left until `until`."""

    since: float
    until: float
    messages: int
    bytes: int


class StreamBudget:
    """What is left of one agent's budget; it outlives the agent's streams, so that a new one gives no new budget."""

    def __init__(self) -> None:
        self._windows: dict[str, BudgetWindow] = {}

    def spend(self, kind: str, size: int, max_message: int, now: float, messages: int = 1) -> None:
        """Count messages of together `size` bytes. OverLimit where the window's messages or bytes are used up."""
        window = self._windows.get(kind)
        if window is None or not window.since <= now < window.until:  # also where the clock was set back
            window = self._windows[kind] = _window(kind, max_message, now)
        window.messages -= messages
        window.bytes -= size
        if window.messages < 0 or window.bytes < 0:
            raise _over(kind if window.messages < 0 else SIZES[kind], max_message)

    def spend_amount(self, limit: str, amount: int, now: float) -> None:
        """Count `amount` of what is limited. OverLimit where the window's is used up."""
        window, allowed = self._windows.get(limit), LIMITS[limit]
        if window is None or not window.since <= now < window.until:
            window = self._windows[limit] = BudgetWindow(now, now + allowed.per, 0, int(allowed.most))
        window.bytes -= amount
        if window.bytes < 0:
            raise _over(limit, 1)


def _window(kind: str, max_message: int, now: float) -> BudgetWindow:
    allowed, size = LIMITS[kind], SIZES[kind]
    weight = LIMITS[size].most * max_message if size else 0
    return BudgetWindow(now, now + allowed.per, int(allowed.most), int(weight))


def _over(limit: str, max_message: int) -> OverLimit:
    allowed = LIMITS[limit]
    if limit in SIZES.values():
        return OverLimit(limit, f"it sends more than {allowed.most * max_message:.0f} bytes in {allowed.per:g} s of "
                                f"what is limited to {allowed.most:g} {allowed.what}")  # fmt: skip
    return OverLimit(limit, f"it sends more than {allowed.most:.0f} {allowed.what} in {allowed.per:g} s")
