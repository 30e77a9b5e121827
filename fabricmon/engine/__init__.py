"""Judge, diagnosis, situation: from rules to incidents. Pure."""

from fabricmon.engine.engine import Engine
from fabricmon.engine.judges import ParamsError

__all__ = ["Engine", "ParamsError"]
