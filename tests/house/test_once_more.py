"""A test that fails beside the others runs once more alone; only a second failure fails the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

MARK = "from pathlib import Path\nimport pytest\nMARK = Path(__file__).with_name('mark')\n"
TURNS = MARK + "def test_turns():\n    seen = MARK.exists()\n    MARK.touch()\n    assert seen\n"
BROKEN = "def test_broken():\n    assert False\n"
STOPS = MARK + "def test_stops():\n    MARK.touch()\n    pytest.exit('no more', returncode=3)\n"
MANY = "import pytest\n@pytest.mark.parametrize('n', range(13))\ndef test_broken(n):\n    assert False\n"


@pytest.mark.parametrize(
    ("text", "status", "runs", "word"),
    [
        ("def test_good():\n    pass\n", 0, 1, ""),
        (TURNS, 0, 2, "unsteady: test_it.py::test_turns failed beside the others and passed alone"),
        (BROKEN, 1, 2, "failed: test_it.py::test_broken"),
        (TURNS + BROKEN, 1, 2, "unsteady: test_it.py::test_turns"),
        (MANY, 1, 1, "failed: test_it.py::test_broken[12]"),
        (STOPS, 3, 1, ""),
    ],
)
def test_a_second_failure_fails_the_run(tmp_path: Path, text: str, status: int, runs: int, word: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tests.once_more"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert done.stdout.count("test session starts") == runs
    assert word in done.stdout
