"""The same port of hosts next to each other, where no map shows the leaf: most likely one module of two ports
(docs/methods.md#neighbours-by-name). Pure.

Hosts are cabled in their order, so ports 2k - 1 and 2k of a switch, which one module has, lead to the same adapter of
two hosts whose names follow each other. Which two of three in a row it is no name shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.engine.diagnosis.beginnings import Beginning
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

BY_NAME = 2  # the first orders of hosts are of their names, the last of the leaves that these ports lack
MOST = 64  # ports that are compared with each other


def same_port(rows: Ints, of: Ints, domains: RowDomains) -> list[tuple[int, int]]:
    """Pairs of one of some PORT rows and one of others which are the same port of hosts next to each other, and whose
    leaf is known of neither; of the first MOST others."""
    leaf, host, link = (domains.port.ids[domain] for domain in ("leaf", "host", "link"))
    rows, of = (some[(leaf[some] < 0) & (host[some] >= 0) & (link[some] >= 0)] for some in (rows, of))
    found = set[tuple[int, int]]()
    for order in domains.orders_of_hosts()[:BY_NAME] if len(rows) else ():
        places = order[host[rows]]
        for other in of[:MOST].tolist():
            port = _port(other, domains)
            near = rows[np.abs(places - order[host[other]]) == 1]
            found.update((row, other) for row in near.tolist() if _port(row, domains) == port)
    return sorted(found)


def _port(row: int, domains: RowDomains) -> str:
    """The name of a PORT row within its host: "mlx5_3/1"."""
    return domains.names["link"][int(domains.port.ids["link"][row])].partition("/")[2]


def on_the_same_port(units: Sequence[Beginning], domains: RowDomains) -> list[list[Beginning]]:
    """Those of some units that are on the same port as another one at a host next to its: each run of them once."""
    owner = {row: number for number, unit in enumerate(units) for row in unit.rows}
    rows = np.array(sorted(owner), np.int64)
    run = list(range(len(units)))
    for row, other in same_port(rows, rows, domains):
        first, last = sorted((run[owner[row]], run[owner[other]]))
        run = [first if number == last else number for number in run]
    runs = [[unit for unit, of in zip(units, run, strict=True) if of == number] for number in sorted(set(run))]
    return [some for some in runs if len(some) > 1]


def share_beside(ports: int, domains: RowDomains) -> float:
    """Chance that a port whose leaf is unknown is the one before or after one of so many others."""
    leaf, host = domains.by_table[Kind.PORT].ids["leaf"], domains.hosts
    return min(1.0, 2.0 * ports / max(1, int(np.count_nonzero((leaf < 0) & (host >= 0)))))
