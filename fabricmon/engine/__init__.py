"""From rules to incidents: symptoms, fault domains, diagnosis, incidents over time. Pure."""

from fabricmon.engine.engine import Engine
from fabricmon.engine.symptoms.rule_states import ParamsError

__all__ = ["Engine", "ParamsError"]
