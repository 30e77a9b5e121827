"""Run pytest; run the few tests that failed beside the others once more, alone: `python -m tests.once_more ARGS…`.

The whole suite runs many tests at once that wait for real programs with limits of time, and machines are shared. A test
that fails again alone has found a defect, and the run fails. One that passes alone is printed as unsteady: that is a
defect of the test or of the program, too, and must be mended, but says nothing about the change that was tested. More
than `FEW` failures are no accident and are not tried again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FEW = 12
TESTS_FAILED = 1  # pytest's exit status where tests failed; others mean that it did not run to its end
CACHE = Path(".pytest_cache/v/cache/lastfailed")


def failed() -> list[str]:
    """Node ids of the tests that failed in the run that ended last, as pytest's own cache has them."""
    return sorted(json.loads(CACHE.read_text())) if CACHE.exists() else []


def main(arguments: list[str]) -> int:
    CACHE.unlink(missing_ok=True)
    status = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    names = failed()
    for name in names:
        print(f"failed: {name}", flush=True)
    if status != TESTS_FAILED or not 0 < len(names) <= FEW:
        return status
    print(f"once more, alone: {len(names)} that failed beside the others", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", "-ra", *names], check=False).returncode
    for name in sorted(set(names) - set(failed())) if again in (0, TESTS_FAILED) else ():
        print(f"unsteady: {name} failed beside the others and passed alone; it must be mended", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
