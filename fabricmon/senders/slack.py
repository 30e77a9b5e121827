"""Sender `slack`: messages over an incoming webhook, or with a bot token and a thread per incident.

A webhook can only post: each notification is a new message. With a token (`chat.postMessage`, `chat.update`; scope
`chat:write`) the first message of an incident is kept up to date, and later notifications are posted in its thread. The
message is kept as a receipt; after a crash between Slack's answer and the receipt it is posted twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.senders.attempt import NO_RECEIPTS, Attempt, DeliveryOutcome
from fabricmon.senders.post import HttpAnswer, post, read_secret, without
from fabricmon.senders.routing import Worded
from fabricmon.senders.settings import check_url
from fabricmon.senders.slack_message import DETAILED, digest, mentioned, reply, single

REFRESH = 0.0
KEEPS = True  # receipts
ACKNOWLEDGES = True  # is notified of acknowledgements

# Temporary errors of the Web API.
LATER = frozenset({"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable",
                   "request_timeout", "accesslimited", "team_added_to_org"})  # fmt: skip
# Configuration errors, in Slack or in fabricmon: retried until corrected.
SITE = frozenset({"invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive", "missing_scope",
                  "no_permission", "channel_not_found", "not_in_channel", "is_archived", "restricted_action",
                  "org_login_required", "ekm_access_denied", "access_denied"})  # fmt: skip
MAX_ANSWER = 256 << 10  # bytes: the Web API repeats the whole message
SITE_STATUS = frozenset({401, 403, 404, 410})  # of a webhook: revoked, or its channel is deleted or archived


class SlackConfig(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `slack`: `url_file`, or `token_file` with `channel`; see also `routing.Worded`.

    url_file    file with the address of an incoming webhook (the address is a secret).
    token_file  file with a bot's token (xoxb-...), for threads and updates.
    channel     id (C0123ABCD) or #name to post to; with `token_file`.
    mention     mention in messages about new critical incidents: "<!here>", "<!channel>", "<@U0123ABCD>",
                "<!subteam^S0123ABCD>"; "": none.
    api         address of the Web API; with `token_file`.
    ca_file     CA certificates (PEM) to trust instead of the system's.
    """

    url_file: str = ""
    token_file: str = ""
    channel: str = ""
    mention: str = ""
    api: str = "https://slack.com/api"
    ca_file: str = ""

    def __post_init__(self) -> None:
        self.check()
        check_url(self.api, "api")
        if bool(self.url_file) == bool(self.token_file):
            raise ValueError("set either `url_file` (an incoming webhook) or `token_file` (a bot)")
        if bool(self.token_file) != bool(self.channel):
            raise ValueError("`token_file` and `channel` must be set together")
        if self.mention and not re.fullmatch(r"<(!here|!channel|@[A-Z0-9]+|!subteam\^[A-Z0-9]+)>", self.mention):
            raise ValueError("`mention` must be <!here>, <!channel>, <@USER> or <!subteam^GROUP>")

    @property
    def each(self) -> int:
        return DETAILED


class Receipt(Struct, frozen=True):
    """The message of an incident in Slack.

    ts, channel  id of the message
    key          last notification posted, so that no part of it is posted twice
    alone        the message is about this incident only, and may be updated
    """

    ts: str
    channel: str
    key: str
    alone: bool


async def send(
    session: aiohttp.ClientSession,
    config: SlackConfig,
    notification: Notification,
    links: IncidentLinks = NO_LINKS,
    receipts: Mapping[str, str] = NO_RECEIPTS,
) -> Attempt:
    """One attempt. With a token up to DETAILED incidents are posted separately, with a receipt each."""
    if config.token_file:
        together = notification.reason == DIGEST or len(notification.incidents) > DETAILED
        by_token = _digest_by_token if together else _by_token
        return await by_token(session, config, notification, links, receipts)
    try:
        url = read_secret(config.url_file)
        check_url(url, "url_file")
    except (OSError, ValueError) as error:
        # The content of the file must not appear in an error.
        why = str(error) if isinstance(error, OSError) else "must contain the address of an incoming webhook"
        return Attempt.retry(f"{config.url_file}: {why}")
    done: dict[str, str] = {}
    for name, message in messages(config, notification, links).items():
        if receipts.get(name) == notification.key:
            continue
        answer = await post(session, url, msgspec.json.encode(message), {}, config.timeout, ca_file=config.ca_file)
        result = without(answer if isinstance(answer, Attempt) else _of_webhook(answer), url)
        if result.outcome is not DeliveryOutcome.DONE:
            return result._replace(receipts=done)
        done[name] = notification.key
    return Attempt.done("posted", answered=True, receipts=done)


def preview(config: SlackConfig, notification: Notification, links: IncidentLinks = NO_LINKS) -> str:
    """The messages that `send` would post."""
    made = list(messages(config, notification, links).values())
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def messages(config: SlackConfig, notification: Notification, links: IncidentLinks) -> dict[str, dict[str, Any]]:
    """The messages by the id of their (first) incident."""
    new = notification.reason not in ("resolved", "absorbed", "acknowledged")
    incidents = notification.incidents
    if len(incidents) > DETAILED or notification.reason == DIGEST:
        made = {incidents[0].id: digest(config, notification, links)}
    else:
        made = {i.id: single(config, i, notification, links) for i in incidents}
    grave = [i for i in incidents if i.severity is Severity.CRITICAL and i.status == "firing"]
    if config.mention and new and grave:
        called = grave[0].id if grave[0].id in made else incidents[0].id
        made[called] = mentioned(made[called], config.mention)
    return made


async def _by_token(
    session: aiohttp.ClientSession,
    config: SlackConfig,
    notification: Notification,
    links: IncidentLinks,
    receipts: Mapping[str, str],
) -> Attempt:
    done: dict[str, str] = {}
    going_on = _going_on(notification, receipts)
    fresh = [i for i in notification.incidents if i.id not in going_on]
    for incident in notification.incidents:
        known = going_on.get(incident.id)
        if known is None or known.key == notification.key:
            continue
        result = await _go_on(session, config, incident, notification, links, known)
        if result.outcome is not DeliveryOutcome.DONE:
            return result._replace(receipts=done)
        done[incident.id] = _written(known.ts, known.channel, notification.key, known.alone)
    posted = messages(config, msgspec.structs.replace(notification, incidents=tuple(fresh)), links) if fresh else {}
    for name, message in posted.items():
        sent = {"channel": config.channel, "unfurl_links": False, **message}
        result, answer = await _call(session, config, "chat.postMessage", sent)
        if result.outcome is not DeliveryOutcome.DONE:
            return result._replace(receipts=done)
        about = fresh if len(posted) == 1 else [i for i in fresh if i.id == name]
        place = str(answer.get("ts", "")), str(answer.get("channel", config.channel))
        done |= {i.id: _written(*place, notification.key, len(about) == 1) for i in about}
    return Attempt.done("posted", answered=True, receipts=done)


async def _digest_by_token(
    session: aiohttp.ClientSession,
    config: SlackConfig,
    notification: Notification,
    links: IncidentLinks,
    receipts: Mapping[str, str],
) -> Attempt:
    """One message about all, and an update of each message about one of them."""
    going_on = _going_on(notification, receipts)
    for incident in notification.incidents:
        known = going_on.get(incident.id)
        if known is not None and known.alone:
            result = await _update(session, config, incident, notification, links, known)
            if result.outcome is DeliveryOutcome.RETRY:
                return result
    (message,) = messages(config, notification, links).values()
    result, answer = await _call(
        session, config, "chat.postMessage", {"channel": config.channel, "unfurl_links": False, **message}
    )
    if result.outcome is not DeliveryOutcome.DONE:
        return result
    posted = Receipt(str(answer.get("ts", "")), str(answer.get("channel", config.channel)), notification.key, False)
    places = {i.id: going_on.get(i.id, posted) for i in notification.incidents}
    done = {id: _written(at.ts, at.channel, notification.key, at.alone) for id, at in places.items()}
    return Attempt.done("posted", answered=True, receipts=done)


def _going_on(notification: Notification, receipts: Mapping[str, str]) -> dict[str, Receipt]:
    """The messages of incidents that are continued. A new episode gets a new one, not a post in the old thread."""
    started = {i.id: r for i in notification.incidents if (r := _receipt(receipts.get(i.id, ""))) is not None}
    return {id: r for id, r in started.items() if id in notification.before or r.key == notification.key}


async def _go_on(
    session: aiohttp.ClientSession,
    config: SlackConfig,
    incident: Incident,
    notification: Notification,
    links: IncidentLinks,
    known: Receipt,
) -> Attempt:
    """Update the first message (repeatable), then post in its thread."""
    if known.alone:
        result = await _update(session, config, incident, notification, links, known)
        # The message may have been deleted: still post in the thread.
        if result.outcome is DeliveryOutcome.RETRY:
            return result
    word = reply(config, incident, notification, links)
    if config.mention and notification.reason == "severity rose":
        word = mentioned(word, config.mention)
    worse = notification.reason in ("severity rose", "cause sharpened")
    thread = {"channel": known.channel, "thread_ts": known.ts, "reply_broadcast": worse, **word}
    result, _ = await _call(session, config, "chat.postMessage", thread)
    return result


async def _update(
    session: aiohttp.ClientSession,
    config: SlackConfig,
    incident: Incident,
    notification: Notification,
    links: IncidentLinks,
    known: Receipt,
) -> Attempt:
    """Update the first message of an incident."""
    now = {"channel": known.channel, "ts": known.ts, **single(config, incident, notification, links)}
    result, _ = await _call(session, config, "chat.update", now)
    return result


async def _call(
    session: aiohttp.ClientSession, config: SlackConfig, method: str, body: dict[str, Any]
) -> tuple[Attempt, dict[str, Any]]:
    """Call a method of the Web API. It answers 200, with the result in the body."""
    sent, url = msgspec.json.encode(body), f"{config.api.rstrip('/')}/{method}"
    got = await post(session, url, sent, {}, config.timeout, config.token_file, config.ca_file, MAX_ANSWER)
    if isinstance(got, Attempt):
        return got, {}
    result, answer = got.result(), {}
    if result.outcome is DeliveryOutcome.DONE:
        try:
            answer = json_value(got.text, dict[str, Any])
        except Undecodable:
            return Attempt.retry(f"{method}: not an answer of Slack: {got.text[:80]!r}"), {}
        if answer.get("ok") is not True:
            result = _refused(f"{method}: {answer.get('error', 'no reason given')}", str(answer.get("error", "")))
    elif got.status in SITE_STATUS:
        result = result._replace(outcome=DeliveryOutcome.RETRY, answered=False)
    return result, answer


def _refused(reason: str, error: str) -> Attempt:
    if error in SITE:
        return Attempt.retry(reason)
    return Attempt(DeliveryOutcome.RETRY if error in LATER else DeliveryOutcome.NEVER, reason, answered=True)


def _of_webhook(answer: HttpAnswer) -> Attempt:
    result = answer.result()
    if answer.status in SITE_STATUS:
        return result._replace(outcome=DeliveryOutcome.RETRY, answered=False)
    return result


def _receipt(text: str) -> Receipt | None:
    try:
        return json_value(text, Receipt) if text else None
    except Undecodable:
        return None  # a receipt of another kind of sender with the same name


def _written(ts: str, channel: str, key: str, alone: bool) -> str:
    return msgspec.json.encode(Receipt(ts, channel, key, alone)).decode()
