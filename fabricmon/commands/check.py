"""Health of this node's fabric ports and GPUs: from the agent that runs here, else by reading the node directly.

Prints a summary, then one line per symptom, the most severe first. Exit code: 0 OK, 1 warning, 2 critical, 3 unknown
(nothing worse is known, and a component could not be checked, or the node has no fabric hardware: --expect-nothing)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
import time
import urllib.error
from http.client import HTTPException
from urllib.request import Request

import msgspec

from fabricmon import config
from fabricmon.agent.readings.report import NOTHING_EXPECTED, CollectorHealth, Health, SymptomHealth
from fabricmon.agent.settings import AgentConfig
from fabricmon.catalogue import technology
from fabricmon.commands import own_agent
from fabricmon.commands.agent import add_expectation, add_host_arguments, open_host, overrides
from fabricmon.commands.own_agent import Way
from fabricmon.console import output
from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.model import Severity
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address, parse_address
from fabricmon.terminal.fitted_text import clean

EXAMPLES = """\
fabricmon check
fabricmon check -v
fabricmon check --direct --json
fabricmon check --agent node-7:9790
"""
CODES = {"pass": 0, "warn": 1, "critical": 2, "unknown": 3}
WORDS = {Severity.CRITICAL: "CRITICAL", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
MAX_ANSWER = 4 << 20
"""Bytes of an agent's answer, at most."""

SHOWN_AGE = 3.0
"""Seconds from which the age of a symptom is printed; a direct read takes less."""


class _NoAgent(Exception):
    """No usable answer from the agent's address; the text is the reason."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--agent", metavar="ADDR", help="HOST:PORT of the agent (default: this node's agent)")
    where.add_argument("--direct", action="store_true", help="read the node directly (twice), do not ask the agent")
    parser.add_argument("--config", metavar="FILE", help="configuration file of the agent (default: built-in defaults)")
    add_host_arguments(parser)
    add_expectation(parser)
    own_agent.add_arguments(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0, help="time for the answer (default 5)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="print why each symptom matters and the next step")


def run(args: argparse.Namespace) -> int:
    """Print the health of the node; the exit code is that of its status. ConfigError for an invalid configuration."""
    agent = _load(args).agent
    logs.configure("logfmt", "error")
    direct = args.direct or bool(args.host) or bool(args.sysfs)
    note = ""
    if not direct:
        address = args.agent or _reachable(agent.listen[0])
        try:
            health = fetch_health(own_agent.way(address, agent.web, args), args.timeout)
        except (_NoAgent, config.ConfigError, ValueError, OSError) as error:
            why = "; ".join(str(error).splitlines())
            if args.agent:
                print(clean(f"UNKNOWN: {why}"), file=sys.stderr)
                return CODES["unknown"]
            note = f"{why}; node read directly, without history: past flaps and slow error rates are not detected"
            direct = True
        else:
            source = f"agent at {address}"
    if direct:
        try:
            health = _read(args, agent.evaluate)
        except Exception as error:
            print(clean(f"UNKNOWN: cannot read this node: {error}"), file=sys.stderr)
            return CODES["unknown"]
        source = args.host or "direct read"
    if args.expect_nothing and health.nothing and health.status == "unknown":
        health = msgspec.structs.replace(health, status="pass", reason=NOTHING_EXPECTED)
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(health), indent=2).decode() + "\n")
    else:
        width = shutil.get_terminal_size((120, 24)).columns
        output.show(map(clean, render(health, source, note, verbose=args.verbose, width=width).split("\n")))
    return CODES.get(health.status, CODES["unknown"])


def fetch_health(way: Way, timeout: float) -> Health:
    """The health from an agent. _NoAgent without a usable answer."""
    where = way.url.partition("://")[2]
    try:
        with way.opener().open(Request(f"{way.url}/health", headers=way.headers), timeout=timeout) as answer:
            body = answer.read(MAX_ANSWER + 1)
        if len(body) > MAX_ANSWER:
            raise _NoAgent(f"the answer of {where} has more than {MAX_ANSWER} bytes")
        return json_value(body, Health)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            text = error.read(300).decode(errors="replace").strip()
            raise _NoAgent(f"the agent at {where} refused: {text} (--token-file, --user-file)") from error
        raise _NoAgent(f"{where} is not a fabricmon agent: HTTP {error.code} to /health") from error
    except Undecodable as error:
        raise _NoAgent(f"{where} is not a fabricmon agent of this version: {error}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "verify_message", "") or getattr(reason, "strerror", None) or reason
        raise _NoAgent(f"no answer from an agent at {where} ({why})") from error


def render(health: Health, source: str, note: str = "", *, verbose: bool = False, width: int = 120) -> str:
    """The text: summary, symptoms, what could not be read, and the note."""
    lines = [_summary(health, source)]
    columns = max((len(_name(health, s)) for s in health.symptoms), default=0)
    lines.extend(_symptom(health, s, columns) for s in health.symptoms)
    if verbose:
        lines.extend(_explained(health, max(40, width)))
    lines.extend(f"unread    {one.component}: {one.why}" for one in health.unread)
    lines.extend(line for c in health.collectors for line in _collector(c, verbose))
    if note:
        lines.append(f"note      {note}")
    if health.nothing and health.status == "unknown":
        lines.append("note      if this is on purpose: --expect-nothing or collect.inventory.none_expected")
    if health.symptoms and not verbose:
        lines.append("note      -v prints why each symptom matters and the next step")
    return "\n".join(lines)


def _explained(health: Health, width: int) -> list[str]:
    """Why a symptom matters and what to do about it, once for all components that have it."""
    lines: list[str] = []
    for s in {s.rule: s for s in health.symptoms}.values():
        if s.why or s.action:
            lines.append(f"{s.title}:")
        for word, text in (("why", s.why), ("next step", s.action)):
            if text:
                first, rest = f"          {word}: ", " " * (12 + len(word))
                lines.extend(textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest))
    return lines


def _summary(health: Health, source: str) -> str:
    words = (
        (Severity.CRITICAL, "critical", "critical"),
        (Severity.WARNING, "warning", "warnings"),
        (Severity.INFO, "info", "info"),
    )
    counts = [
        f"{n} {one if n == 1 else many}"
        for severity, one, many in words
        if (n := sum(s.severity is severity for s in health.symptoms))
    ]
    found = ", ".join(counts) or "no symptoms"
    head = {"pass": "OK", "warn": "WARNING", "critical": "CRITICAL"}.get(health.status, "UNKNOWN")
    reason = f": {health.reason}" if health.reason else ""
    checked, unknown = (technology.words(health.checked, checked) for checked in (True, False))
    if health.nothing and not health.symptoms:
        return f"{head} {health.node}{reason} ({source})"
    text = f"checked {checked or 'nothing'}{f'; not checked: {unknown}' if unknown else ''}"
    return f"{head} {health.node}{reason} - {found}; {text} ({source})"


def _symptom(health: Health, s: SymptomHealth, columns: int) -> str:
    evidence = "; ".join(s.evidence)
    age = max(0.0, health.at - s.since)
    return (
        f"{WORDS[s.severity]:<8}  {_name(health, s):<{columns}}  {s.title}"
        f"{f': {evidence}' if evidence else ''}{f' (for {_span(age)})' if age >= SHOWN_AGE else ''}"
    )


def _collector(c: CollectorHealth, verbose: bool) -> list[str]:
    name = f"{c.collector} {c.device}".strip()
    lines = []
    if c.stuck_since is not None:
        ago = f", last read {_span(max(0.0, time.time() - c.last_success))} ago" if c.last_success else ""
        lines.append(f"unread    {name}: a read hangs since {_clock(c.stuck_since)}{ago}")
    elif c.success is False:
        lines.append(f"unread    {name}: {c.error}")
    elif c.fault_count:
        one = c.faults[0]
        rest = f" and {c.fault_count - 1} more" if c.fault_count > 1 and not verbose else ""
        shown = c.faults if verbose else (one,)
        lines.extend(f"fault     {name}: {f.source}: {f.error}{rest}" for f in shown)
    return lines


def _name(health: Health, s: SymptomHealth) -> str:
    """The component without the node's name."""
    return s.component.removeprefix(f"{health.node}/")


def _span(seconds: float) -> str:
    """A duration in one unit: 45s, 12m, 3h, 2d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds / length)}{unit}"
    return f"{int(seconds)}s"


def _clock(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))


def _reachable(listen: str) -> str:
    """The address at which this node reaches its own listener."""
    host, port = parse_address(listen)
    return str(Address({"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port))


def _load(args: argparse.Namespace, *uses: str) -> config.Root:
    """The agent's configuration, overridden by the command line, with the sections in `uses`.

    Its tokens and keys are not read: they may be readable by the agent only.
    """
    root = config.load(args.config, overrides(args), uses=uses)
    root.agent = root.agent or AgentConfig()
    return root


def _read(args: argparse.Namespace, evaluates: bool) -> Health:
    """The health of this node or of a recorded host from two reads. `evaluates`: with the rules."""
    # The rules import NumPy. Its linear algebra, which is not used, would allocate a buffer per processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fabricmon.agent.single_check import check

    root = _load(args, "collect", *(("rules",) if evaluates else ()))
    return check(root, open_host(root, args.host))
