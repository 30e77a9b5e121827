"""What can be told of the image without building it; the rest is `python -m tests.image`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from fabricmon import __version__
from fabricmon.commands.table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", " ", TEXT).splitlines()
FINAL = LINES[[n for n, line in enumerate(LINES) if line.startswith("FROM ")][-1] :]


def instruction(name: str) -> str:
    (only,) = [line.split(maxsplit=1)[1] for line in FINAL if line.startswith(f"{name} ")]
    return only


def labels() -> dict[str, str]:
    found = re.findall(r'org\.opencontainers\.image\.(\S+?)=("[^"]*"|\S+)', instruction("LABEL"))
    return {name: value.strip('"') for name, value in found}


def test_it_has_the_labels_of_an_image_and_the_version_of_the_program() -> None:
    given = dict(line[4:].split("=") for line in FINAL if line.startswith("ARG ") and "=" in line)
    assert {"title", "description", "source", "version", "revision", "created", "base.name"} <= labels().keys()
    assert labels()["licenses"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]["text"]
    assert given["VERSION"] == __version__
    filled = {value[1:] for value in labels().values() if value.startswith("$")}
    assert filled == {line[4:].partition("=")[0] for line in FINAL if line.startswith("ARG ")}


def test_make_image_fills_in_what_the_labels_take() -> None:
    given = set(re.findall(r"--build-arg (\w+)=", (ROOT / "Makefile").read_text()))
    assert given == {"VERSION", "REVISION", "CREATED", "SOURCE"}


def test_both_stages_are_of_one_base_that_is_pinned_by_its_digest() -> None:
    (base,) = [line[9:] for line in LINES if line.startswith("ARG BASE=")]
    assert re.fullmatch(r"python:3\.11-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert [line for line in LINES if line.startswith("FROM ")] == ["FROM ${BASE} AS build", "FROM ${BASE}"]


def test_what_builds_stays_in_the_first_stage() -> None:
    """The environment that is copied has neither pip nor setuptools; compilers and package lists are not installed."""
    build = "\n".join(LINES[: -len(FINAL)])
    assert "/opt/fabricmon/bin/python -m pip uninstall --yes --quiet pip setuptools" in build
    assert not re.search(r"\bapt(-get)?\b|\bgcc\b", "\n".join(FINAL))


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
