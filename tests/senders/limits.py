"""What receivers accept at most, with its source, and how much of it a message needs. One table; docs/receivers.md
lists the measured sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from email import policy
from email.message import EmailMessage
from typing import Any, NamedTuple

SLACK = "https://docs.slack.dev/reference/block-kit/blocks"
PAGERDUTY = "https://developer.pagerduty.com/docs/events-api-v2/trigger-events/"
MIMIR = "https://grafana.com/docs/mimir/latest/configure/configuration-parameters/ (max_label_value_length)"


class Limit(NamedTuple):
    """A limit of a receiver; `needed` measures a preview of its message, for `mail` the mail itself."""

    receiver: str
    what: str
    most: int
    source: str
    needed: Callable[[Any], int]


def _blocks(preview: str) -> list[list[str]]:
    """The texts of all blocks of each message."""
    return [
        [block["text"]["text"] for part in message.get("attachments", ()) for block in part["blocks"]]
        for message in json.loads(preview)
    ]


def _alerts(preview: str, part: str) -> Iterable[str]:
    return (text for alert in json.loads(preview) for text in alert[part].values())


def _longest(texts: Iterable[str]) -> int:
    return max((len(text) for text in texts), default=0)


def _bytes(made: Any) -> int:
    return len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode())


def lines(mail: EmailMessage) -> list[bytes]:
    """The lines of a mail as they are sent."""
    return mail.as_bytes(policy=policy.SMTP).split(b"\r\n")


LIMITS = (
    Limit("slack", "characters of a section", 3000, f"{SLACK}/section-block", lambda p: max(map(_longest, _blocks(p)))),
    Limit("slack", "blocks of a message", 50, SLACK, lambda p: max(map(len, _blocks(p)))),
    Limit("slack", "characters of all blocks of a message", 13_000, "observed: https://github.com/slackapi/bolt-js/issues/2509",
          lambda p: max(sum(map(len, blocks)) for blocks in _blocks(p))),
    Limit("slack", "characters of `text`", 40_000, "https://docs.slack.dev/reference/methods/chat.postMessage",
          lambda p: _longest(message["text"] for message in json.loads(p))),
    Limit("pagerduty", "characters of the summary", 1024, PAGERDUTY,
          lambda p: _longest(event["payload"]["summary"] for event in json.loads(p))),
    Limit("pagerduty", "characters of `dedup_key`", 255, PAGERDUTY,
          lambda p: _longest(event["dedup_key"] for event in json.loads(p))),
    Limit("pagerduty", "bytes of an event", 512_000, PAGERDUTY, lambda p: max(map(_bytes, json.loads(p)))),
    Limit("mail", "bytes of a line", 998, "RFC 5322, 2.1.1", lambda mail: max(map(len, lines(mail)))),
    Limit("alertmanager", "characters of a label's value", 2048, MIMIR, lambda p: _longest(_alerts(p, "labels"))),
    Limit("alertmanager", "characters of an annotation", 4000, "our own: Alertmanager has none",
          lambda p: _longest(_alerts(p, "annotations"))),
    Limit("webhook", "bytes of a body", 1 << 20,
          "default of nginx: https://nginx.org/en/docs/http/ngx_http_core_module.html#client_max_body_size",
          lambda p: _bytes(json.loads(p))),
)  # fmt: skip


def over(receiver: str, made: Any) -> list[str]:
    """The limits that a message is over."""
    return [
        f"{limit.receiver}: {limit.needed(made)} {limit.what}, at most {limit.most} ({limit.source})"
        for limit in LIMITS
        if limit.receiver == receiver and limit.needed(made) > limit.most
    ]
