"""Access control before an application: authentication, authorisation, rate limit, cross-site requests.

An agent without security settings does not load this module.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import math
import socket
import time
from ssl import SSLContext, SSLObject
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from fabricmon.runtime import logs
from fabricmon.runtime.buckets import Buckets
from fabricmon.runtime.door import Door, Handler, peer_of
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.reader import Overdue
from fabricmon.runtime.seldom import Seldom
from fabricmon.web.admission import access, certificate
from fabricmon.web.admission.access import Caller, Level
from fabricmon.web.loaded import Loaded, load
from fabricmon.web.passwords import Crowded, Passwords
from fabricmon.web.settings import WebConfig
from fabricmon.web.watched import Watched

ATTEMPTS, ATTEMPT_PERIOD = 10, 2.0
"""Wrong passwords or tokens of one peer at once, and seconds for each further one; beyond it no password is checked."""

MAX_CREDENTIALS = 4096
"""Characters of an Authorization header that are read."""

MAX_SHOWN = 200
"""Characters of a path or name in a log line or an answer."""

REASONS = ("unauthenticated", "forbidden", "attempts", "rate", "host", "origin", "crowded")


def needed(settings: WebConfig, change_token_file: str = "") -> bool:
    """Whether any security is configured."""
    return settings != WebConfig() or bool(change_token_file)


class Gate:
    """The security of one listener. The constructor reads all files: ConfigError for an invalid one.

    where         section of the configuration for messages: "agent" or "central"
    external_url  the URL that people use; "" none
    """

    def __init__(self, settings: WebConfig, where: str, change_token_file: str = "", external_url: str = "") -> None:
        self._where = where
        self._passwords = Passwords()
        self._log = logs.get(part="listener")
        self._seldom = Seldom()
        self.refused = dict.fromkeys(REASONS, 0)
        self._rate: Buckets | None = None
        self._attempts = Buckets(1 / ATTEMPT_PERIOD, ATTEMPTS)
        self._configure(settings, external_url)
        self.watched = self.prepare(settings, change_token_file)
        self._changed(self.watched.value)
        self.door = Door(self._context, self._admit)

    # --- settings

    def _configure(self, settings: WebConfig, external_url: str) -> None:
        self._settings = settings
        parts = urlsplit(external_url)
        self._external = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
        own = {socket.gethostname(), socket.gethostname().partition(".")[0], parts.hostname or ""}
        self._hosts = frozenset(name.lower().rstrip(".") for name in (*settings.hosts, *own) if name)

    def prepare(self, settings: WebConfig, change_token_file: str = "") -> Watched[Loaded]:
        """Read the files of other settings, for `adopt`; in any thread. ConfigError for an invalid file."""
        return Watched("web", lambda: load(settings, change_token_file, self._where), self._changed)

    def adopt(self, prepared: Watched[Loaded], settings: WebConfig, external_url: str = "") -> None:
        """Other settings, from the next request and connection on."""
        self.watched.adopt(prepared)
        self._configure(settings, external_url)

    def _changed(self, now: Loaded) -> None:
        self._passwords.configure(now.users)
        rate = (1 / now.interval, float(now.burst)) if now.interval > 0 else None
        if rate is None:
            self._rate = None
        elif self._rate is None or (self._rate.rate, self._rate.burst) != (rate[0], max(1.0, rate[1])):
            self._rate = Buckets(*rate)

    async def run(self) -> None:
        """Reload changed files until cancelled."""
        try:
            await self.watched.run()
        finally:
            self._passwords.close()

    def guard(self, app: web.Application) -> None:
        """Install the gate in an application that has not started."""
        app.middlewares.insert(0, self._middleware)
        app.on_response_prepare.append(self._headers)

    async def access(self, request: web.Request) -> web.Response:
        """Answer with the name and role of the caller, and the ways to authenticate for changes."""
        caller = await self._who(request)
        if isinstance(caller, web.Response):
            return caller
        policy = self.watched.value.policy
        body = {
            "caller": caller.name,
            "may": caller.level.word,
            "ways": [way for way, there in (("basic", policy.users), ("bearer", policy.changing)) if there],
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json",
                            headers={"Cache-Control": "no-store"})  # fmt: skip

    # --- connections

    def _context(self) -> SSLContext | None:
        return self.watched.value.context

    def _admit(self, peer: SSLObject) -> str:
        sans = self.watched.value.sans
        if not sans:
            return ""
        names = certificate.alternative_names(peer.getpeercert())
        return "" if sans & set(names) else f"its names: {', '.join(names)[:MAX_SHOWN] or 'none'}"

    # --- requests

    async def _headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self.watched.value.headers)

    @property
    def _middleware(self) -> Any:
        @web.middleware
        async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
            need = access.needed(request.method, request.path)
            if need is Level.NOTHING and self._settings.probes:
                return await handler(request)
            need = max(need, Level.SCRAPE)
            stop = self._too_often(request) or self._wrong_host(request)
            if stop is not None:
                return stop
            caller = await self._who(request)
            if isinstance(caller, web.Response):
                return caller
            refused = access.refusal(self.watched.value.policy, caller, need)
            if refused is not None:
                status, text = refused
                return self._answer(request, "unauthenticated" if status == 401 else "forbidden", status, text)
            if need is not Level.CHANGE:
                return await handler(request)
            return self._foreign(request, caller) or await self._change(request, caller, handler)

        return gate

    async def _change(self, request: web.Request, caller: Caller, handler: Handler) -> web.StreamResponse:
        """Run a change and log its caller."""
        response = await handler(request)
        if response.status < 400:
            self._log.info("changed by request", caller=caller.name or "anonymous", peer=request.remote or "",
                           method=request.method, path=request.path[:MAX_SHOWN])  # fmt: skip
        return response

    def _too_often(self, request: web.Request) -> web.Response | None:
        if self._rate is None:
            return None
        wait = self._rate.take(_peer(request), time.monotonic())
        if not wait:
            return None
        return self._answer(request, "rate", 429, "too many requests", {"Retry-After": str(math.ceil(wait))})

    def _wrong_host(self, request: web.Request) -> web.Response | None:
        """Refuse unknown host names where `hosts` is set."""
        if not self._settings.hosts or access.host_known(request.headers.get("Host", ""), tuple(self._hosts)):
            return None
        return self._unknown_host(request)

    def _unknown_host(self, request: web.Request) -> web.Response:
        host = access.host_of(request.headers.get("Host", ""))[:MAX_SHOWN]
        text = f"unknown host name {host!r}; {self._where}.web.hosts lists the names of this listener"
        return self._answer(request, "host", 421, text)

    def _foreign(self, request: web.Request, caller: Caller) -> web.Response | None:
        """Refuse a change from a page of another site, or through a foreign DNS name (DNS rebinding)."""
        headers = request.headers
        host, origin = headers.get("Host", ""), headers.get("Origin", "")
        why = access.foreign(origin, headers.get("Sec-Fetch-Site", ""), host, self._external)
        if why:
            return self._answer(request, "origin", 403, why)
        if origin and not caller.name and origin != self._external and not access.host_known(host, tuple(self._hosts)):
            return self._unknown_host(request)
        return None

    # --- authentication

    async def _who(self, request: web.Request) -> Caller | web.Response:
        """The caller by certificate, password or token, with the strongest role. A wrong credential is refused even
        where none is needed."""
        now = self.watched.value
        callers = [now.policy.anonymous_caller()]
        if now.verifies and request.transport is not None:
            shown = request.transport.get_extra_info("peercert")
            if shown:
                callers.append(now.policy.holder(certificate.names(shown)))
        scheme, _, credentials = request.headers.get("Authorization", "")[:MAX_CREDENTIALS].partition(" ")
        scheme, credentials = scheme.lower(), credentials.strip()
        if scheme == "bearer" and (now.reading or now.changing):
            level = _token(credentials, now)
            if level is None:
                return self._wrong(request, "wrong token")
            callers.append(Caller("token", level))
        elif scheme == "basic" and now.users:
            found = await self._user(request, credentials, now)
            if isinstance(found, web.Response):
                return found
            callers.append(found)
        return max(callers, key=lambda caller: (caller.level, caller.name))

    async def _user(self, request: web.Request, credentials: str, now: Loaded) -> Caller | web.Response:
        try:
            user, colon, password = base64.b64decode(credentials, validate=True).partition(b":")
            name = user.decode()
        except (binascii.Error, ValueError):
            return self._wrong(request, "invalid credentials")
        if not colon:
            return self._wrong(request, "invalid credentials")
        right = self._passwords.remembered(name, password)
        if right is None:
            if self._attempts.level(_peer(request), time.monotonic()) < 1:
                return self._wrong(request, "wrong user or password")
            try:
                right = await self._passwords.check(name, password)
            except Crowded:
                return self._answer(request, "crowded", 503, "too many logins at once", {"Retry-After": "1"})
            except Overdue as error:
                return self._answer(request, "crowded", 503, str(error), {"Retry-After": "10"})
        return now.policy.user(name) if right else self._wrong(request, "wrong user or password")

    def _wrong(self, request: web.Request, text: str) -> web.Response:
        wait = self._attempts.take(_peer(request), time.monotonic())
        if wait:
            after = {"Retry-After": str(math.ceil(wait))}
            return self._answer(request, "attempts", 429, "too many wrong passwords or tokens", after)
        return self._answer(request, "unauthenticated", 401, text)

    def _answer(
        self, request: web.Request, reason: str, status: int, text: str, headers: dict[str, str] | None = None
    ) -> web.Response:
        self.refused[reason] += 1
        times = self._seldom.due(reason, time.monotonic())
        if times:
            self._log.warning("request refused", why=text, status=status, peer=request.remote or "", times=times,
                              method=request.method, path=request.path[:MAX_SHOWN])  # fmt: skip
        if request.path.startswith("/api/"):
            response = web.Response(
                status=status, body=msgspec.json.encode({"error": text}), content_type="application/json"
            )
        else:
            response = web.Response(status=status, text=f"{text}\n")
        response.headers.update({"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **(headers or {})})
        if status == 401:
            for challenge in self.watched.value.policy.challenges:
                response.headers.add("WWW-Authenticate", challenge)
        return response

    # --- state

    def warnings(self) -> list[str]:
        """Problems, one sentence each."""
        found = []
        if self.watched.error:
            found.append(f"Security settings were rejected, the previous ones are in use: {self.watched.error}")
        ends = self.watched.value.not_after
        if ends is not None and ends < time.time():
            found.append("The certificate of the listener has expired")
        return found

    def families(self) -> list[Family]:
        """For /metrics, connections included."""
        watched = self.watched
        reasons = [({"reason": reason}, float(count)) for reason, count in self.refused.items()]
        found = [
            *self.door.families(),
            Family("fabricmon_web_requests_refused_total", "counter", "Requests that were refused, by reason", reasons),
            Family("fabricmon_web_config_reload_success", "gauge",
                   "1 if the newest security files are in use, 0 if the previous ones are",
                   [({}, float(not watched.error))]),
            Family("fabricmon_web_config_last_reload_success_timestamp_seconds", "gauge",
                   "When security files were last taken into use", [({}, watched.succeeded)], "seconds"),
        ]  # fmt: skip
        if watched.value.not_after is not None:
            found.append(Family(
                "fabricmon_web_certificate_not_after_timestamp_seconds", "gauge",
                "When the listener's certificate ends", [({}, watched.value.not_after)], "seconds",
            ))  # fmt: skip
        return found


def _token(given: str, now: Loaded) -> Level | None:
    """The role of a token; all are compared, so that the time reveals nothing."""
    shown, level = given.encode(errors="surrogateescape"), None
    for tokens, grants in ((now.reading, Level.READ), (now.changing, Level.CHANGE)):
        for token in tokens:
            if hmac.compare_digest(shown, token):
                level = grants
    return level


def _peer(request: web.Request) -> str:
    return peer_of((request.remote or "",))


