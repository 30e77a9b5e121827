"""Files that cannot be read as a machine's own cannot: by a real error of the kernel, or with a content that is none.

Put in place of a file of a tree that `--path.sysfs` points at. EIO and EACCES are real answers of the kernel, also to
root: the memory of a process has nothing at address 0, and an attribute of sysfs may be writable only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

NO_ADDRESS, WRITE_ONLY = "/proc/self/mem", "/sys/bus/platform/uevent"


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


HOW: dict[str, Callable[[Path], object]] = {
    "EIO": _link(NO_ADDRESS),
    "EACCES": _link(WRITE_ONLY),
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "empty": Path.touch,
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "not available": lambda path: path.write_text("N/A (no PMA)\n"),
    "gone": lambda path: None,
}


def spoil(path: Path, how: str) -> None:
    """Replace a file or directory of a tree."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    HOW[how](path)
