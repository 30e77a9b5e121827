"""Judge a recording of `fabricmon central --record DIR` again.

Without --config: by the recorded configuration, and every decision is compared to the byte with the one that was made
then. Exit 0 when all are the same, 1 when not, 2 when it cannot be read. With --config: by that configuration's rules,
topology and receivers beside the recorded ones, and what differs is shown.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabricmon.terminal import console
from fabricmon.terminal.text import clean

if TYPE_CHECKING:
    from fabricmon.replay.compare import Comparison
    from fabricmon.replay.reading import Recording
    from fabricmon.replay.run import Facts, Other, Outcome

EXAMPLES = """\
fabricmon replay /var/lib/fabricmon/recording
fabricmon replay recording --config other.yaml --from 2026-03-01T14:00
fabricmon replay recording --anonymise shareable
"""
NAMED = 10  # ticks that differ and are shown; --json has up to 100
EXIT_SAME, EXIT_DIFFERENT, EXIT_UNREADABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recording", nargs="+", metavar="DIR", help="directory of a recording, or single segments of one")
    add("--config", metavar="FILE", help="another configuration to judge by, beside the recorded one")
    add("--from", dest="since", metavar="TIME", type=moment, help="what counts begins here; reading, an hour before")
    add("--to", dest="until", metavar="TIME", type=moment, help="stop here")
    add("--json", action="store_true", help="print all of it as JSON")
    add("--anonymise", metavar="DIR", help="judge nothing: write the recording there with every name replaced")
    add("--key-file", metavar="FILE", help="with --anonymise: the same key gives the same names (default: random)")


def moment(text: str) -> float:
    """Wall seconds of `2026-03-01T14:00`, of the same with a zone, or of a number."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            raise argparse.ArgumentTypeError(
                f"{text!r} is no time: 2026-03-01T14:00, 2026-03-01T14:00:00+01:00 or seconds since 1970"
            ) from None
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"{text!r} is no time")
    return seconds


def run(args: argparse.Namespace) -> int:
    """0, 1 or 2 as above; with --config 0 whatever differs."""
    from fabricmon.engine.judges import ParamsError
    from fabricmon.replay.reading import Recording, RecordingError

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
        console.show(clean(line) for line in _lines(outcome, recording))
    return EXIT_DIFFERENT if other is None and outcome.verification.different else EXIT_SAME


def _played(recording: Recording, other: Other | None, args: argparse.Namespace) -> Outcome:
    from fabricmon.replay.run import play

    with console.Progress() as progress:

        def tell(facts: Facts) -> None:
            if progress.due():
                share = recording.done / max(1, recording.bytes)
                progress.tell(f"{share:4.0%}  {_clock(facts.last)}  {facts.frames:,} frames, {facts.ticks:,} ticks")

        return play(recording, other, args.since, args.until, tell)


def _other(path: str) -> Other:
    """Rules, topology and receivers of a configuration. What it does not say is taken from the recording."""
    import yaml

    from fabricmon import config, sources
    from fabricmon.replay.run import Other
    from fabricmon.senders.destination import destination

    root = config.load(path, uses=("topology", "rules", "notify", "senders"))
    graph = None
    files = [*([root.topology.file] if root.topology.file else []), *root.topology.files]
    if files:
        try:
            graph = sources.load_all(files, root.topology.node_names)
        except sources.SourceError as error:
            raise config.ConfigError(config.Problem(path, 0, "topology", str(error))) from error
    with open(path, encoding="utf-8") as file:
        said = yaml.safe_load(file) or {}
    receivers = None
    if "senders" in said:
        receivers = tuple(destination(n, s.kind, s.config, root.notify).receiver for n, s in root.senders.items())
    return Other(root.rules, graph, receivers)


def _anonymise(recording: Recording, args: argparse.Namespace) -> int:
    from fabricmon.replay.anonymise import anonymise

    try:
        key = Path(args.key_file).read_bytes() if args.key_file else b""
        with console.elapsed("writing the recording anew"):
            counts = anonymise(recording, args.anonymise, key)
    except (OSError, ValueError) as error:
        print(f"fabricmon replay: {clean(error)}", file=sys.stderr)
        return EXIT_UNREADABLE
    print(f"{args.anonymise}: {counts.segments} segments, {counts.records} records, {counts.names} names replaced")
    return EXIT_SAME


# --------------------------------------------------------------------------------------------------------
# For a person


def _lines(outcome: Outcome, recording: Recording) -> list[str]:
    facts, check = outcome.facts, outcome.verification
    span = f"{_clock(facts.first)} to {_clock(facts.last)} ({_span(facts.last - facts.first)})"
    lines = [
        f"recording   {_many(len(recording.segments), 'segment')} of {_many(facts.runs, 'run')}, "
        f"by fabricmon {facts.fabricmon}",
        f"time        {span}" if facts.ticks else "time        no tick",
        f"content     {facts.frames:,} frames, {facts.inventories:,} inventories, {facts.events:,} events, "
        f"{facts.ticks:,} ticks",
    ]
    lines += [f"note        {note}" for note in (*recording.notes, *sorted(outcome.notes))]
    if recording.more_notes:
        lines.append(f"note        and {recording.more_notes} more")
    lines.append(f"decisions   {check.same:,} of {check.ticks:,} ticks the same to the byte")
    if check.unsaid:
        lines.append(f"            {check.unsaid:,} of them by rules, components and numbers: names were replaced")
    if check.after:
        lines.append(
            f"            {check.after:,} differ where the recording is not whole: rules remember what is missing there"
        )
    if check.different:
        lines.append(f"            {check.different:,} DIFFER although this engine was told the same")
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
        "incidents   A: as recorded, B: by the given configuration",
        "            " + ", ".join(f"{number} {what}" for what, number in counts.items()),
    ]
    lines += [
        f"notified    {receiver}: {a} by A, {b} by B" for receiver, (a, b) in sorted(comparison.notifications.items())
    ]
    told = [row for row in comparison.rows if row.what != "same"]
    if not told:
        return lines
    cells = [("", "onset", "severity", "kind", "component", "difference")]
    cells += [
        (r.what, _clock(r.onset), r.severity, r.kind, r.component, ", ".join(r.fields) or _alone(r)) for r in told
    ]
    widths = [max(len(row[at]) for row in cells) for at in range(5)]
    lines.append("")
    lines += ["  ".join([*(f"{c:<{w}}" for c, w in zip(row, widths, strict=False)), row[5]]).rstrip() for row in cells]
    return lines


def _alone(row: Any) -> str:
    ended = f"for {_span(row.ended - row.onset)}" if row.ended is not None else "still fires"
    return f"{ended}, notified {sum(row.notified)} times"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m" if whole >= 3600 else f"{whole // 60}m{whole % 60:02d}s"


# --------------------------------------------------------------------------------------------------------
# For a program


def document(outcome: Outcome, recording: Recording) -> dict[str, Any]:
    """All of it; the fields are described in docs/replay.md."""
    import msgspec

    from fabricmon.replay.compare import compare

    facts, check = outcome.facts, outcome.verification
    found: dict[str, Any] = {
        "recording": {
            "segments": [str(segment.path) for segment in recording.segments],
            "runs": facts.runs,
            "fabricmon": facts.fabricmon,
            "fabric": facts.fabric,
            "first": facts.first,
            "last": facts.last,
            "records": facts.records,
            "frames": facts.frames,
            "inventories": facts.inventories,
            "events": facts.events,
            "ticks": facts.ticks,
            "whole": facts.whole,
            "notes": [*recording.notes, *sorted(outcome.notes)],
        },
        "decisions": {
            "ticks": check.ticks,
            "same": check.same,
            "same_without_names": check.unsaid,
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
