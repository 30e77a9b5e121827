"""`fabricmon central` of the tree in PYTHONPATH whose diagnosis does not wait for more faults of one kind: those of a
measurement are many and independent."""

from fabricmon import cli
from fabricmon.engine.diagnosis import common_cause

common_cause.PHENOMENA = ()  # type: ignore[attr-defined]  # it has it from phenomena.py

if __name__ == "__main__":
    raise SystemExit(cli.main())
