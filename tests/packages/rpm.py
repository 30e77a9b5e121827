"""The rpm packages by `rpm --root`: `python -m tests.packages.rpm dist/rpm` (root, Debian with rpm and mmdebstrap).

They are installed, upgraded and erased in a Debian tree (tests/rigs/machine.py) whose packages rpm does not know,
hence --nodeps, and where no systemd runs. No system of Red Hat or SUSE was tried. The newer version is the staged tree
under a higher version, with a changed unit and changed templates of the settings.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.rigs.machine import ROOT, tree
from tests.rigs.report import NotSo, seen

MINE = "central: {targets: [mine]}\n"


def rpm(image: Path, *words: object) -> str:
    """What rpm prints; NotSo where it fails."""
    further = [] if words[0] == "-qa" else ["--nodeps"]
    command = ["rpm", "--root", image, *further, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise NotSo(f"rpm {words[0]}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def newer(folder: Path) -> list[Path]:
    """Packages of the staged tree under version 0.1.1."""
    stage = folder / "stage"
    shutil.copytree(ROOT / "dist/stage", stage, symlinks=True)
    package = stage / "usr/lib/fabricmon/lib/python3.11/site-packages/fabricmon"
    shutil.rmtree(package / "__pycache__")
    init = package / "__init__.py"
    init.write_text(init.read_text().replace('"0.1.0"', '"0.1.1"'))
    for file in [*stage.glob("usr/lib/systemd/system/*"), *stage.glob("etc/fabricmon/*")]:
        file.write_text(file.read_text() + "# newer\n")
    subprocess.run([ROOT / "packaging/rpm", stage, folder / "rpm"], check=True, timeout=300)
    return sorted((folder / "rpm").glob("*.rpm"))


def play(image: Path, packages: list[Path], folder: Path) -> None:
    central = image / "etc/fabricmon/central.yaml"
    rpm(image, "-i", *packages)
    run = ["chroot", image, "fabricmon", "--version"]
    seen("installed", "fabricmon-agent" in (image / "etc/passwd").read_text(), rpm(image, "-qa").replace("\n", " "))
    seen("it runs", "0.1.0" in subprocess.check_output(run, text=True, timeout=60))
    seen("rpm --verify finds nothing changed", not (said := rpm(image, "-V", "fabricmon", "fabricmon-agent")), said)
    central.write_text(MINE)
    (image / "var/lib/fabricmon").mkdir(exist_ok=True)
    (image / "var/lib/fabricmon/state.db").write_text("state")
    rpm(image, "-U", *newer(folder))
    version = subprocess.check_output(run, text=True, timeout=60)
    seen("upgraded", "0.1.1" in version, rpm(image, "-qa").replace("\n", " "))
    seen("edited settings stay, the others are taken over", central.read_text() == MINE
         and "# newer" in (image / "etc/fabricmon/agent.yaml").read_text())  # fmt: skip
    rpm(image, "-e", "fabricmon-agent", "fabricmon-central", "fabricmon")
    left = sorted(str(path.relative_to(image)) for path in image.rglob("*fabricmon*"))
    saved = central.with_name("central.yaml.rpmsave").read_text()
    seen("erased: edited settings and state stay, nothing else",
         saved == MINE and left == ["etc/fabricmon", "var/lib/fabricmon"], left)  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image"
        subprocess.run(["cp", "-a", tree(), image], check=True, timeout=300)
        print(subprocess.check_output(["rpm", "--version"], text=True).strip())
        try:
            play(image, sorted(Path(sys.argv[1]).resolve().glob("*.rpm")), Path(folder))
        except NotSo as error:
            print(f"NOT SO  {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
