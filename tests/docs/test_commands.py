"""Every command of every document does what the document says, against a server with a simulated fabric.

Addresses and paths of the documents are replaced by those of the test site (stands_for). `fabricmon ...` without shell
syntax is run in this process, everything else by bash. Output below a command is compared by
structure: numbers, times and ids may differ. Marks for commands that cannot be run: `blocks.py`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fabricmon.catalogue import CATALOGUE
from fabricmon.cli import main
from tests.docs.blocks import ELSEWHERE, LANGUAGES, ROOT, Block, blocks, commands, pages

RUN_LIMIT = 60.0  # seconds for one block
HOST = re.compile(r"(?<![\w.])/(?:etc|opt|usr|var)\b")
PROGRAMS = {"curl": "documents ask the API with it", "promtool": "documents check rules with it"}
"""Programs that pages with such commands need."""
SHELL = re.compile(r"[|&;<>$`\n]|(?:^| )#")
BLOCKS = [block for page in pages() for block in blocks(page)]
RUN = sorted({b.page for b in BLOCKS if b.runs} - {ROOT / page for page in ELSEWHERE})


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def place(block: Block) -> str:
    return block.place


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The running site: addresses, names, and `folder`, in which the files of the documents lie."""
    folder = tmp_path_factory.mktemp("site")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.docs.site", folder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said, "the site did not come up"
        yield json.loads(said) | {"folder": folder}
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.fixture
def here(site: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the documents, as the working directory."""
    made = site["folder"] / "etc"
    for what in ("etc", "tmp", "default"):
        (tmp_path / what).mkdir()
    for file in made.iterdir():
        shutil.copy(file, tmp_path / "etc")
    shutil.copy(made / "ibnetdiscover.txt", tmp_path / "fabric.txt")
    (tmp_path / "etc" / "central.yaml").write_text("central: {targets: [node-1]}\n")
    (tmp_path / "new.yaml").write_text("rules: {link_down: {hold: 1s}}\n")
    for folder in ("deploy", "dashboards", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRICMON_SERVER", f"http://{site['server']}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def stands_for(text: str, site: dict[str, Any], here: Path) -> str:
    """The text with the site's addresses, ids and paths instead of the documents'."""
    server, folder = site["server"], site["folder"]
    known = (
        (r"\b(?:localhost|fabricmon(?:\.example)?):9791\b", server),
        (r"https?://fabricmon\.example\b", f"http://{server}"),
        (r"\blocalhost:9790\b", site["agent"]),
        (r"\b5f1d6d0f3c2b9a47\b|\bINCIDENT\b", site["incident"]),
        (r"\bCOMPONENT\b", f"host({site['hosts'][1]})"),
        (r"/etc/fabricmon\b", f"{here}/etc"),
        (r"/etc/default\b", f"{here}/default"),
        (r"/var/lib/fabricmon\b", f"{folder}/var"),
        (r"/var/lib/grafana\b", f"{here}/grafana"),
        (r"/opt/fabricmon/bin/fabricmon\b", "fabricmon"),
        (r"(?<![\w.])/tmp/", f"{here}/tmp/"),
    )
    every = "|".join(f"({pattern})" for pattern, _ in known)
    return re.sub(every, lambda found: known[(found.lastindex or 1) - 1][1], text)


def inside(text: str, site: dict[str, Any], here: Path) -> str:
    """A command or file name with the test site's values; fails if it names a folder of this machine."""
    found = stands_for(text, site, here)
    rest = found.replace(str(here), "here").replace(str(site["folder"]), "site")
    assert not HOST.search(rest), f"{text.strip()}\n  names a folder of this machine: map it (stands_for)"
    return found


def run(command: str) -> tuple[int, str]:
    """Exit code and output, errors included."""
    if command.startswith("fabricmon ") and not SHELL.search(command):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = main(shlex.split(command)[1:])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
        return code, said.getvalue()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_LIMIT, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def steps(block: Block) -> list[tuple[str, str]]:
    """The commands of a block in order, each with the output that the document shows."""
    if block.language == "console":
        return commands(block)
    lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
    bare = [re.sub(r"\s+# .*$", "", line) for line in lines]
    if all(line.startswith("fabricmon ") and not SHELL.search(line) for line in bare):
        return [(line, "") for line in bare]
    return [(block.text, "")]


def structure(text: str) -> list[str]:
    """The lines of an output without numbers and ids, which differ from run to run."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\b[0-9a-f]{12,}\b", "ID", line)
        line = re.sub(r"\d+(?:[.,:]\d+)*", "N", line)
        if line := " ".join(line.split()):
            lines.append(line)
    return lines


def shown(expected: str, said: str) -> str:
    """The first line of the document that is missing in the output; "" if none is. A line "..." matches any."""
    left = iter(structure(said))
    for line in structure(expected):
        if line in ("...", "…"):
            continue
        pattern = ".*".join(re.escape(part) for part in re.split(r"\.\.\.|…", line))
        if not any(re.fullmatch(pattern, other) for other in left):
            return line
    return ""


@pytest.mark.parametrize("page", RUN, ids=name)
def test_commands_have_the_output_of_the_page(page: Path, site: dict[str, Any], here: Path, require) -> None:
    ran = [block for block in blocks(page) if block.runs]
    for program, why in PROGRAMS.items():
        if any(re.search(rf"\b{program} ", block.text) for block in ran):
            require(program, why)
    for block in blocks(page):
        if block.file:
            path = Path(inside(block.file, site, here))
            (here / path).write_text(stands_for(block.text, site, here))
    wrong = []
    for block in ran:
        for command, expected in steps(block):
            code, said = run(inside(command, site, here))
            if code not in block.exits:
                wrong.append(f"{block.place}: {command.strip()}\n  exit {code}: {said.strip()[-800:]}")
            elif missing := shown(stands_for(expected, site, here), said):
                wrong.append(f"{block.place}: {command.strip()}\n  the output has no line {missing!r}:\n{said[-1500:]}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_that_need_another_site_are_run_there(page: str) -> None:
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text()


def test_every_fence_names_its_language() -> None:
    assert [f"{b.place}: {b.language!r}" for b in BLOCKS if b.language not in LANGUAGES] == []


def test_no_command_hides_in_a_block_of_another_language() -> None:
    begins = re.compile(r"(?:\$ |# )?(?:fabricmon|curl|systemctl|kubectl|docker|make|pip|promtool|perfquery) [a-z-]")
    hidden = [
        f"{b.place}: {line}"
        for b in BLOCKS
        if b.language == "text"
        for line in b.text.splitlines()
        if begins.match(line)
    ]
    assert hidden == []


def test_commands_that_are_not_run_are_few_and_state_a_reason() -> None:
    left = [b for b in BLOCKS if b.reason]
    assert [b.place for b in left if len(b.reason.split()) < 4] == [], "a reason is a sentence"
    executed = [b for b in BLOCKS if b.runs]
    assert len(left) < len(executed)


@pytest.mark.parametrize("page", sorted({b.page for b in BLOCKS if b.language == "sh"}), ids=name)
def test_bash_can_parse_all_commands(page: Path, require) -> None:
    bash = require("bash", "reads the commands of the documents")
    text = "\n".join(b.text for b in blocks(page) if b.language == "sh")
    done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("page", pages(), ids=name)
def test_metrics_of_the_page_exist(page: Path, metrics: frozenset[str]) -> None:
    said = set(re.findall(r"\bfabricmon_[a-z0-9_]+", page.read_text())) - {"fabricmon_node_peermem_loaded"}
    said = {one.removesuffix("_bucket") for one in said}
    assert {one for one in said if one not in metrics and not any(m.startswith(one) for m in metrics)} == set()


RATES = {"fabricmon_rail_pressed_ports"}
"""Metrics that the server exports only after it has read its nodes' counters more than once."""


@pytest.fixture(scope="module")
def metrics(site: dict[str, Any]) -> frozenset[str]:
    """Metrics of agent and server, of the catalogue, and those that the code exports in other cases."""
    found = {counter.metric for counter in CATALOGUE.values()}
    deadline = time.monotonic() + 120
    while not found & RATES and time.monotonic() < deadline:
        for address in (site["server"], site["agent"]):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=120) as page:
                found |= set(re.findall(r"^# TYPE (\S+)", page.read().decode(), re.MULTILINE))
        time.sleep(0.2)
    for path in ROOT.glob("fabricmon/**/*.py"):
        found |= set(re.findall(r"[\"'](fabricmon_[a-z0-9_]+)[\"'{]", path.read_text()))
    return frozenset(found)


def test_an_incident_links_to_its_runbook(site: dict[str, Any]) -> None:
    with urllib.request.urlopen(f"http://{site['server']}/api/v1/incidents/{site['incident']}", timeout=120) as answer:
        path = json.load(answer)["runbook"]
    with urllib.request.urlopen(f"http://{site['server']}{path}", timeout=120) as page:
        assert "<h1" in page.read().decode()


@pytest.mark.parametrize("behind", ["", "/", "//"])
def test_a_trailing_slash_in_the_servers_address_leads_to_the_same_runbook(site: dict[str, Any], behind: str) -> None:
    code, said = run(f"fabricmon explain {site['incident']} --server http://{site['server']}{behind}")
    assert code == 0, said
    assert re.search(rf"^  http://{site['server']}/runbooks/\w+$", said, re.MULTILINE), said
