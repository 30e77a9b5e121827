"""The types of symptom that the diagnosis reasons about (docs/methods.md#symptom-types)."""

from __future__ import annotations

from enum import StrEnum, auto


class SymptomType(StrEnum):
    """Symptom of a row. Several rules may have one type; see the kinds (`kinds.py`)."""

    LINK_DOWN = auto()
    LINK_FLAPPING = auto()
    LINK_FELL = auto()  # together with a flapping link: on its PORT row, without a rule
    LINK_ERRORS = auto()
    LINK_DEGRADED = auto()
    NIC_FAULT = auto()
    AGENT_SILENT = auto()
    PACKET_LOSS = auto()
    FLOW_LOSS = auto()
    LOSS_TOWARDS_HOST = auto()  # peers lose packets to a silent host: on its NODE row, without a rule
    STRAGGLER = auto()
    STORAGE_PATH = auto()
    NVLINK_DOWN = auto()
    NVLINK_ERRORS = auto()
    GPU_FABRIC = auto()
    PCIE_DEGRADED = auto()
    PCIE_ERRORS = auto()
    PAUSING = auto()
    INCAST = auto()
    CONGESTION = auto()

    __hash__ = str.__hash__  # Enum's own is a call in Python, and every table of the diagnosis is indexed by type
