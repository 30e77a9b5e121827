"""A folder on a disk that a test makes full, read-only or hung: a FUSE file system over another folder.

`python -m tests.rigs.faulty_disk BACKING MOUNT MODE_FILE` serves it until it is unmounted. The word in MODE_FILE
decides about every operation that begins: "ok", "full" (nothing can be written), "readonly", "hung" (it waits until the
word changes, as on a device that does not answer). Requires root, /dev/fuse, libfuse 3 and mfusepy.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.rigs.daemons import Daemon

MODES = ("ok", "full", "readonly", "hung")
REFUSAL = {"full": errno.ENOSPC, "readonly": errno.EROFS}
LOOK = 0.02  # seconds between two looks of an operation that hangs


def unavailable() -> str:
    """"" or why this machine cannot serve one."""
    if os.geteuid():
        return "needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no /dev/fuse"
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError) as error:
        return f"mfusepy: {error}"
    return ""


class FaultyDisk:
    """One such disk, served by a process of its own; a context manager. State of a program goes below `root`."""

    def __init__(self, folder: Path) -> None:
        self.backing, self.root, self._word = folder / "backing", folder / "disk", folder / "mode"
        self._log = folder / "disk.log"
        self.backing.mkdir()
        self.root.mkdir()
        self.be("ok")

    def be(self, mode: str) -> None:
        """`mode` from the next operation on; those that hang go on unless it is "hung"."""
        assert mode in MODES
        fresh = self._word.with_suffix(".new")
        fresh.write_text(mode)
        fresh.rename(self._word)

    def __enter__(self) -> FaultyDisk:
        command = [sys.executable, "-m", "tests.rigs.faulty_disk", self.backing, self.root, self._word]
        self._daemon = Daemon(self._log, command)
        self._daemon.wait_until("the disk", lambda: os.path.ismount(self.root))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.be("ok")
        self._daemon.stop()


def _serve(backing: str, mount: str, word: str) -> None:
    import mfusepy

    class Passthrough(mfusepy.Operations):  # type: ignore[misc]
        """Every operation on the folder behind, after a look at the word."""

        use_ns = True

        def _there(self, path: str, *, changes: bool = False) -> str:
            while (mode := Path(word).read_text()) == "hung":
                time.sleep(LOOK)
            if changes and mode in REFUSAL:
                raise mfusepy.FuseOSError(REFUSAL[mode])
            return backing + path

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            about = os.lstat(backing + path)
            names = ("mode", "nlink", "uid", "gid", "size")
            times = {f"st_{t}time": getattr(about, f"st_{t}time_ns") for t in "amc"}
            return {f"st_{name}": getattr(about, f"st_{name}") for name in names} | times

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", *os.listdir(self._there(path))]

        def mkdir(self, path: str, mode: int) -> int:
            os.mkdir(self._there(path, changes=True), mode)
            return 0

        def unlink(self, path: str) -> int:
            os.unlink(self._there(path, changes=True))
            return 0

        def rename(self, old: str, new: str) -> int:
            os.rename(self._there(old, changes=True), backing + new)
            return 0

        def chmod(self, path: str, mode: int) -> int:
            os.chmod(self._there(path, changes=True), mode)
            return 0

        def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
            os.utime(backing + path, ns=times)
            return 0

        def open(self, path: str, flags: int) -> int:
            return os.open(self._there(path), flags & ~(os.O_TRUNC | os.O_APPEND))

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            return os.open(self._there(path, changes=True), os.O_RDWR | os.O_CREAT, mode)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            self._there(path)
            return os.pread(fh, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            self._there(path, changes=True)
            return os.pwrite(fh, data, offset)

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            os.truncate(self._there(path, changes=True), length)
            return 0

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            self._there(path)
            os.fsync(fh)
            return 0

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

        def statfs(self, path: str) -> dict[str, int]:
            about = os.statvfs(backing)
            return {name: getattr(about, name) for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail")}

    mfusepy.FUSE(Passthrough(), mount, foreground=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
