"""Files of others that the page serves are the published ones, with their licence."""

import hashlib
from pathlib import Path

import fabricmon

VENDOR = Path(fabricmon.__file__).parent / "central" / "page" / "static" / "vendor"
PUBLISHED = {
    "uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of each file of the npm package that README.md names."""


def test_vendored_files_are_the_published_ones_and_nothing_is_beside_them() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    assert {name: found.pop(name) for name in PUBLISHED} == PUBLISHED
    assert set(found) == {"README.md", "uPlot.LICENSE"}
    assert "MIT License" in (VENDOR / "uPlot.LICENSE").read_text()


def test_they_load_nothing_from_elsewhere_and_need_no_inline_style() -> None:
    for name in PUBLISHED:
        text = (VENDOR / name).read_text()
        for word in ("import(", "@import", "url(", "eval(", "new Function", "innerHTML", 'createElement("style")'):
            assert word not in text, (name, word)
