"""A device that answers slowly is read less often, and says so; a quick one at the collector's own pace."""

from __future__ import annotations

from array import array

import pytest

from fabricmon.collect.cost.sparing import LONGEST, QUICK, SHARE, Spared
from fabricmon.host.protocol import HostError
from fabricmon.model import Reading


class Device:
    """A session and the machine's clock in one; each read takes `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now, self.seconds, self.reads, self.broken = 100.0, seconds, 0, False

    def monotonic(self) -> float:
        return self.now

    def read(self) -> Reading:
        self.reads += 1
        self.now += self.seconds
        if self.broken:
            raise HostError("device", 110, "no answer")
        return Reading((), array("d"), self.now, queries=41)

    def close(self) -> None:
        self.reads = -1


def read_for(device: Device, spared: Spared, seconds: float, every: float = 1.0) -> list[Reading]:
    until, found = device.now + seconds, []
    while device.now < until:
        found.append(spared.read())
        device.now += every
    return found


def test_a_quick_device_is_read_each_time() -> None:
    device = Device(QUICK)
    spared = Spared(device, device, "roce", "eth0")  # type: ignore[arg-type]
    readings = read_for(device, spared, 100)
    assert device.reads == len(readings) == 80
    assert not any(reading.faults for reading in readings)


@pytest.mark.parametrize("seconds", [0.3, 2.5, 20.0])
def test_a_slow_device_has_its_share_of_the_time_and_no_more(seconds: float) -> None:
    device = Device(seconds)
    spared = Spared(device, device, "roce", "eth0")  # type: ignore[arg-type]
    readings = read_for(device, spared, 4000)
    assert device.reads * seconds <= 4000 * SHARE + 2 * seconds
    assert device.reads > 4000 / (LONGEST + seconds) - 1
    paused = [reading for reading in readings if reading.faults]
    assert len(paused) == len(readings) - device.reads
    assert {reading.queries for reading in paused} == {0}
    assert "not read for" in paused[0].faults[0].error
    assert paused[0].taken == readings[0].taken  # its own time


def test_a_device_that_becomes_quick_again_is_read_each_time() -> None:
    device = Device(1.0)
    spared = Spared(device, device, "roce", "eth0")  # type: ignore[arg-type]
    spared.read()
    device.seconds = 0.0
    device.now += 1.0 / SHARE
    before = device.reads
    assert len(read_for(device, spared, 10)) == device.reads - before == 10


def test_a_slow_failure_is_a_failure_as_long_as_the_device_is_left_alone() -> None:
    device = Device(5.0)
    device.broken = True
    spared = Spared(device, device, "roce", "eth0")  # type: ignore[arg-type]
    with pytest.raises(HostError, match="no answer"):
        spared.read()
    with pytest.raises(HostError, match="not read for"):
        spared.read()
    assert device.reads == 1
    spared.close()
    assert device.reads == -1
