"""What can be told of the image without building it; the rest is `python -m tests.image`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fabricmon.commands.table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", " ", TEXT).splitlines()
FINAL = LINES[[n for n, line in enumerate(LINES) if line.startswith("FROM ")][-1] :]


def instruction(name: str) -> str:
    (only,) = [line.split(maxsplit=1)[1] for line in FINAL if line.startswith(f"{name} ")]
    return only


def test_it_runs_as_a_user_that_is_a_number() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER"))


def test_everything_is_installed_by_hash_or_from_the_source_itself() -> None:
    installs = [part for line in LINES for part in line.split("&&") if re.search(r"pip (install|wheel)", part)]
    assert len(installs) == 4
    assert [part for part in installs if "--require-hashes" not in part and "--no-deps" not in part] == []


def test_the_final_stage_only_copies_what_was_built_so_that_its_layers_can_be_built_again() -> None:
    assert [line for line in FINAL if line.startswith(("RUN ", "ADD "))] == []
    assert [line for line in FINAL if line.startswith("COPY ")] == ["COPY --from=build /image/ /"]


def test_the_health_check_is_a_command_there_is() -> None:
    program, verb = json.loads(instruction("HEALTHCHECK").split("CMD ")[1])
    assert (program, verb in COMMANDS) == ("fabricmon", True)


def test_the_build_sees_the_sources_and_nothing_else() -> None:
    shown = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = [line.split()[1:-1] for line in LINES if line.startswith("COPY ") and "--from" not in line]
    assert shown == {word for words in copies for word in words}
