"""Print the copyright file of the packages: the licence of fabricmon, and of each bundled library from its metadata."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fabricmon
Comment: The libraries in /usr/lib/fabricmon are bundled as their authors built them. The full text of each licence is
 in the directory of the library that ends in .dist-info.

Files: *
Copyright: 2026 the fabricmon developers
License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
"""
PART = """
Files: usr/lib/fabricmon/lib/python3.11/site-packages/{folder}/*
Copyright: the authors of {name} {version}
License: {licence}
 See {folder}.
"""


def licence(found: Distribution) -> str:
    """The licence that the metadata names: an SPDX expression, the field of older metadata, or a classifier."""
    named = found.metadata.get("License-Expression") or (found.metadata.get("License") or "").partition("\n")[0]
    classes = [line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier", []) if "License ::" in line]
    return named.strip() or (classes or ["see its files"])[0]


def main() -> None:
    sys.stdout.write(HEAD)
    for found in sorted(distributions(path=[sys.argv[1]]), key=lambda one: one.name.lower()):
        if found.name != "fabricmon":
            folder = Path(str(found._path)).name  # type: ignore[attr-defined]
            sys.stdout.write(PART.format(folder=folder, name=found.name, version=found.version, licence=licence(found)))


if __name__ == "__main__":
    main()
