"""Labels of rows as arrays, so that rules can compare them by vector. Pure.

Only rows whose labels changed are looked at again.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.table import Table


class Facts:
    """What the labels of each row say.

    infiniband  the link layer is InfiniBand
    hardware    the row is a device of its own node (an RDMA device or a PCI function), no virtual interface
    swept       the row is a port elsewhere in the fabric, seen by a sweep
    role        code of the label "role"; `role_names[code]` is the word
    make        code of what the port is made for and of: role, link layer and board together. Ports of one host with
                one make are peers; 0 where neither role nor board is known
    """

    def __init__(self, capacity: int) -> None:
        self.infiniband = np.zeros(capacity, np.bool_)
        self.hardware = np.zeros(capacity, np.bool_)
        self.swept = np.zeros(capacity, np.bool_)
        self.role = np.zeros(capacity, np.int32)
        self.role_names: dict[str, int] = {"": 0}
        self.make = np.zeros(capacity, np.int32)
        self._makes: dict[tuple[str, ...], int] = {(): 0}

    @property
    def makes(self) -> int:
        """How many makes there are, 0 included."""
        return len(self._makes)

    def update(self, table: Table) -> None:
        """Take the rows in `table.relabelled` over and empty that list."""
        for row in table.relabelled:
            labels = table.labels[row]
            self.infiniband[row] = labels.get("link_layer") == "InfiniBand"
            self.swept[row] = "swept" in labels
            self.hardware[row] = bool(labels.get("device") or labels.get("pci")) and "swept" not in labels
            role, board = labels.get("role", ""), labels.get("board") or labels.get("hca_type", "")
            self.role[row] = self.role_names.setdefault(role, len(self.role_names))
            known = bool(board) or role not in ("", "unknown")
            make = (role, labels.get("link_layer", ""), board) if known else ()
            self.make[row] = self._makes.setdefault(make, len(self._makes))
        table.relabelled.clear()

    def resize(self, capacity: int) -> None:
        more = capacity - len(self.role)
        self.infiniband = np.concatenate([self.infiniband, np.zeros(more, np.bool_)])
        self.hardware = np.concatenate([self.hardware, np.zeros(more, np.bool_)])
        self.swept = np.concatenate([self.swept, np.zeros(more, np.bool_)])
        self.role = np.concatenate([self.role, np.zeros(more, np.int32)])
        self.make = np.concatenate([self.make, np.zeros(more, np.int32)])
