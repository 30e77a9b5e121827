"""The wheel and the source distribution: each installs into an empty environment and runs from any folder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import setuptools

from fabricmon import __version__
from tests.rigs.clone import fresh_clone

FOLDERS = ("runbooks/text/link_down.md", "central/page/static/main.js", "systemd/files/fabricmon-agent.service",
           "sim/scenarios/s01-single-cable-flap.yaml", "manual/fabricmon.1", "py.typed")  # fmt: skip
"""A file of each kind that is no Python and that the program reads, below `fabricmon/`."""


def python(*words: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that a release has, made by the build backend from a fresh clone."""
    made = tmp_path_factory.mktemp("release")
    backend = "import setuptools.build_meta as b, sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"
    with fresh_clone() as clone:
        for step in ("build_wheel", "build_sdist"):
            python(sys.executable, "-W", "ignore", "-c", backend, step, made, cwd=clone)
    return {path.suffix: path for path in made.iterdir()}


@pytest.mark.parametrize("form", [".whl", ".gz"])
def test_it_installs_into_an_empty_environment_and_runs_from_any_folder(
    distributions: dict[str, Path], form: str, tmp_path: Path
) -> None:
    home, elsewhere = tmp_path / "venv", tmp_path / "empty"
    elsewhere.mkdir()
    venv.create(home, with_pip=False)
    own = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)}, scheme="venv")["purelib"]
    shared = str(Path(setuptools.__file__).parents[1])  # its dependencies, not the program
    (Path(own) / "dependencies.pth").write_text(shared + "\n", encoding="utf-8")
    python(sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "--quiet", "--no-deps",
           "--no-build-isolation", "--no-index", "--ignore-installed", distributions[form], cwd=elsewhere)  # fmt: skip
    where = python(home / "bin/python", "-c", "import fabricmon; print(fabricmon.__path__[0])", cwd=elsewhere).strip()
    assert Path(where).is_relative_to(home)
    assert [name for name in FOLDERS if not (Path(where) / name).is_file()] == []
    for program in ((home / "bin/fabricmon",), (home / "bin/python", "-m", "fabricmon")):
        assert python(*program, "--version", cwd=elsewhere) == f"fabricmon {__version__}\n"
    assert "fabricmon.1" in str(list(home.rglob("fabricmon.1")))
