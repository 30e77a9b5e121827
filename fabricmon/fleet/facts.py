"""Labels of rows as arrays, so that rules can compare them by vector. Pure.

Only rows whose labels changed are read again.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue import technology
from fabricmon.fleet.row_state import RowState, per_row
from fabricmon.fleet.table import Table

SPARE_WORDS = 1_000  # roles and makes that are kept beside those of the rows before all are numbered anew


class Facts(RowState):
    """What the labels of each row mean.

    infiniband  the link layer is InfiniBand
    hardware    the row is a device of its own node (an RDMA device or a PCI function), no virtual interface
    swept       the row is a port elsewhere in the fabric, seen by a sweep
    role        code of the label "role"; `role_names[code]` is the word
    technology  number of what it is checked as (catalogue.technology), -1 where as nothing
    layered     its link layer is known, or it needs none
    number      number of the port on its device, 0 unknown
    place       code of the row's name and make: rows of other nodes with it are the same port of the same machine type
    make        code of role, link layer and board together: ports of one host with one make are peers; 0 where neither
                role nor board is known
    """

    infiniband = per_row(np.bool_, False)
    hardware = per_row(np.bool_, False)
    swept = per_row(np.bool_, False)
    role = per_row(np.int32)
    technology = per_row(np.int8, technology.NONE)
    layered = per_row(np.bool_, True)
    make = per_row(np.int32)
    number = per_row(np.int16)
    place = per_row(np.int32)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.role_names: dict[str, int] = {"": 0}
        self._makes: dict[tuple[str, ...], int] = {(): 0}
        self._places: dict[tuple[str, int], int] = {}

    @property
    def makes(self) -> int:
        """How many makes there are, 0 included."""
        return len(self._makes)

    def update(self, table: Table) -> None:
        """Take the rows in `table.relabelled` over and empty that list."""
        words = len(self._makes) + len(self._places) + len(self.role_names)
        if words > 6 * table.n + SPARE_WORDS:  # mostly words of what has left
            self.role_names, self._makes, self._places = {"": 0}, {(): 0}, {}
            table.relabelled[:] = range(table.n)
        for row in table.relabelled:
            labels = table.labels[row]
            self.infiniband[row] = labels.get("link_layer") == "InfiniBand"
            self.swept[row] = "swept" in labels
            self.technology[row] = technology.of_port(labels)
            self.layered[row] = "link_layer" in labels or "device" not in labels
            self.hardware[row] = bool(labels.get("device") or labels.get("pci")) and "swept" not in labels
            role, board = labels.get("role", ""), labels.get("board") or labels.get("hca_type", "")
            self.role[row] = self.role_names.setdefault(role, len(self.role_names))
            known = bool(board) or role not in ("", "unknown")
            make = (role, labels.get("link_layer", ""), board) if known else ()
            self.make[row] = self._makes.setdefault(make, len(self._makes))
            port = labels.get("port", "")
            self.number[row] = int(port) if port.isascii() and port.isdigit() and len(port) < 4 else 0
            place = (table.ids[row].name, int(self.make[row]))
            self.place[row] = self._places.setdefault(place, len(self._places))
        table.relabelled.clear()
