"""Firmware-first PCIe errors: records of APEI that the kernel prints over several lines. Pure.

All lines of a record begin with its number, "{1}[Hardware Error]: ". Severity and kind come before the device
(Linux drivers/firmware/efi/cper.c). Lines without a number repeat errors of an earlier boot (BERT) and are no records.
"""

from __future__ import annotations

from collections.abc import Mapping

CONCEPTS: Mapping[str, str] = {
    "corrected": "pcie_correctable_errors", "recoverable": "pcie_nonfatal_errors", "fatal": "pcie_fatal_errors",
}  # fmt: skip
"""Severity of a record -> what is counted."""

_MOST = 16  # records that are open at a time; each processor prints one


class HardwareErrors:
    """Records that are being printed."""

    def __init__(self) -> None:
        self._severity: dict[str, str] = {}
        self._pcie: set[str] = set()

    def receive(self, pattern: str, groups: Mapping[str, str]) -> str:
        """The concept of the PCIe error whose device this line names, "" for any other line."""
        record = groups["record"]
        if pattern == "ghes_severity":
            if len(self._severity) >= _MOST:
                self._severity.clear()
                self._pcie.clear()
            self._severity[record] = groups["word"]
            self._pcie.discard(record)
        elif pattern == "ghes_section":
            (self._pcie.add if groups["what"].startswith("PCIe") else self._pcie.discard)(record)
        elif record in self._pcie:
            return CONCEPTS.get(self._severity.get(record, ""), "")
        return ""
