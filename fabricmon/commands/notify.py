"""Test receivers: send a test incident, or preview the messages.

`test` uses the same templates, TLS settings and credentials as a real incident. It opens a test incident and resolves
it, so nothing stays open. For a receiver that acts (Slurm, Kubernetes) it only tests the connection."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fabricmon import config
from fabricmon.console import output
from fabricmon.console.arguments import number
from fabricmon.terminal.fitted_text import clean

if TYPE_CHECKING:
    import aiohttp

    from fabricmon.model import Incident, Notification
    from fabricmon.senders.destination import Destination

EXAMPLES = """\
fabricmon notify test                                          all receivers of /etc/fabricmon/central.yaml
fabricmon notify test oncall --kind nic_fault                  one receiver
fabricmon notify preview chat --kind link_flapping --ended     preview, nothing is sent
fabricmon notify fields                                        fields for templates
"""

USUAL = "/etc/fabricmon/central.yaml"
PAUSE = 1.0  # seconds between firing and resolved: some receivers reorder messages of the same moment
MANY = 25  # incidents of a preview, at most


@dataclass
class ReceiverCheck:
    """One message of a test and its result."""

    receiver: str
    kind: str
    step: str
    outcome: str
    answer: str
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="test|preview|fields")
    test = verbs.add_parser("test", help="send a test incident and print the answers of the receivers")
    preview = verbs.add_parser("preview", help="show the messages without sending them")
    fields = verbs.add_parser("fields", help="list the fields for templates")
    for verb in (test, preview):
        verb.add_argument("receivers", nargs="*", metavar="RECEIVER", help="names in `senders:` (default: all)")
        verb.add_argument("--config", metavar="FILE", default=os.environ.get("FABRICMON_CONFIG", USUAL),
                          help=f"configuration of the server (default $FABRICMON_CONFIG or {USUAL})")  # fmt: skip
        verb.add_argument("--kind", default="link_flapping", help="kind of the incident (default link_flapping)")
        verb.add_argument("--severity", choices=("info", "warning", "critical"), help="default: severity of the rule")
    test.add_argument("--keep-open", action="store_true", help="do not resolve the test incident")
    preview.add_argument("--ended", action="store_true", help="the message of a resolved incident")
    many = f"N incidents in one message, at most {MANY}"
    preview.add_argument("--many", type=number(1, MANY), default=1, metavar="N", help=many)
    for verb in (test, preview, fields):
        verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 if every receiver accepted, 1 if not, 2 for an unknown name or an invalid configuration."""
    if args.verb == "fields":
        return _fields(args.json)
    root = config.load(args.config, uses=("central", "notify", "senders", "log"))
    unknown = [name for name in args.receivers if name not in root.senders]
    if unknown or not root.senders:
        known = ", ".join(sorted(root.senders)) or "none"
        what = f"unknown receiver {', '.join(unknown)}" if unknown else "no receiver is configured"
        print(f"fabricmon notify: {what} in {args.config}; configured: {known}", file=sys.stderr)
        return 2
    wanted = args.receivers or list(root.senders)
    try:
        first = _incident(args, root)
    except ValueError as error:
        print(f"fabricmon notify: {error}", file=sys.stderr)
        return 2
    if args.verb == "preview":
        return _preview(args, root, wanted, first)
    attempts = asyncio.run(_test(root, wanted, first, args.keep_open))
    if args.json:
        print(json.dumps([asdict(each) for each in attempts], indent=2, ensure_ascii=False))
    else:
        _show(attempts)
    return 0 if all(each.outcome == "done" for each in attempts) else 1


async def _test(root: config.Root, wanted: list[str], first: Incident, keep_open: bool) -> list[ReceiverCheck]:
    import aiohttp

    from fabricmon.senders import ACTING

    attempts: list[ReceiverCheck] = []
    async with aiohttp.ClientSession() as session:
        for name in wanted:
            kind = root.senders[name].kind
            if kind in ACTING:
                attempts.append(await _reach(root, name))
            else:
                attempts += await _sent(session, _destination(root, name), kind, first, keep_open)
    return attempts


async def _sent(
    session: aiohttp.ClientSession, destination: Destination, kind: str, first: Incident, keep_open: bool
) -> list[ReceiverCheck]:
    """Send a test incident to one receiver, firing and resolved."""
    from fabricmon.notify.trial_incident import resolved_trial, trial_notification
    from fabricmon.senders.attempt import NO_RECEIPTS, DeliveryOutcome

    receiver, receipts = destination.receiver, NO_RECEIPTS
    attempts: list[ReceiverCheck] = []
    steps = ["firing"] if keep_open or not receiver.send_resolved else ["firing", "resolved"]
    for step in steps:
        now = time.time()
        incident = first if step == "firing" else resolved_trial(first, now)
        reason = "new incident" if step == "firing" else "resolved"
        note = trial_notification(destination.name, (incident,), reason, now, notified=step == "resolved")
        started = time.perf_counter()
        try:
            result = await destination.send(session, note, receipts)
        except Exception as error:
            words = f"the sender failed: {error!r}"
            attempts.append(ReceiverCheck(destination.name, kind, step, "failed", words, time.perf_counter() - started))
            break
        outcome = {
            DeliveryOutcome.DONE: "done",
            DeliveryOutcome.RETRY: "not accepted, would be retried",
            DeliveryOutcome.NEVER: "rejected, would be dropped",
        }[result.outcome]
        took = time.perf_counter() - started
        attempts.append(ReceiverCheck(destination.name, kind, step, outcome, result.reason, took))
        if result.outcome is not DeliveryOutcome.DONE:
            break
        receipts = result.receipts
        if step != steps[-1]:
            await asyncio.sleep(PAUSE)
    if not receiver.takes(first) and attempts:
        least = receiver.min_severity.value
        attempts[0].answer += f" (a real incident would not be sent: `min_severity: {least}`, or `match`)"
    return attempts


async def _reach(root: config.Root, name: str) -> ReceiverCheck:
    """Whether an acting receiver reaches its service. It gets a fleet without nodes, so nothing is done."""
    from msgspec.structs import replace

    from fabricmon.senders import ACTING
    from fabricmon.senders.acting import Standing

    sender = root.senders[name]
    actor = ACTING[sender.kind].module.open(name, replace(sender.config, dry_run=True), root.central.as_links())
    started = time.perf_counter()
    try:
        report = await actor.act(Standing(time.time(), (), frozenset(), ()), _NoActionLog())
    finally:
        await actor.close()
    took = time.perf_counter() - started
    if report.error:
        return ReceiverCheck(name, sender.kind, "query", "failed", report.error, took)
    dry = "; dry_run is on: it would only report its actions" if sender.config.dry_run else ""
    words = f"reached; nodes drained or tainted now: {report.held}; nothing was changed{dry}"
    return ReceiverCheck(name, sender.kind, "query", "done", words, took)


class _NoActionLog:
    """The log of actions for a test, which takes none."""

    async def write(self, deed: Any) -> None:
        raise RuntimeError("a test takes no action")

    async def incidents(self, ids: Any) -> list[Any]:
        return []


def _show(attempts: list[ReceiverCheck]) -> None:
    wide = max(len(each.receiver) for each in attempts)
    kinds = max(len(each.kind) for each in attempts)
    for each in attempts:
        mark = "ok  " if each.outcome == "done" else "FAIL"
        what = "" if each.outcome == "done" else f"{each.outcome}: "
        line = (f"{mark} {each.receiver:<{wide}}  {each.kind:<{kinds}}  {each.step:<8} {each.seconds * 1000:6.0f} ms  "
                f"{what}{each.answer}")  # fmt: skip
        output.show([clean(line)])


def _preview(args: argparse.Namespace, root: config.Root, wanted: list[str], first: Incident) -> int:
    from msgspec.structs import replace

    from fabricmon.notify.trial_incident import resolved_trial, trial_notification
    from fabricmon.senders import ACTING

    now = time.time()
    incidents = [replace(first, id=f"{first.id}-{n}") if args.many > 1 else first for n in range(1, args.many + 1)]
    sent = tuple(resolved_trial(i, now) if args.ended else i for i in incidents)
    shown: dict[str, str] = {}
    for name in wanted:
        if root.senders[name].kind in ACTING:
            shown[name] = "sends no message, acts on nodes: see `fabricmon notify test`"
            continue
        destination = _destination(root, name)
        reason = "resolved" if args.ended else "new incident"
        note: Notification = trial_notification(name, sent, reason, now, args.ended)
        shown[name] = destination.module.preview(destination.config, note, destination.links)
    if args.json:
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return 0
    for name, text in shown.items():
        print(f"--- {name} ({root.senders[name].kind})\n{text.rstrip()}\n")
    return 0


def _fields(as_json: bool) -> int:
    from fabricmon.notify.message_fields import FIELDS

    if as_json:
        print(json.dumps(dict(FIELDS), indent=2))
        return 0
    for name, meaning in FIELDS.items():
        print(f"{{{name}}}".ljust(16), meaning)
    print("{label.NAME}".ljust(16), "a label of the incident")
    return 0


def _destination(root: config.Root, name: str) -> Destination:
    from fabricmon.senders.destination import destination

    sender = root.senders[name]
    return destination(name, sender.kind, sender.config, root.notify, root.central.as_links())


def _incident(args: argparse.Namespace, root: config.Root) -> Incident:
    """The test incident, with the texts of the rule of its kind. ValueError for an unknown kind."""
    from msgspec.structs import replace

    from fabricmon.model import Severity
    from fabricmon.notify.trial_incident import trial_incident
    from fabricmon.rules import RULES

    rule = next((rule for rule in RULES if rule.kind == args.kind), None)
    if rule is None:
        raise ValueError(f"unknown kind {args.kind!r}; known: {', '.join(sorted({r.kind for r in RULES}))}")
    severity = Severity(args.severity) if args.severity else rule.severity
    made = trial_incident(rule.kind, rule.title, rule.why, rule.action, severity, secrets.token_hex(6), time.time())
    fabric = root.central.fabric
    return replace(made, labels={**made.labels, "fabric": fabric}) if fabric else made
