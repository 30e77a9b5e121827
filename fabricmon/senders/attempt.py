"""The result of one attempt to send a notification."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

NO_RECEIPTS: Mapping[str, str] = MappingProxyType({})


class DeliveryOutcome(StrEnum):
    DONE = "done"  # accepted
    RETRY = "retry"  # not accepted now: retried later
    NEVER = "never"  # rejected: a retry would be rejected again


class Attempt(NamedTuple):
    """The result of one attempt to notify a receiver.

    reason       for the log and the store
    retry_after  seconds requested by the receiver, or None
    answered     the receiver has processed this notification; False: the receiver is unreachable or misconfigured
    receipts     incident id -> data of the answer for further notifications of that incident, such as its thread. Also
                 kept for RETRY: part of the notification is delivered.
    """

    outcome: DeliveryOutcome
    reason: str
    retry_after: float | None = None
    answered: bool = False
    receipts: Mapping[str, str] = NO_RECEIPTS

    @classmethod
    def done(cls, reason: str, *, answered: bool = False, receipts: Mapping[str, str] = NO_RECEIPTS) -> Attempt:
        return cls(DeliveryOutcome.DONE, reason, None, answered, receipts)

    @classmethod
    def retry(cls, reason: str, retry_after: float | None = None, answered: bool = False) -> Attempt:
        return cls(DeliveryOutcome.RETRY, reason, retry_after, answered)

    @classmethod
    def never(cls, reason: str, *, answered: bool = False) -> Attempt:
        return cls(DeliveryOutcome.NEVER, reason, None, answered)
