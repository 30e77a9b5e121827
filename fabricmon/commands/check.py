"""Is this node's fabric healthy? Asks the agent that runs here; where none answers, reads the node itself.

The first line is the summary, then one line a symptom, the worst first. Exit code: 0 pass, 1 warning, 2 critical,
3 unknown (nothing, or not everything, could be judged and nothing worse is known)."""

from __future__ import annotations

import argparse
import asyncio
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
from fabricmon.agent.report import CollectorHealth, Health, SymptomHealth
from fabricmon.agent.settings import AgentConfig
from fabricmon.commands import own_agent
from fabricmon.commands.agent import add_host_arguments, open_host, overrides
from fabricmon.commands.own_agent import Way
from fabricmon.model import Severity
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address, parse_address
from fabricmon.terminal import console
from fabricmon.terminal.text import clean

EXAMPLES = """\
fabricmon check
fabricmon check -v
fabricmon check --direct --json
fabricmon check --agent node-7:9790
"""
CODES = {"pass": 0, "warn": 1, "critical": 2, "unknown": 3}
WORDS = {Severity.CRITICAL: "CRITICAL", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
MAX_ANSWER = 4 << 20
"""Bytes of an agent's answer."""

SHOWN_AGE = 3.0
"""Seconds from which a symptom's age is worth a word; a direct read has seen none longer."""


class _NoAgent(Exception):
    """Nothing usable came from the agent's address; the text says what."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to ask and how to print."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--agent", metavar="ADDR", help="HOST:PORT of the agent (default: where this node's listens)")
    where.add_argument("--direct", action="store_true", help="do not ask an agent, read the node twice instead")
    parser.add_argument("--config", metavar="FILE", help="configuration of the agent; without it the defaults hold")
    add_host_arguments(parser)
    own_agent.add_arguments(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0, help="for the agent's answer")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="say why each symptom matters and what to do")


def run(args: argparse.Namespace) -> int:
    """Print the health of the node; the exit code says it too. ConfigError for a configuration that is wrong."""
    agent = _load(args).agent
    logs.configure("logfmt", "error")
    direct = args.direct or bool(args.host) or bool(args.sysfs)
    note = ""
    if not direct:
        address = args.agent or _reachable(agent.listen[0])
        try:
            health = ask(own_agent.way(address, agent.web, args), args.timeout)
        except (_NoAgent, config.ConfigError, ValueError, OSError) as error:
            why = "; ".join(str(error).splitlines())
            if args.agent:
                print(clean(f"UNKNOWN: {why}"), file=sys.stderr)
                return CODES["unknown"]
            note = f"{why}; read directly, so without history: past flaps and slow errors do not show"
            direct = True
        else:
            source = f"agent at {address}"
    if direct:
        try:
            health = _read(args, agent.judge)
        except Exception as error:
            print(clean(f"UNKNOWN: cannot read this node: {error}"), file=sys.stderr)
            return CODES["unknown"]
        source = args.host or "direct read"
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(health), indent=2).decode() + "\n")
    else:
        width = shutil.get_terminal_size((120, 24)).columns
        console.show(map(clean, render(health, source, note, verbose=args.verbose, width=width).split("\n")))
    return CODES.get(health.status, CODES["unknown"])


def ask(way: Way, timeout: float) -> Health:
    """The answer of an agent. _NoAgent when there is none or it is none."""
    where = way.url.partition("://")[2]
    try:
        with way.opener().open(Request(f"{way.url}/health", headers=way.headers), timeout=timeout) as answer:
            body = answer.read(MAX_ANSWER + 1)
        if len(body) > MAX_ANSWER:
            raise _NoAgent(f"the answer of {where} has more than {MAX_ANSWER} bytes")
        return msgspec.json.decode(body, type=Health)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            said = error.read(300).decode(errors="replace").strip()
            raise _NoAgent(f"the agent at {where} refuses: {said} (--token-file, --user-file)") from error
        raise _NoAgent(f"{where} is no fabricmon agent: it answers {error.code} to /health") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _NoAgent(f"{where} is no fabricmon agent of this version: {error}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        told = getattr(reason, "verify_message", "") or getattr(reason, "strerror", None) or reason
        raise _NoAgent(f"no agent answers at {where} ({told})") from error


def render(health: Health, source: str, note: str = "", *, verbose: bool = False, width: int = 120) -> str:
    """What a person reads: the summary, the symptoms, what could not be read, and the note."""
    lines = [_summary(health, source)]
    columns = max((len(_name(health, s)) for s in health.symptoms), default=0)
    for s in health.symptoms:
        lines.append(_symptom(health, s, columns))
        if verbose:
            for word, text in (("why", s.why), ("do", s.action)):
                if text:
                    lines.extend(textwrap.wrap(text, max(40, width), initial_indent=f"          {word}: ",
                                               subsequent_indent=" " * (12 + len(word))))
    lines.extend(line for c in health.collectors for line in _collector(c, verbose))
    if note:
        lines.append(f"note      {note}")
    if health.symptoms and not verbose:
        lines.append("note      -v tells why each matters and what to do")
    return "\n".join(lines)


def _summary(health: Health, source: str) -> str:
    words = ((Severity.CRITICAL, "critical", "critical"), (Severity.WARNING, "warning", "warnings"),
             (Severity.INFO, "info", "info"))
    counts = [
        f"{n} {one if n == 1 else many}" for severity, one, many in words
        if (n := sum(s.severity is severity for s in health.symptoms))
    ]
    said = ", ".join(counts) or "no symptoms"
    head = {"pass": "PASS", "warn": "WARNING", "critical": "CRITICAL"}.get(health.status, "UNKNOWN")
    reason = f": {health.reason}" if health.reason else ""
    rows = f"{health.judged} port{'' if health.judged == 1 else 's'} read"
    return f"{head} {health.node}{reason} - {said}; {rows} ({source})"


def _symptom(health: Health, s: SymptomHealth, columns: int) -> str:
    evidence = "; ".join(s.evidence)
    age = max(0.0, health.at - s.since)
    return (f"{WORDS[s.severity]:<8}  {_name(health, s):<{columns}}  {s.title}"
            f"{f': {evidence}' if evidence else ''}{f' (for {_span(age)})' if age >= SHOWN_AGE else ''}")


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
    """The component without this node's name before it."""
    return s.component.removeprefix(f"{health.node}/")


def _span(seconds: float) -> str:
    """A length of time as people say it: 45s, 12m, 3h, 2d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds / length)}{unit}"
    return f"{int(seconds)}s"


def _clock(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))


def _reachable(listen: str) -> str:
    """The address under which this node reaches what it listens on."""
    host, port = parse_address(listen)
    return str(Address({"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port))


def _load(args: argparse.Namespace, *uses: str) -> config.Root:
    """The agent's configuration with the command line over it, and the sections in `uses` whether it has them or not.

    Tokens and keys that it names are the agent's: whoever checks need not be able to read them.
    """
    root = config.load(args.config, overrides(args), uses=uses)
    root.agent = root.agent or AgentConfig()
    return root


def _read(args: argparse.Namespace, judges: bool) -> Health:
    """The health of the node, or of a recorded one, as two reads show it. `judges`: by the rules."""
    # NumPy comes in with the rules. Its linear algebra, of which nothing is used, would keep a buffer per processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fabricmon.agent.look import look

    root = _load(args, "collect", *(("rules",) if judges else ()))
    return asyncio.run(look(root, open_host(root, args.host)))
