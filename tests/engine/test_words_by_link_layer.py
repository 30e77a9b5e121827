"""What an incident names, and its next step, fit the link layer of its ports."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(("layer", "manager"), [("InfiniBand", True), ("Ethernet", False)])
def test_a_link_down_names_a_subnet_manager_on_infiniband_only(world: Any, layer: str, manager: bool) -> None:
    w = world(layer=layer)
    w.break_links([("host-002", 1)])
    w.run(20)
    (incident,) = w.firing()
    assert incident.kind == "link_down"
    assert ("subnet manager" in incident.why) is manager
    assert ("`sminfo`" in incident.action) is manager
    assert "far end" in incident.action


@pytest.mark.parametrize(("layer", "control"), [("InfiniBand", "subnet manager"), ("Ethernet", "configuration")])
def test_a_rail_names_what_governs_its_link_layer(world: Any, layer: str, control: str) -> None:
    w = world(topology=False, layer=layer)
    w.break_links(w.ports(rail=1))
    w.run(40)
    (incident,) = w.firing()
    assert incident.component == "rail(1)"
    assert incident.action == f"Check the switches of this rail: power, firmware roll-out, {control}."
