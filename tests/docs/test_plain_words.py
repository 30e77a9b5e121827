"""Everything but the tests is written in the field's own words, and one thing has one name.

WORDS is what may not be written, with what to write instead; KEPT are the lines where such a word is a name that cannot
change. Matching is by whole words; a word with a capital is searched as it stands, because it was a heading.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WORDS = {
    "centre": "central server",
    "tell, tells, told, telling": "notify, report, print",
    "hear, hears, heard, hearing": "receive",
    "speak, speaks, spoken, speaking": "report, support",
    "say, says, said, saying": "report, state, name",
    "judge, judges, judged, judging, judgement": "evaluate, rule",
    "nobody": "no user, no node: name who",
    "ruler, rulers": "rule evaluator",
    "up-link, up-links": "uplink",
    "take an incident on, taken on by, nobody has it": "acknowledge",
    "all well": "OK",
    "no word from": "disconnected since",
    "told because, how sure, jobs hit": "Reason, Confidence, Affected jobs",
    "Announced": "maintenance window",
    "SPEAKS FOR IT, COULD ALSO BE": "EVIDENCE, OTHER POSSIBLE CAUSES",
    "otherwise than, relied upon": "differs from, unreliable",
    "held back, held up, let send": "congested, back-pressured, cannot transmit",
    "Idlest, Fabric busy, not heard": "Least utilised, Utilisation, not reporting",
    "Packets sent again, stop their switch, Not allowed to send": "Retransmissions, PFC pause sent, PFC pause received",
    "told to slow down": "CNPs received",
    "before correction, could not be corrected, Light received": "pre-FEC BER, uncorrectable codewords, Rx power",
    "Whose fabric, What the driver wants, GPUs to recover": "the name of the metric's subject",
    "Itself, Judged ago, Looks a second, Who watches": "Self-monitoring, Last evaluation, Evaluations/s",
    "As they come": "by default",
    "Kept from others, To begin, To look, To be told, To run it, To know why": "a noun as heading",
    "made no sense, could not be had, for want of, verbs objects": "invalid, not obtained, for lack of, their name",
    "let alone, in peace, looked after": "skipped, monitored",
    "find out, finds out, found out, look for, look at, looks at": "check, see, search",
}
"""Words separated by commas -> what is written instead."""

KEPT = {
    # Old names beside their new ones.
    "CHANGELOG.md": r"^  (\| `.*\| `|Fields of JSON output: |`judged` of )|^\* `.*` is now `",
    "fabricmon/central/store/database.py": r"TABLE told\b",  # the migration of stored state
    "fabricmon/recording/reading.py": r"file\.tell\(\)",  # Python's name
}
"""File -> lines in which such a word is a name."""

PATHS = (".", ":!tests", ":!*.png", ":!*.lock", ":!LICENSE")

_PRODUCTS = re.compile(r"Thanos Ruler")  # names of other products
_FORMS = {form.strip(): instead for forms, instead in WORDS.items() for form in forms.split(",")}
_PATTERN = re.compile(
    "|".join(rf"(?<![\w`]){form if form != form.lower() else f'(?i:{form})'}(?!\w)" for form in sorted(_FORMS, key=len))
)


def found(name: str, text: str) -> list[str]:
    """`file:line: words, and what to write instead` of each line that is not kept."""
    kept = re.compile(KEPT[name]) if name in KEPT else None
    wrong = []
    small = text.lower()
    here = [form for form in {form.lower() for form in _FORMS} if form in small]  # cheaper than the pattern
    for number, line in enumerate(text.splitlines(), 1):
        small = line.lower()
        if not any(form in small for form in here):
            continue
        match = _PATTERN.search(_PRODUCTS.sub("", line))
        if match and not (kept and kept.search(line)):
            instead = _FORMS.get(match[0]) or _FORMS[match[0].lower()]
            wrong.append(f"{name}:{number}: {match[0]!r}; write: {instead}")
    return wrong


def written() -> list[Path]:
    """Every text file of the repository besides the tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PATHS],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_what_is_read_is_written_in_plain_words() -> None:
    files = written()
    assert len(files) > 400
    wrong = [line for path in files for line in found(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", KEPT)
def test_every_kept_line_is_still_there(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if re.search(KEPT[name], line) and _PATTERN.search(line)]


@pytest.mark.parametrize("form", _FORMS)
def test_each_word_is_found(form: str) -> None:
    assert found("docs/page.md", f"before it {form}, and after")
