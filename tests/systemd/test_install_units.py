"""`fabricmon install-units`: everything in its place, again and again; what somebody has edited stays."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest
import yaml

from fabricmon import config
from fabricmon.cli import main
from fabricmon.systemd.units import HIDDEN, PACKAGED, SEAL, SERVICES, sealed, untouched, unusable

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "deploy" / "systemd"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The tree of a machine that has the program and nothing else."""
    program = tmp_path / "image/opt/fabricmon/bin/fabricmon"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for folder in program.parents:
        if folder.is_relative_to(tmp_path / "image"):
            folder.chmod(0o755)
    return tmp_path / "image"


def run(image: Path, *arguments: str) -> int:
    return main(["install-units", "--root", str(image), "--prefix", "/opt/fabricmon", *arguments])


def tree(image: Path) -> dict[str, str]:
    """What stands below /etc, without what systemd's own programs wrote there."""
    ours = {file.path for files in SERVICES.values() for file in files}
    found = {f"/{path.relative_to(image)}": path for path in (image / "etc").rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if name in ours or "service.d" in name}


def test_the_whole_of_a_node(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(image, "--agent", "--kernel-log") == 0
    files = tree(image)
    assert sorted(files) == [
        "/etc/default/fabricmon-agent",
        "/etc/fabricmon/agent.yaml",
        "/etc/systemd/system/fabricmon-agent.service",
        "/etc/systemd/system/fabricmon-agent.service.d/kernel-log.conf",
        "/etc/sysusers.d/fabricmon-agent.conf",
        "/etc/tmpfiles.d/fabricmon.conf",
    ]
    assert all(untouched(text) for text in files.values())
    for path in (image / "etc").rglob("*fabricmon*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert "systemctl enable --now fabricmon-agent" in capsys.readouterr().out


def test_a_second_time_changes_nothing_and_says_so(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(image, "--agent", "--central")
    before = tree(image)
    capsys.readouterr()
    assert run(image, "--agent", "--central") == 0
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " /etc/" in line and "run" not in line]
    assert tree(image) == before
    assert set(said) == {"unchanged"}


def test_a_dry_run_touches_nothing(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(image, "--agent", "--dry-run") == 0
    assert not (image / "etc").exists()
    assert capsys.readouterr().out.count("would write") == 5


def test_what_was_edited_stays_and_what_was_not_is_brought_up_to_date(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(image, "--agent")
    unit, flags = image / "etc/systemd/system/fabricmon-agent.service", image / "etc/default/fabricmon-agent"
    older = sealed(unit.read_text().partition(SEAL)[0].replace("WatchdogSec=60", "WatchdogSec=90"))
    unit.write_text(older)
    flags.write_text(flags.read_text() + "# ours\n")
    capsys.readouterr()
    assert run(image, "--agent") == 0
    out = capsys.readouterr().out
    assert "updated   /etc/systemd/system/fabricmon-agent.service" in out
    assert "kept      /etc/default/fabricmon-agent (your settings)" in out
    assert "WatchdogSec=60" in unit.read_text()
    unit.write_text(unit.read_text().replace("WatchdogSec=60", "WatchdogSec=90"))
    assert run(image, "--agent") == 0
    assert "edited here; --force replaces it" in capsys.readouterr().out
    assert "WatchdogSec=90" in unit.read_text()
    assert run(image, "--agent", "--force") == 0
    assert "WatchdogSec=60" in unit.read_text()
    assert flags.read_text().endswith("# ours\n")


def test_uninstall_takes_away_what_nobody_edited(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(image, "--agent", "--central", "--umad")
    settings = image / "etc/fabricmon/central.yaml"
    settings.write_text("central: {targets: [a]}\n")
    assert run(image, "--uninstall", "--agent") == 0
    assert "/etc/tmpfiles.d/fabricmon.conf" in tree(image)  # the server still needs it
    assert run(image, "--uninstall") == 0
    assert tree(image) == {"/etc/fabricmon/central.yaml": settings.read_text()}
    assert run(image, "--uninstall") == 0
    assert "kept      /etc/fabricmon/central.yaml (edited here)" in capsys.readouterr().out


def test_nothing_asked_for_is_a_usage_error(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(image) == 2
    assert run(image, "--central", "--umad") == 2
    assert not (image / "etc").exists()
    assert "--agent (on a node)" in capsys.readouterr().err


def test_where_a_package_brought_the_unit_only_drop_ins_are_installed(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = image / "usr/lib/systemd/system/fabricmon-agent.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    assert run(image, "--agent", "--kernel-log") == 0
    assert list(tree(image)) == ["/etc/systemd/system/fabricmon-agent.service.d/kernel-log.conf"]
    assert "fabricmon-agent belong to its package" in capsys.readouterr().out


CLOSED = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


def test_these_are_all_folders_that_the_services_do_not_see() -> None:
    assert set(HIDDEN) == set(CLOSED)


@pytest.mark.parametrize(("program", "said"), [
    *((f"{folder}/venv/bin/fabricmon", f"lies under {folder}, ") for folder in CLOSED),
    ("/homes/venv/bin/fabricmon", ""),
    ("/opt/my venv/bin/fabricmon", "without spaces"),
    ("opt/fabricmon", "absolute path"),
    ("/opt/fabricmon/bin/fabricmon", ""),
])  # fmt: skip
def test_a_program_that_the_sandbox_cannot_start_is_refused(program: str, said: str) -> None:
    assert said in (unusable(program) or "")
    assert bool(unusable(program)) == bool(said)


def test_a_folder_that_is_closed_to_the_services_user_is_named(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (image / "opt/fabricmon").chmod(0o700)
    assert run(image, "--agent") == 1
    assert f"chmod o+x {image}/opt/fabricmon\n" in capsys.readouterr().err
    assert main(["install-units", "--agent", "--root", str(image), "--prefix", "/usr"]) == 1
    assert "does not exist; name the directory of the program with --prefix" in capsys.readouterr().err
    assert not (image / "etc").exists()


def test_the_unit_starts_the_program_that_was_named(image: Path) -> None:
    other = image / "srv/fm/bin/fabricmon"
    other.parent.mkdir(parents=True)
    other.write_text("")
    other.chmod(0o755)
    assert main(["install-units", "--central", "--root", str(image), "--prefix", "/srv/fm"]) == 0
    unit = tree(image)["/etc/systemd/system/fabricmon-central.service"]
    assert unit.count("/srv/fm/bin/fabricmon central") == 2
    assert PACKAGED not in unit


def test_a_seal_is_the_digest_of_what_stands_above_it() -> None:
    text = sealed("a\nb\n")
    assert text == f"a\nb\n{SEAL}{hashlib.sha256(b'a' + chr(10).encode() + b'b' + chr(10).encode()).hexdigest()}\n"
    assert untouched(text)
    assert not untouched(text.replace("b", "c"))
    assert not untouched(text + "# more\n")
    assert not untouched("a\nb\n")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_the_examples_in_the_settings_are_ones_the_daemon_accepts(name: str, tmp_path: Path) -> None:
    lines = (SOURCES / f"{name}.yaml").read_text().splitlines()
    blank = lines.index("")
    example = tmp_path / "example.yaml"
    example.write_text("\n".join(line.removeprefix("# ") for line in lines[blank:]))
    assert yaml.safe_load(example.read_text())
    config.load(str(example), {})
    config.load(str(SOURCES / f"{name}.yaml"), {})


def test_units_come_with_the_package() -> None:
    """That they do is seen by `python -m tests.systemd`, which installs the package; that they still would, here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["fabricmon"]
    packed = {path for pattern in patterns for path in (ROOT / "fabricmon").glob(pattern)}
    assert set((ROOT / "fabricmon/systemd/files").iterdir()) <= packed
    assert SOURCES.resolve() == ROOT / "fabricmon/systemd/files"


def test_the_readme_installs_as_the_document_that_is_run_in_a_machine_does() -> None:
    def commands(text: str, heading: str) -> list[str]:
        block = text.split(f"\n## {heading}\n")[1].split("```")[1]
        return block.splitlines()[1:]

    readme = commands((ROOT / "README.md").read_text(), "Install")
    assert readme == commands((ROOT / "docs/install.md").read_text(), "Agent")[: len(readme)]
