"""Sender `slack`: by an incoming webhook, or by a bot's token with a thread for each incident.

A webhook can only post: each telling is a message of its own. With a token (`chat.postMessage`, `chat.update`; scope
`chat:write`) the first message of an incident always shows how it stands, and what comes after is told in its
thread. Which message that is, is kept as a receipt; after a kill between Slack's answer and the receipt it is posted
once more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.senders.post import Answer, ask, read_secret, without
from fabricmon.senders.result import NO_RECEIPTS, Outcome, Result
from fabricmon.senders.routing import Worded
from fabricmon.senders.settings import check_url
from fabricmon.senders.slack_message import DETAILED, digest, mentioned, reply, single

REFRESH = 0.0
KEEPS = True  # receipts
ACKNOWLEDGES = True  # is told that somebody has taken an incident on

# Errors of the Web API that mean "later".
LATER = frozenset({"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable",
                   "request_timeout", "accesslimited", "team_added_to_org"})  # fmt: skip
# Errors that the site has to put right, in Slack or in the configuration. What waits is told then.
SITE = frozenset({"invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive", "missing_scope",
                  "no_permission", "channel_not_found", "not_in_channel", "is_archived", "restricted_action",
                  "org_login_required", "ekm_access_denied", "access_denied"})  # fmt: skip
MAX_ANSWER = 256 << 10  # bytes: the Web API repeats the whole message
SITE_STATUS = frozenset({401, 403, 404, 410})  # of a webhook: revoked, its channel is gone or closed


class Config(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `slack`: `url_file`, or `token_file` with `channel`; see also `routing.Worded`.

    url_file    file with the address of an incoming webhook (the address is a secret).
    token_file  file with a bot's token (xoxb-...), for threads and updates.
    channel     id (C0123ABCD) or #name to post to; with `token_file`.
    mention     whom to call when something critical is new: "<!here>", "<!channel>", "<@U0123ABCD>",
                "<!subteam^S0123ABCD>"; "": nobody.
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
            raise ValueError("either `url_file` (an incoming webhook) or `token_file` (a bot), and not both")
        if bool(self.token_file) != bool(self.channel):
            raise ValueError("`token_file` and `channel` belong together")
        if self.mention and not re.fullmatch(r"<(!here|!channel|@[A-Z0-9]+|!subteam\^[A-Z0-9]+)>", self.mention):
            raise ValueError("`mention` must be <!here>, <!channel>, <@USER> or <!subteam^GROUP>")


class Receipt(Struct, frozen=True):
    """The message that an incident has in Slack.

    ts, channel  which message
    key          the notification that was told last, so that no half of it is told twice
    alone        the message is about this incident only, and may be changed
    """

    ts: str
    channel: str
    key: str
    alone: bool


async def send(
    session: aiohttp.ClientSession,
    config: Config,
    notification: Notification,
    links: Links = NO_LINKS,
    receipts: Mapping[str, str] = NO_RECEIPTS,
) -> Result:
    """One attempt. With a token each incident is told by itself, and a receipt says how far that came."""
    if config.token_file:
        return await _by_token(session, config, notification, links, receipts)
    try:
        url = read_secret(config.url_file)
        check_url(url, "url_file")
    except (OSError, ValueError) as error:
        # What the file holds must not come into an error.
        why = str(error) if isinstance(error, OSError) else "must hold the address of an incoming webhook"
        return Result(Outcome.RETRY, f"{config.url_file}: {why}")
    done: dict[str, str] = {}
    for name, message in messages(config, notification, links).items():
        if receipts.get(name) == notification.key:
            continue
        answer = await ask(session, url, msgspec.json.encode(message), {}, config.timeout, ca_file=config.ca_file)
        result = without(answer if isinstance(answer, Result) else _of_webhook(answer), url)
        if result.outcome is not Outcome.DONE:
            return result._replace(receipts=done)
        done[name] = notification.key
    return Result(Outcome.DONE, "posted", answered=True, receipts=done)


def preview(config: Config, notification: Notification, links: Links = NO_LINKS) -> str:
    """What would be posted."""
    made = list(messages(config, notification, links).values())
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def messages(config: Config, notification: Notification, links: Links) -> dict[str, dict[str, Any]]:
    """What is posted, by the id of the (first) incident it is about."""
    new = notification.reason not in ("resolved", "absorbed", "acknowledged")
    incidents = notification.incidents
    if len(incidents) > DETAILED:
        made = {incidents[0].id: digest(config, notification, links)}
    else:
        made = {i.id: single(config, i, notification, links) for i in incidents}
    grave = [i for i in incidents if i.severity is Severity.CRITICAL and i.status == "firing"]
    if config.mention and new and grave:
        called = grave[0].id if grave[0].id in made else incidents[0].id
        made[called] = mentioned(made[called], config.mention)
    return made


# ---------------------------------------------------------------- with a token


async def _by_token(
    session: aiohttp.ClientSession,
    config: Config,
    notification: Notification,
    links: Links,
    receipts: Mapping[str, str],
) -> Result:
    done: dict[str, str] = {}
    started = {i.id: r for i in notification.incidents if (r := _receipt(receipts.get(i.id, ""))) is not None}
    # Only an episode that goes on is told in its thread; one that begins anew gets a message of its own.
    going_on = {id: r for id, r in started.items() if id in notification.before or r.key == notification.key}
    fresh = [i for i in notification.incidents if i.id not in going_on]
    for incident in notification.incidents:
        known = going_on.get(incident.id)
        if known is None or known.key == notification.key:
            continue
        result = await _go_on(session, config, incident, notification, links, known)
        if result.outcome is not Outcome.DONE:
            return result._replace(receipts=done)
        done[incident.id] = _written(known.ts, known.channel, notification.key, known.alone)
    posted = messages(config, msgspec.structs.replace(notification, incidents=tuple(fresh)), links) if fresh else {}
    for name, message in posted.items():
        sent = {"channel": config.channel, "unfurl_links": False, **message}
        result, answer = await _call(session, config, "chat.postMessage", sent)
        if result.outcome is not Outcome.DONE:
            return result._replace(receipts=done)
        about = fresh if len(posted) == 1 else [i for i in fresh if i.id == name]
        place = str(answer.get("ts", "")), str(answer.get("channel", config.channel))
        done |= {i.id: _written(*place, notification.key, len(about) == 1) for i in about}
    return Result(Outcome.DONE, "posted", answered=True, receipts=done)


async def _go_on(
    session: aiohttp.ClientSession,
    config: Config,
    incident: Incident,
    notification: Notification,
    links: Links,
    known: Receipt,
) -> Result:
    """First the message as it stands now, which may be done again, then the word in its thread."""
    if known.alone:
        now = {"channel": known.channel, "ts": known.ts, **single(config, incident, notification, links)}
        result, _ = await _call(session, config, "chat.update", now)
        # Somebody may have deleted it: that must not keep the word from the thread.
        if result.outcome is Outcome.RETRY:
            return result
    word = reply(config, incident, notification, links)
    if config.mention and notification.reason in ("severity rose", "job crashes"):
        word = mentioned(word, config.mention)
    thread = {"channel": known.channel, "thread_ts": known.ts, "reply_broadcast": _aloud(notification), **word}
    result, _ = await _call(session, config, "chat.postMessage", thread)
    return result


def _aloud(notification: Notification) -> bool:
    """Whether a word in the thread is shown in the channel too: what became worse."""
    return notification.reason in ("severity rose", "job crashes", "cause sharpened")


async def _call(
    session: aiohttp.ClientSession, config: Config, method: str, body: dict[str, Any]
) -> tuple[Result, dict[str, Any]]:
    """One method of the Web API. It answers 200 and says in the body whether it did it."""
    sent, url = msgspec.json.encode(body), f"{config.api.rstrip('/')}/{method}"
    got = await ask(session, url, sent, {}, config.timeout, config.token_file, config.ca_file, MAX_ANSWER)
    if isinstance(got, Result):
        return got, {}
    result, answer = got.result(), {}
    if result.outcome is Outcome.DONE:
        try:
            answer = msgspec.json.decode(got.text, type=dict[str, Any])
        except msgspec.DecodeError:
            return Result(Outcome.RETRY, f"{method}: that is no answer of Slack: {got.text[:80]!r}"), {}
        if answer.get("ok") is not True:
            result = _refused(f"{method}: {answer.get('error', 'no reason given')}", str(answer.get("error", "")))
    elif got.status in SITE_STATUS:
        result = result._replace(outcome=Outcome.RETRY, answered=False)
    return result, answer


def _refused(reason: str, error: str) -> Result:
    if error in SITE:
        return Result(Outcome.RETRY, reason)
    return Result(Outcome.RETRY if error in LATER else Outcome.NEVER, reason, answered=True)


def _of_webhook(answer: Answer) -> Result:
    result = answer.result()
    if answer.status in SITE_STATUS:
        return result._replace(outcome=Outcome.RETRY, answered=False)
    return result


def _receipt(text: str) -> Receipt | None:
    try:
        return msgspec.json.decode(text, type=Receipt) if text else None
    except msgspec.DecodeError:
        return None  # one of another kind of sender under the same name


def _written(ts: str, channel: str, key: str, alone: bool) -> str:
    return msgspec.json.encode(Receipt(ts, channel, key, alone)).decode()
