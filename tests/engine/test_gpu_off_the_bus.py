"""A GPU that fell off the bus by its Xid: events of an agent to an incident."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Component, Event, Identity, Incident, Inventory, Kind, Part, Presence, Severity
from fabricmon.rules.rule import Scope

START = 1_800_000_000.0
CRITICAL, INFO = float(Severity.CRITICAL.rank), float(Severity.INFO.rank)
COLUMNS = ("gpu_recovery_action", "gpu_pcie_width")


class Host:
    """Four GPUs, read every 10 s."""

    def __init__(self) -> None:
        self.engine, self.now, self.number = Engine(Scope.FLEET, None, {}, "test"), START, 0
        self.values, self.listed = np.tile([0.0, 16.0], (4, 1)), [0, 1, 2, 3]
        self.list([0, 1, 2, 3])

    def list(self, gpus: list[int], boot: str = "boot") -> None:
        self.number, self.listed = self.number + 1, gpus
        parts = (Part("gpu", Kind.GPU, COLUMNS, tuple(Component(f"gpu{n}") for n in gpus), 10.0),)
        identity = Identity("h", boot, "agent", "1", self.now if self.number > 1 and boot != "boot" else START)
        self.engine.inventory("h", Inventory(self.number, identity, parts), self.now)
        self.engine.presence("h", Presence.LIVE, "", self.now)

    def run(self, seconds: int) -> list[Incident]:
        for _ in range(0, seconds, 10):
            self.now += 10.0
            values = self.values[self.listed].ravel()
            taken = np.array([self.now - START + 1000.0])
            frame = Frame(self.number, int(self.now - START), self.now, taken, None, values, len(values))
            self.engine.frame("h", frame, self.now)
            self.engine.tick(self.now)
        return [i for i in self.engine.incidents() if i.status == "firing" and i.kind == "gpu_fabric"]

    def xid(self, number: int, **fields: float) -> None:
        event = Event(1, self.now, "xid", "gpu2", f"Xid {number}", {"xid": float(number), **fields}, of=Kind.GPU)
        self.engine.event("h", event, self.now)


@pytest.mark.parametrize("answers", [0, 10, 30])
@pytest.mark.parametrize("fields", [{}, {"severity": CRITICAL}])
def test_a_gpu_that_fell_off_the_bus_is_named_while_nothing_is_read_of_it(
    answers: int, fields: dict[str, float]
) -> None:
    host = Host()
    assert host.run(400) == []
    host.xid(79, **fields)
    host.run(answers)
    host.values[2] = nan
    for seconds in (40, 900):
        (found,) = host.run(seconds)
        assert (found.component, found.severity) == ("gpu(h/gpu2)", "critical")
    assert any("fell off the bus" in one.text for one in found.evidence)


def test_it_stays_where_the_host_lists_it_no_more() -> None:
    host = Host()
    host.run(400)
    host.xid(79)
    host.list([0, 1, 3])
    (found,) = host.run(120)
    assert found.component == "gpu(h/gpu2)"


def test_it_ends_once_the_gpu_is_read_again_and_not_by_later_silence() -> None:
    host = Host()
    host.run(400)
    host.xid(79)
    host.values[2] = nan
    assert host.run(200)
    host.values[2] = 0.0, 16.0
    assert host.run(120) == []
    host.values[2] = nan
    assert host.run(120) == []


@pytest.mark.parametrize(("number", "fields"), [(31, {}), (43, {}), (79, {"severity": INFO}), (154, {})])
def test_other_xids_and_those_of_before_are_none(number: int, fields: dict[str, float]) -> None:
    host = Host()
    host.run(400)
    host.xid(number, **fields)
    assert host.run(120) == []
