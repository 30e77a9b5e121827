"""Dashboard: the health of links. What is down, what flaps, bit errors before and after correction, optics, PCIe."""

from __future__ import annotations

from fabricmon.dashboards.board import Board
from fabricmon.dashboards.panel import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    YELLOW,
    Column,
    Query,
    Row,
    names,
    series,
    stat,
    steps,
    table,
)
from fabricmon.dashboards.site import PORT_STATES, Site, by_rail_index, greatest, smallest

UID = "fabricmon-links"
_BAD = steps((1, RED))


def board(site: Site) -> Board:
    return Board(
        UID,
        "fabricmon / Links",
        "The health of links: what is down, what flaps, bit errors before and after correction, optics, PCIe.",
        (site.nodes(),),
        (_now(site), _downs(site), _errors(site), _correction(site), _optics(site), _pcie(site)),
    )


def _now(site: Site) -> Row:
    return Row("Now", (
        stat("Links up", "Hosts' ports whose link is up.", 'sum(fabricmon_rail_link_ports{state="up"})'),
        stat("Links down", "Hosts' ports whose link is down and should not be. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="down"})', limits=_BAD),
        stat("Initialising", "Links that have a partner and no subnet manager. Any for more than half a minute is bad.",
             'sum(fabricmon_rail_link_ports{state="initialising"})', limits=steps((1, ORANGE))),
        stat("Flapped within the hour", "Links that went down within the hour. Many at once are one cause.",
             "count(count without (counter) (fabricmon:port:downs:increase1h >= 1)) or vector(0)",
             limits=steps((1, ORANGE))),
        stat("Links with errors", "Links on which error counters rise now.",
             "count(count without (counter) (fabricmon:port:errors:rate5m)) or vector(0)", limits=steps((1, ORANGE))),
        stat("Modules without light", "Ports with a lane on which no light arrives.",
             "fabricmon:fleet:module_lanes_dark:count", limits=steps((1, ORANGE))),
    ))  # fmt: skip


def _downs(site: Site) -> Row:
    downs, away = f"fabricmon:port:downs:increase1h{{{site.among}}}", f"fabricmon:port:not_active:state{{{site.among}}}"
    flapping = site.limits("link_flapping")
    node, device = Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=120)
    return Row("Down and flapping", (
        series("Links down, by rail number", "Over all units. One step is one cable; a whole rail at once is a switch.",
               Query(by_rail_index("fabricmon_rail_link_ports", "sum", 'state="down"'), "rail {{index}}"), width=8,
               stacked=True),
        table("Not active now", "Ports that are not active and not disabled by order; at most thirty. Empty is good.",
              [Query(f"topk(30, {away})")],
              [node, device, Column("Value", "State", width=120, mappings=tuple(names(PORT_STATES)))],
              width=8, empty="all ports are active"),
        table("Went down most within the hour", f"{flapping.raise_at / 1000 + 1:.0f} downs within "
              f"{flapping.half_life / 60:.0f} minutes are flapping, {flapping.episodes} single ones within "
              f"{flapping.window / 3600:.0f} hours slow flapping.", [Query(f"topk(30, {downs} >= 1)")],
              [node, device, Column("Value", "Downs", decimals=0, width=90, limits=steps((1, YELLOW), (3, RED)))],
              width=8, sort="Downs"),
    ))  # fmt: skip


def _errors(site: Site) -> Row:
    errors = f"fabricmon:port:errors:rate5m{{{site.among}}}"
    legend = f"{site.port} {{{{counter}}}}"
    return Row("Errors", (
        series("Errors by counter", "A second, over all links. Symbol errors are damage on the wire, uncorrectable blocks "
               "are lost data, recoveries are links that had to train again.",
               Query("fabricmon:fleet:errors:rate5m > 0", "{{counter}}"), width=8, empty="no errors", logarithmic=True),
        series("Links with most errors", "The ten worst and their counters. One that grows from hour to hour is a cable or "
               "optic that dies.", Query(greatest(errors), legend), width=8, empty="no errors", logarithmic=True,
               links=[site.to_node]),
        table("Errors now", "The thirty worst links by counter, errors a second over the last five minutes.",
              [Query(f"topk(30, {errors})")],
              [Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=110),
               Column("counter", "Counter", width=190), Column("Value", "A second", decimals=3, width=100)],
              width=8, empty="no errors", sort="A second"),
    ))  # fmt: skip


def _correction(site: Site) -> Row:
    ratio = f"fabricmon:port:corrected_bit_error_ratio:rate15m{{{site.among}}}"
    limits = steps((1e-6, YELLOW), (1e-5, RED))
    what = "Bit errors before correction, as a share of the bits (Ethernet). A good link has 1e-12 to 1e-8"
    return Row("Error correction", (
        series("Bit error ratio before correction, fleet", f"{what}: the middle port, one in a hundred, and the worst. "
               "The worst drifting away from the others is a link that will fail.",
               Query("fabricmon:fleet:corrected_bit_error_ratio:quantile15m", "quantile {{quantile}}"), unit="sci",
               logarithmic=True, width=8, empty="not told by these adapters"),
        series("Worst links before correction", f"{what}. Correction fails near 1e-4 (RS-FEC).",
               Query(greatest(ratio), site.port), unit="sci", logarithmic=True, limits=limits, width=8,
               empty="not told by these adapters", links=[site.to_node]),
        table("Worst links now", f"{what}; the thirty worst. Compare with the middle of the fleet.",
              [Query(f"topk(30, {ratio})")],
              [Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=110),
               Column("Value", "Ratio", unit="sci", decimals=2, width=120, limits=limits)],
              width=8, empty="not told by these adapters", sort="Ratio"),
    ))  # fmt: skip


def _optics(site: Site) -> Row:
    heat = f"fabricmon:port:module_temperature_margin_celsius:min{{{site.among}}}"
    light = f"fabricmon:port:module_light_margin_decibels:min{{{site.among}}}"
    left = steps((0, ORANGE), (5, GREEN), base=RED)
    faint = steps((0, ORANGE), (2, GREEN), base=RED)
    node, device = Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=110)
    return Row("Optics", (
        series("Temperature of modules, fleet", "The middle module, one in a hundred, and the hottest. All rising together "
               "is the room; one alone is its cage or a fan.",
               Query("fabricmon:fleet:module_temperature_celsius:quantile", "quantile {{quantile}}"), unit="celsius",
               width=8, least=None, empty="no module tells"),
        series("Least light above the alarm", "The ten modules whose weakest lane is nearest to the module's own low "
               "alarm. A line that falls for hours is a dirty or dying optic.",
               Query(smallest(light), site.port), unit="dB", width=8, least=None, limits=faint,
               empty="no module tells", links=[site.to_node]),
        series("Least degrees below the alarm", "The ten modules nearest to their own high alarm.",
               Query(smallest(heat), site.port), unit="celsius", width=8, least=None, limits=left,
               empty="no module tells", links=[site.to_node]),
        table("Weakest light now", "Decibels of the weakest lane above the module's own low alarm; below 0 it is alarmed.",
              [Query(f"bottomk(20, {light})")],
              [node, device, Column("Value", "Above alarm", unit="dB", decimals=1, width=130, limits=faint)],
              width=12, empty="no module tells", sort="Above alarm", ascending=True),
        table("Hottest modules now", "Degrees below the module's own high alarm; below 0 it is alarmed.",
              [Query(f"bottomk(20, {heat})")],
              [node, device, Column("Value", "Below alarm", unit="celsius", decimals=1, width=130, limits=left)],
              width=12, empty="no module tells", sort="Below alarm", ascending=True),
    ))  # fmt: skip


def _pcie(site: Site) -> Row:
    width = f"fabricmon:pcie:path_width:ratio{{{site.among}}}"
    speed = f"fabricmon:pcie:path_speed:ratio{{{site.among}}}"
    below = steps((1, BLUE), base=RED)
    node, device = Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "PCI address", width=150)
    return Row("PCIe below adapters and GPUs", (
        table("Lanes missing", "Share of the lanes that the way to the device could have. Less than 100 % slows it down; a "
              "reseat or a reboot often mends it. Empty is good.", [Query(f"bottomk(30, {width})")],
              [node, device, Column("Value", "Lanes", unit="percentunit", decimals=0, width=100, limits=below)],
              width=12, height=6, empty="none", sort="Lanes", ascending=True),
        table("Slower than they could be", "Share of the speed that the way to the device could have. Empty is good.",
              [Query(f"bottomk(30, {speed})")],
              [node, device, Column("Value", "Speed", unit="percentunit", decimals=0, width=100, limits=below)],
              width=12, height=6, empty="none", sort="Speed", ascending=True),
    ))  # fmt: skip
