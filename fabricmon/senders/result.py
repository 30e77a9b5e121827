"""What a sender says of one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

NO_RECEIPTS: Mapping[str, str] = MappingProxyType({})


class Outcome(StrEnum):
    DONE = "done"  # the receiver has it
    RETRY = "retry"  # not now: the same notification is sent again later
    NEVER = "never"  # refused for good: sending it again would be refused again


class Result(NamedTuple):
    """How it went.

    reason       for the log and the store
    retry_after  seconds the receiver asked for, None if it did not
    answered     the receiver is there and has looked at this notification; False: nobody can be told anything
    receipts     incident id -> what the receiver answered that further words on that incident need, such as the thread
                 to go on in. They are kept also when `outcome` is RETRY: part of it is then told already.
    """

    outcome: Outcome
    reason: str
    retry_after: float | None = None
    answered: bool = False
    receipts: Mapping[str, str] = NO_RECEIPTS
