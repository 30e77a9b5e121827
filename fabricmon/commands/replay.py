"""Evaluate a recording of `fabricmon central --record DIR` again.

Without --config: with the recorded configuration; every decision is compared byte by byte with the recorded one. Exit 0
if all are equal, 1 if not, 2 if the recording cannot be read. With --config: with the rules, topology and receivers of
that configuration too, and the differences are shown.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabricmon.console import output
from fabricmon.console.progress import Progress, elapsed
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.text_table import text_table

if TYPE_CHECKING:
    from fabricmon.recording.reading import Recording
    from fabricmon.replay.compare import Comparison
    from fabricmon.replay.run import Other, RecordingFacts, ReplayOutcome

EXAMPLES = """\
fabricmon replay /var/lib/fabricmon/recording
fabricmon replay recording --config other.yaml --from 2026-03-01T14:00
fabricmon replay recording --anonymise shareable
"""
NAMED = 10  # differing evaluations that are shown; --json has up to 100
COUNTED = (
    "runs", "fabricmon", "fabric", "first", "last", "records", "frames", "inventories", "events", "ticks", "whole",
)  # fmt: skip
EXIT_SAME, EXIT_DIFFERENT, EXIT_UNREADABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recording", nargs="+", metavar="DIR", help="directory of a recording, or segments of it")
    add("--config", metavar="FILE", help="evaluate with this configuration too, and compare")
    add("--from", dest="since", metavar="TIME", type=moment, help="compare from here on (evaluate from 1 h before)")
    add("--to", dest="until", metavar="TIME", type=moment, help="stop at this time")
    add("--json", action="store_true", help="print the result as JSON")
    add("--anonymise", metavar="DIR", help="only write a copy to DIR with all names replaced")
    add("--key-file", metavar="FILE", help="with --anonymise: the same key gives the same names (default: random)")


def moment(text: str) -> float:
    """Seconds since 1970 of `2026-03-01T14:00`, with or without a zone, or of a number."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a time such as 2026-03-01T14:00, 2026-03-01T14:00:00+01:00 or seconds since 1970"
            ) from None
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time")
    return seconds


def run(args: argparse.Namespace) -> int:
    """0, 1 or 2 as above; with --config 0 also for differences."""
    from fabricmon.engine.symptoms.rule_states import ParamsError
    from fabricmon.recording.reading import Recording, RecordingError

    try:
        recording = Recording(args.recording, args.since)
        if args.anonymise:
            return _anonymise(recording, args)
        other = _other(args.config) if args.config else None
        outcome = _played(recording, other, args)
    except RecordingError as error:
        print(f"fabricmon replay: {clean(error)}", file=sys.stderr)
        return EXIT_UNREADABLE
    except ParamsError as error:
        print(f"fabricmon replay: the recorded configuration: {clean(error)}", file=sys.stderr)
        return EXIT_UNREADABLE
    if args.json:
        print(json.dumps(document(outcome, recording), indent=1, allow_nan=False))
    else:
        output.show(clean(line) for line in _lines(outcome, recording))
    return EXIT_DIFFERENT if other is None and outcome.verification.different else EXIT_SAME


def _played(recording: Recording, other: Other | None, args: argparse.Namespace) -> ReplayOutcome:
    from fabricmon.replay.run import play

    with Progress() as progress:

        def show(facts: RecordingFacts) -> None:
            if progress.due():
                share = recording.done / max(1, recording.bytes)
                at = _clock(facts.last)
                progress.show(f"{share:4.0%}  {at}  {facts.frames:,} frames, {facts.ticks:,} evaluations")

        return play(recording.items(), other, args.since, args.until, show)


def _other(path: str) -> Other:
    """Rules, topology and receivers of a configuration; missing sections come from the recording."""
    from fabricmon import config, sources
    from fabricmon.config import source
    from fabricmon.replay.run import Other
    from fabricmon.senders.destination import destination

    root = config.load(path, uses=("topology", "rules", "notify", "senders"))
    graph = None
    files = [*([root.topology.file] if root.topology.file else []), *root.topology.files]
    if files:
        try:
            graph = sources.load_all(files, root.topology.node_names)
        except sources.SourceError as error:
            raise config.ConfigError(config.ConfigProblem(path, 0, "topology", str(error))) from error
    receivers = None
    if "senders" in source.parse(source.read_text(path), path).value:
        receivers = tuple(destination(n, s.kind, s.config, root.notify).receiver for n, s in root.senders.items())
    return Other(root.rules, graph, receivers)


def _anonymise(recording: Recording, args: argparse.Namespace) -> int:
    from fabricmon.recording.anonymise import anonymise

    try:
        key = Path(args.key_file).read_bytes() if args.key_file else b""
        with elapsed("writing the copy"):
            counts = anonymise(recording, args.anonymise, key)
    except (OSError, ValueError) as error:
        print(f"fabricmon replay: {clean(error)}", file=sys.stderr)
        return EXIT_UNREADABLE
    print(f"{args.anonymise}: {counts.segments} segments, {counts.records} records, {counts.names} names replaced")
    return EXIT_SAME


# Text


def _lines(outcome: ReplayOutcome, recording: Recording) -> list[str]:
    facts, check = outcome.facts, outcome.verification
    span = f"{_clock(facts.first)} to {_clock(facts.last)} ({_span(facts.last - facts.first)})"
    lines = [
        f"recording   {_many(len(recording.segments), 'segment')} of {_many(facts.runs, 'run')}, "
        f"by fabricmon {facts.fabricmon}",
        f"time        {span}" if facts.ticks else "time        no evaluation",
        f"content     {facts.frames:,} frames, {facts.inventories:,} inventories, {facts.events:,} events, "
        f"{facts.ticks:,} evaluations",
    ]
    lines += [f"note        {note}" for note in (*recording.notes, *sorted(outcome.notes))]
    if recording.more_notes:
        lines.append(f"note        and {recording.more_notes} more")
    lines.append(f"decisions   {check.same:,} of {check.ticks:,} evaluations identical")
    if check.anonymised:
        lines.append(f"            {check.anonymised:,} of them compared without names, which were replaced")
    if check.after:
        lines.append(
            f"            {check.after:,} differ after a gap in the recording: the rules depend on the missing data"
        )
    if check.different:
        lines.append(f"            {check.different:,} DIFFER with the same input")
    for difference in check.named[:NAMED]:
        lines.append(f"  {_clock(difference.at)}  {difference.what[0]}")
        lines += [f"  {'':<24} {text}" for text in difference.what[1:NAMED]]
    if outcome.other is None:
        return lines
    from fabricmon.replay.compare import compare

    return [*lines, "", *_table(compare(outcome.recorded, outcome.other))]


def _table(comparison: Comparison) -> list[str]:
    counts = comparison.counts()
    lines = [
        "incidents   A: as recorded, B: with the given configuration",
        "            " + ", ".join(f"{number} {what}" for what, number in counts.items()),
    ]
    lines += [
        f"notified    {receiver}: {a} by A, {b} by B" for receiver, (a, b) in sorted(comparison.notifications.items())
    ]
    differing = [row for row in comparison.rows if row.what != "same"]
    if not differing:
        return lines
    cells = [("", "onset", "severity", "kind", "component", "difference")]
    cells += [
        (r.what, _clock(r.onset), r.severity, r.kind, r.component, ", ".join(r.fields) or _alone(r)) for r in differing
    ]
    return [*lines, "", *text_table(cells)]


def _alone(row: Any) -> str:
    ended = f"for {_span(row.ended - row.onset)}" if row.ended is not None else "still open"
    return f"{ended}, {sum(row.notified)} notifications"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m" if whole >= 3600 else f"{whole // 60}m{whole % 60:02d}s"


# JSON


def document(outcome: ReplayOutcome, recording: Recording) -> dict[str, Any]:
    """The result as JSON; docs/replay.md describes the fields."""
    import msgspec

    from fabricmon.replay.compare import compare

    facts, check = outcome.facts, outcome.verification
    found: dict[str, Any] = {
        "recording": {
            "segments": [str(segment.path) for segment in recording.segments],
            **{name: getattr(facts, name) for name in COUNTED},
            "notes": [*recording.notes, *sorted(outcome.notes)],
        },
        "decisions": {
            "ticks": check.ticks,
            "same": check.same,
            "same_without_names": check.anonymised,
            "different": check.different,
            "different_not_whole": check.after,
            "named": msgspec.to_builtins(check.named),
        },
        "incidents": [msgspec.to_builtins(episode) for episode in outcome.recorded.episodes],
        "notifications": outcome.recorded.notifications,
    }
    if outcome.other is not None:
        comparison = compare(outcome.recorded, outcome.other)
        found["comparison"] = {
            "counts": comparison.counts(),
            "notifications": {n: list(pair) for n, pair in comparison.notifications.items()},
            "rows": msgspec.to_builtins(comparison.rows),
        }
    return found
