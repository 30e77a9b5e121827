"""Settings that were renamed: the old path in the file, and the path that took its place.

An old path is an error that names the new one; it is never read. `tests/config/test_renamed.py` checks each row.
"""

from __future__ import annotations

RENAMED: dict[str, str] = {
    "agent.judge": "agent.evaluate",
}
