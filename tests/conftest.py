"""What every test may use: named things it needs from outside, and a clear word when one is missing.

A test that needs something which is not Python says so with `require("promtool")` and skips with the reason
where it is missing. With CI=true nothing may be missing: the same call fails. What was skipped is listed once at
the end of the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `tests.rigs…` is importable however pytest was started
    sys.path.insert(0, str(ROOT))

from tests.rigs import vm_run  # noqa: E402
from tests.rigs.certificates import Authority  # noqa: E402
from tests.rigs.faulty_disk import unavailable  # noqa: E402
from tests.tiers import is_long  # noqa: E402

# No property has a deadline: how quick a shared machine is proves nothing.
settings.register_profile("patient", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)  # make test; a property's own number stays
settings.load_profile("patient")

# Tests ask this machine only, so nothing goes through a proxy of the caller's, in no process of the run. What fetches
# packages for a test (tests/vm) gets the caller's own exceptions back.
CALLERS_NO_PROXY = "FABRICMON_CALLERS_NO_PROXY"
os.environ.setdefault(CALLERS_NO_PROXY, os.environ.get("no_proxy") or os.environ.get("NO_PROXY", ""))
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"

# What a test may ask for besides a program's name: how to see that it is there, and what to do where it is not.
_THINGS: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (lambda: os.geteuid() == 0, "run as root"),
    "netns": (
        lambda: os.geteuid() == 0 and shutil.which("ip") is not None and _may_unshare_net(),
        "run as root with CAP_SYS_ADMIN, install iproute2",
    ),
    "fuse": (lambda: not unavailable(), "run as root with /dev/fuse, apt-get install fuse3"),
    "captures": (lambda: (shared() / "captures").is_dir(), "point FABRICMON_SHARED at the folder that holds captures/"),
}
_PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "victoria-metrics": "victoria-metrics",
    "vmalert": "victoria-metrics",
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "ibnetdiscover": "infiniband-diags",
    "ip": "iproute2",
    "curl": "curl",
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mksquashfs": "squashfs-tools",
    "cpio": "cpio",
    "chromium": "chromium",
    "gcc": "gcc",
    "fusermount3": "fuse3",
    "faketime": "faketime",
    "fish": "fish",
    "zsh": "zsh",
    "mandoc": "mandoc",
    "systemd-analyze": "systemd",
    "slurmctld": "slurmctld",
    "scontrol": "slurm-client",
    "kustomize": "kustomize",
}


def shared() -> Path:
    """The folder with captured machines and fabrics: FABRICMON_SHARED, else `../shared` beside the repository."""
    return Path(os.environ.get("FABRICMON_SHARED") or ROOT.parent / "shared")


def _may_unshare_net() -> bool:
    """Creating a network namespace needs CAP_SYS_ADMIN, which root in a container may lack."""
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


def strict() -> bool:
    """With CI=true a missing part is a failure, not a skip."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def need(thing: str, why: str = "") -> str:
    """Return the path of a program (or the name of another thing); skip, with CI=true fail, where it is missing.

    `thing` is a program ("promtool"), or one of "root", "netns" (may make network namespaces), "fuse" (may mount a
    file system of its own), "captures" (recorded machines). `why` says what the test wanted it for.
    """
    if thing in _THINGS:
        present, remedy = _THINGS[thing]
        if present():
            return thing
    else:
        # /usr/sbin is not on the path of every account
        found = shutil.which(thing) or shutil.which(thing, path="/usr/sbin:/sbin")
        if found:
            return found
        package = _PACKAGES.get(thing)
        remedy = f"apt-get install {package}" if package else "install it"
    text = f"{thing} is missing{f': {why}' if why else ''} ({remedy})"
    if strict() and thing != "captures":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@pytest.fixture(scope="session")
def require() -> Callable[..., str]:
    """`require("promtool", "why")` inside a test or fixture: see `need`."""
    return need


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the certificates of a test's servers and clients."""
    need("openssl", "makes certificates")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of captured machines; the test skips without it."""
    need("captures")
    return shared()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        vm_run.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        vm_run.end()


# The long files that mostly wait come first: others use the processor meanwhile, and none of them stands alone at the
# end. The test machine, which starts with the run, is looked at last.
_ORDER = {"chaos": 0, "netns": 0, "long": 0, "peer": 0, "vm": 2}


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what -m does not want
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_long(item.nodeid):
            item.add_marker("long")

    def rank(item: pytest.Item) -> int:
        return next((_ORDER[mark.name] for mark in item.iter_markers() if mark.name in _ORDER), 1)

    items.sort(key=rank)  # stable: order within one rank stays


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons: dict[str, int] = {}
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    terminalreporter.section("skipped, and why")
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count:4d}  {reason}")
