"""Try receivers out: send a test incident, or show what would be sent.

`test` goes the way of a real incident: the receiver's templates, TLS, passwords and answers. It begins a test incident
and ends it again, so nothing stays open. A sender that acts (Slurm, Kubernetes) only says whether it could."""

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
from fabricmon.terminal import console
from fabricmon.terminal.text import clean

if TYPE_CHECKING:
    import aiohttp

    from fabricmon.model import Incident, Notification
    from fabricmon.senders.destination import Destination

EXAMPLES = """\
fabricmon notify test                                          every receiver of /etc/fabricmon/central.yaml
fabricmon notify test oncall --kind nic_fault                  one of them
fabricmon notify preview chat --kind link_flapping --ended     nothing is sent
fabricmon notify fields                                        what a template may name
"""

USUAL = "/etc/fabricmon/central.yaml"
PAUSE = 1.0  # seconds between beginning and end: some receivers take what comes at one moment in any order
MANY = 25  # incidents of a preview at most


@dataclass
class Attempt:
    """One message of a test and what came of it."""

    receiver: str
    kind: str
    step: str
    outcome: str
    answer: str
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """test | preview | fields."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="test|preview|fields")
    test = verbs.add_parser("test", help="send a test incident and say what the receivers answered")
    preview = verbs.add_parser("preview", help="show what would be sent, and send nothing")
    fields = verbs.add_parser("fields", help="what a template may name")
    for verb in (test, preview):
        verb.add_argument("receivers", nargs="*", metavar="RECEIVER", help="names below `senders:` (default: all)")
        verb.add_argument("--config", metavar="FILE", default=os.environ.get("FABRICMON_CONFIG", USUAL),
                          help=f"the centre's configuration (default $FABRICMON_CONFIG or {USUAL})")  # fmt: skip
        verb.add_argument("--kind", default="link_flapping", help="kind of the incident (default link_flapping)")
        verb.add_argument("--severity", choices=("info", "warning", "critical"), help="default: that of its rule")
    test.add_argument("--keep-open", action="store_true", help="do not end the test incident")
    preview.add_argument("--ended", action="store_true", help="that it ended, not that it began")
    preview.add_argument("--many", type=int, default=1, metavar="N", help=f"so many at once, at most {MANY}")
    for verb in (test, preview, fields):
        verb.add_argument("--json", action="store_true", help="machine-readable")


def run(args: argparse.Namespace) -> int:
    """0 when every receiver took it, 1 when one did not, 2 for a wrong name or configuration."""
    if args.verb == "fields":
        return _fields(args.json)
    root = config.load(args.config, uses=("central", "notify", "senders", "log"))
    unknown = [name for name in args.receivers if name not in root.senders]
    if unknown or not root.senders:
        known = ", ".join(sorted(root.senders)) or "none"
        what = f"no receiver {', '.join(unknown)}" if unknown else "no receiver is configured"
        print(f"fabricmon notify: {what} in {args.config}; there are: {known}", file=sys.stderr)
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


# ---------------------------------------------------------------- test


async def _test(root: config.Root, wanted: list[str], first: Incident, keep_open: bool) -> list[Attempt]:
    import aiohttp

    from fabricmon.senders import ACTING

    attempts: list[Attempt] = []
    async with aiohttp.ClientSession() as session:
        for name in wanted:
            kind = root.senders[name].kind
            if kind in ACTING:
                attempts.append(await _could(root, name))
            else:
                attempts += await _told(session, _destination(root, name), kind, first, keep_open)
    return attempts


async def _told(
    session: aiohttp.ClientSession, destination: Destination, kind: str, first: Incident, keep_open: bool
) -> list[Attempt]:
    """Begin and end a test incident at one receiver."""
    from fabricmon.notify.trial import ended, telling
    from fabricmon.senders.result import NO_RECEIPTS, Outcome

    receiver, receipts = destination.receiver, NO_RECEIPTS
    attempts: list[Attempt] = []
    steps = ["begins"] if keep_open or not receiver.send_resolved else ["begins", "ends"]
    for step in steps:
        now = time.time()
        incident = first if step == "begins" else ended(first, now)
        reason = "new incident" if step == "begins" else "resolved"
        note = telling(destination.name, (incident,), reason, now, told=step == "ends")
        started = time.perf_counter()
        try:
            result = await destination.send(session, note, receipts)
        except Exception as error:
            words = f"the sender failed: {error!r}"
            attempts.append(Attempt(destination.name, kind, step, "failed", words, time.perf_counter() - started))
            break
        outcome = {
            Outcome.DONE: "done",
            Outcome.RETRY: "not now, would be tried again",
            Outcome.NEVER: "refused for good, would be dropped",
        }[result.outcome]
        took = time.perf_counter() - started
        attempts.append(Attempt(destination.name, kind, step, outcome, result.reason, took))
        if result.outcome is not Outcome.DONE:
            break
        receipts = result.receipts
        if step != steps[-1]:
            await asyncio.sleep(PAUSE)
    if not receiver.takes(first) and attempts:
        attempts[0].answer += f" (a real one would not be sent: {_untaken(receiver.min_severity.value)})"
    return attempts


def _untaken(least: str) -> str:
    return f"`min_severity` is {least}, or `match` does not hold for the test incident"


async def _could(root: config.Root, name: str) -> Attempt:
    """Whether an actor reaches what it would act on. Nothing is done: it is shown a fleet without a node."""
    from msgspec.structs import replace

    from fabricmon.senders import ACTING
    from fabricmon.senders.acting import Standing

    sender = root.senders[name]
    actor = ACTING[sender.kind].open(name, replace(sender.config, dry_run=True), root.central.as_links())
    started = time.perf_counter()
    try:
        report = await actor.act(Standing(time.time(), (), frozenset(), ()), _NoDiary())
    finally:
        await actor.close()
    took = time.perf_counter() - started
    if report.error:
        return Attempt(name, sender.kind, "asks", "failed", report.error, took)
    dry = "; dry_run is on, it would only say what it would do" if sender.config.dry_run else ""
    words = f"reached; {report.held} nodes stand acted on by fabricmon; nothing was done{dry}"
    return Attempt(name, sender.kind, "asks", "done", words, took)


class _NoDiary:
    """A test writes nothing down, because it does nothing."""

    async def write(self, deed: Any) -> None:
        raise RuntimeError("a test does nothing")

    async def incidents(self, ids: Any) -> list[Any]:
        return []


def _show(attempts: list[Attempt]) -> None:
    wide = max(len(each.receiver) for each in attempts)
    kinds = max(len(each.kind) for each in attempts)
    for each in attempts:
        mark = "ok  " if each.outcome == "done" else "FAIL"
        what = "" if each.outcome == "done" else f"{each.outcome}: "
        line = (f"{mark} {each.receiver:<{wide}}  {each.kind:<{kinds}}  {each.step:<6} {each.seconds * 1000:6.0f} ms  "
                f"{what}{each.answer}")  # fmt: skip
        console.show([clean(line)])


# ---------------------------------------------------------------- preview and fields


def _preview(args: argparse.Namespace, root: config.Root, wanted: list[str], first: Incident) -> int:
    from msgspec.structs import replace

    from fabricmon.notify.trial import ended, telling
    from fabricmon.senders import ACTING

    if not 1 <= args.many <= MANY:
        print(f"fabricmon notify: --many must be 1 to {MANY}", file=sys.stderr)
        return 2
    now = time.time()
    incidents = [replace(first, id=f"{first.id}-{n}") if args.many > 1 else first for n in range(1, args.many + 1)]
    told = tuple(ended(i, now) if args.ended else i for i in incidents)
    shown: dict[str, str] = {}
    for name in wanted:
        if root.senders[name].kind in ACTING:
            shown[name] = "it tells nobody, it acts: see `fabricmon notify test`"
            continue
        destination = _destination(root, name)
        note: Notification = telling(name, told, "resolved" if args.ended else "new incident", now, args.ended)
        shown[name] = destination.module.preview(destination.config, note, destination.links)
    if args.json:
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return 0
    for name, text in shown.items():
        print(f"--- {name} ({root.senders[name].kind})\n{text.rstrip()}\n")
    return 0


def _fields(as_json: bool) -> int:
    from fabricmon.notify.fields import FIELDS

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
    """The test incident, in the words of the rule of its kind. ValueError for a kind there is none of."""
    from msgspec.structs import replace

    from fabricmon.model import Severity
    from fabricmon.notify.trial import trial
    from fabricmon.rules import RULES

    rule = next((rule for rule in RULES if rule.kind == args.kind), None)
    if rule is None:
        raise ValueError(f"no kind {args.kind!r}; there are: {', '.join(sorted({r.kind for r in RULES}))}")
    severity = Severity(args.severity) if args.severity else rule.severity
    made = trial(rule.kind, rule.title, rule.why, rule.action, severity, secrets.token_hex(6), time.time())
    fabric = root.central.fabric
    return replace(made, labels={**made.labels, "fabric": fabric}) if fabric else made
