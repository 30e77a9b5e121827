"""Install the systemd units, users and configuration files of fabricmon on this machine. Needs root.

Can be repeated, for example after an update: files that were not edited are updated, edited files are kept. Nothing is
started: the last lines of the output show how. Where a deb or rpm brought a unit, only drop-ins are installed.
--uninstall stops the services and removes the files not edited."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from fabricmon.runtime.package_files import unit_text
from fabricmon.systemd.units import DROP_INS, SERVICES, SHARED, Action, UnitFile, UnitStep, install, uninstall, unusable

EXAMPLES = """\
fabricmon install-units --agent     # on a node
fabricmon install-units --central   # on the machine of the server
fabricmon install-units --agent --uninstall
"""
PORTS = {"agent": 9790, "central": 9791}
PACKAGE_UNITS = ("/lib/systemd/system", "/usr/lib/systemd/system")
PATIENCE = 60.0
"""Seconds for one program of systemd."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--agent", action="store_true", help="the agent, on every node")
    add("--central", action="store_true", help="the central server, on one machine")
    add("--kernel-log", action="store_true", help="the agent may read the kernel log (Xid errors, AER, firmware)")
    add("--umad", action="store_true", help="the agent may sweep the InfiniBand fabric (collect.fabric)")
    add("--root", metavar="DIR", default="/", help="install into the file system image in this directory")
    add("--prefix", metavar="DIR", help="use DIR/bin/fabricmon (default: the program that runs now)")
    add("--dry-run", action="store_true", help="print the changes without making them")
    add("--force", action="store_true", help="replace edited units too")
    add("--uninstall", action="store_true", help="stop the services and remove the files")


def run(args: argparse.Namespace) -> int:
    """0; 1 on a failure, 2 for missing or wrong options."""
    names = [name for name in SERVICES if getattr(args, name)]
    if not names and not args.uninstall:
        print("fabricmon install-units: choose --agent (on a node) or --central (the server)", file=sys.stderr)
        return 2
    if (args.kernel_log or args.umad) and "agent" not in names and not args.uninstall:
        print("fabricmon install-units: --kernel-log and --umad require --agent", file=sys.stderr)
        return 2
    root = Path(args.root).absolute()
    try:
        if args.uninstall:
            return _uninstall(root, names or list(SERVICES), args.dry_run)
        return _install(root, names, args)
    except PermissionError as error:
        print(f"fabricmon install-units: {error.filename}: no permission; run it as root", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fabricmon install-units: {error}", file=sys.stderr)
        return 1


def _install(root: Path, names: list[str], args: argparse.Namespace) -> int:
    program = f"{Path(args.prefix).absolute()}/bin/fabricmon" if args.prefix else _own_program()
    obstacle = unusable(program) or _unreachable(root, program)
    if obstacle:
        print(f"fabricmon install-units: {obstacle}", file=sys.stderr)
        return 1
    packaged = [name for name in names if _packaged(root, name)]
    for name in packaged:
        print(f"unit, user and settings of fabricmon-{name} belong to its package: unchanged")
    files = [file for name in names if name not in packaged for file in SERVICES[name]]
    present = _present(root, [*files, *DROP_INS.values()])
    if "agent" in names:
        chosen = {"kernel-log": args.kernel_log, "umad": args.umad}
        files += [file for name, file in DROP_INS.items() if chosen[name] or file.path in present]
    steps = install(files, unit_text, present, program, args.force)
    _report(steps, args.dry_run)
    if not args.dry_run:
        for step in steps:
            if step.action in (Action.WRITE, Action.UPDATE):
                _write(root, step)
        _settle(root, steps, [name for name in names if name not in packaged])
    _next_steps(root, names, any(step.action is Action.UPDATE for step in steps))
    return 0


def _uninstall(root: Path, names: list[str], dry_run: bool) -> int:
    left = [name for name in SERVICES if name not in names and _present(root, SERVICES[name][2:3])]
    files = [file for name in names for file in SERVICES[name] if not (left and file in SHARED)]
    if "agent" in names:
        files += DROP_INS.values()
    present = _present(root, files)
    steps = uninstall(files, present)
    running = [f"fabricmon-{name}" for name in names if SERVICES[name][2].path in present]
    if not dry_run and running and _live(root):
        _do("systemctl", "disable", "--now", *running)
    _report(steps, dry_run)
    if not dry_run:
        for step in steps:
            if step.action is Action.REMOVE:
                _remove(root, step)
        if _live(root):
            _do("systemctl", "daemon-reload")
    print("Kept: the users of the services, and /var/lib/fabricmon with incidents and silences." if steps else
          "nothing to remove")
    return 0


def _packaged(root: Path, name: str) -> bool:
    """Whether a deb or rpm installed this unit: a second one in /etc would hide it."""
    return any(_at(root, f"{folder}/fabricmon-{name}.service").exists() for folder in PACKAGE_UNITS)


def _own_program() -> str:
    called = shutil.which(sys.argv[0]) or ""
    if Path(called).name == "fabricmon":
        return os.path.abspath(called)
    return str(Path(sys.executable).with_name("fabricmon"))


def _at(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _present(root: Path, files: list[UnitFile] | tuple[UnitFile, ...]) -> dict[str, str]:
    found = {}
    for file in files:
        try:
            found[file.path] = _at(root, file.path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
    return found


def _write(root: Path, step: UnitStep) -> None:
    """Write the file atomically, readable by all: the users of the services must read it."""
    path = _at(root, step.path)
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    new = path.with_name(f".{path.name}.new")
    new.write_text(step.text, encoding="utf-8")
    new.chmod(0o644)
    new.replace(path)


def _remove(root: Path, step: UnitStep) -> None:
    path = _at(root, step.path)
    path.unlink(missing_ok=True)
    folder = path.parent
    if (folder.name == "fabricmon" or folder.name.endswith(".service.d")) and not any(folder.iterdir()):
        folder.rmdir()


def _unreachable(root: Path, program: str) -> str | None:
    """Why the users of the services cannot run the program; None if they can."""
    path = _at(root, program)
    if not path.exists():
        return f"{path} does not exist; name the directory of the program with --prefix"
    interpreter = path.with_name("python")
    places = [path, interpreter.resolve()] if root == Path("/") and interpreter.exists() else [path]
    for place in places:
        if (reason := unusable(str(place))) and root == Path("/"):
            return f"{program} runs {reason}" if place != path else reason
        for part in (place, *place.parents):
            if part == root:
                break
            if not part.stat().st_mode & stat.S_IXOTH:
                return f"{part} cannot be entered by the users of the services: chmod o+x {part}"
    return None


def _live(root: Path) -> bool:
    """Whether `root` is this machine and systemd runs on it."""
    return root == Path("/") and Path("/run/systemd/system").is_dir()


def _settle(root: Path, steps: list[UnitStep], names: list[str]) -> None:
    """Create users and directories, and have systemd reload the units."""
    at = [] if root == Path("/") else [f"--root={root}"]
    # By name, not by path: with --root= a path would mean a file of this machine.
    if names:
        _do("systemd-sysusers", *at, *(Path(SERVICES[name][0].path).name for name in names))
        _do("systemd-tmpfiles", "--create", *at, *(Path(file.path).name for file in SHARED))
    if _live(root) and any(step.action in (Action.WRITE, Action.UPDATE) for step in steps):
        _do("systemctl", "daemon-reload")


def _do(*command: str) -> None:
    """Run one program of systemd; a failure is printed, the files are installed anyway."""
    line = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        print(f"not done  {line}: program not found; done at the next boot", file=sys.stderr)
    except subprocess.TimeoutExpired:
        print(f"not done  {line}: no answer within {PATIENCE:g} s", file=sys.stderr)
    else:
        if done.returncode:
            print(f"failed    {line}: {(done.stderr or done.stdout).strip()}", file=sys.stderr)
        else:
            print(f"{'ran':<9} {line}")


def _report(steps: list[UnitStep], dry_run: bool) -> None:
    for step in steps:
        would = {Action.WRITE: "would write", Action.UPDATE: "would update", Action.REMOVE: "would remove"}
        word = would.get(step.action, step.action.value) if dry_run else step.action.value
        print(f"{word:<9} {step.path}{f' ({step.why})' if step.why else ''}")


def _next_steps(root: Path, names: list[str], updated: bool) -> None:
    if root != Path("/"):
        print(f"\nNext step, on the machine booted from {root}: systemctl enable --now "
              + " ".join(f"fabricmon-{name}" for name in names))
        return
    units = " ".join(f"fabricmon-{name}" for name in names)
    print("\nNext steps:")
    if "central" in names:
        print("  edit /etc/fabricmon/central.yaml     agents to follow, receivers to notify")
    print(f"  systemctl enable --now {units}")
    if updated:
        print(f"  systemctl restart {units}     to apply the updated units")
    for name in names:
        what = "metrics" if name == "agent" else "health"
        print(f"  curl -s localhost:{PORTS[name]}/{what}")
