"""Dashboard: link health. Links down, flaps, errors, pre-FEC BER, optics, PCIe."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.panel import (
    BAD,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    WARN,
    YELLOW,
    PanelColumn,
    PanelRow,
    Query,
    series,
    stat,
    steps,
    table,
)
from fabricmon.dashboards.site import PORT_STATES, Site, by_rail_index, greatest, smallest

UID = "fabricmon-links"


def board(site: Site) -> Dashboard:
    return Dashboard(
        UID,
        "fabricmon / Links",
        "Link health: links down, flaps, errors, pre-FEC BER, optics, PCIe.",
        (site.nodes(),),
        (_now(site), _downs(site), _errors(site), _correction(site), _optics(site), _pcie(site)),
    )


def _now(site: Site) -> PanelRow:
    return PanelRow("Now", (
        stat("Links up", "Host ports whose link is up.", 'sum(fabricmon_rail_link_ports{state="up"})'),
        stat("Links down", "Host ports whose link is down, except disabled ones. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="down"})', limits=BAD),
        stat("Initialising", "Links with a partner but without a subnet manager. More than half a minute is bad.",
             'sum(fabricmon_rail_link_ports{state="initialising"})', limits=WARN),
        stat("Link-downs, last hour", "Links that went down in the last hour. Many at once have one cause.",
             "count(count without (counter) (fabricmon:port:downs:increase1h >= 1)) or vector(0)",
             limits=WARN),
        stat("Links with errors", "Links whose error counters are rising.",
             "count(count without (counter) (fabricmon:port:errors:rate5m)) or vector(0)", limits=WARN),
        stat("Loss of signal", "Modules with a lane without Rx power.",
             "fabricmon:fleet:module_lanes_dark:count", limits=WARN),
    ))  # fmt: skip


def _downs(site: Site) -> PanelRow:
    downs, away = f"fabricmon:port:downs:increase1h{{{site.among}}}", f"fabricmon:port:not_active:state{{{site.among}}}"
    flapping = site.limits("link_flapping")
    place = site.columns("device", "Device", 120)
    return PanelRow("Down and flapping", (
        series("Links down, by rail number", "All units. A step of one is a cable; a whole rail at once is a switch.",
               Query(by_rail_index("fabricmon_rail_link_ports", "sum", 'state="down"'), "rail {{index}}"), width=8,
               stacked=True),
        table("Ports not active now", "Ports neither active nor disabled, at most 30. Empty is good.",
              [Query(f"topk(30, {away})")],
              [*place, PanelColumn("Value", "State", width=120, words=PORT_STATES)],
              width=8, empty="all ports are active"),
        table("Most link-downs, last hour", f"{flapping.raise_at / 1000 + 1:.0f} link-downs within "
              f"{flapping.half_life / 60:.0f} minutes are flapping, {flapping.episodes} single ones within "
              f"{flapping.window / 3600:.0f} hours slow flapping.", [Query(f"topk(30, {downs} >= 1)")],
              [*place, PanelColumn("Value", "Link-downs", decimals=0, width=90, limits=steps((1, YELLOW), (3, RED)))],
              width=8, sort="Link-downs"),
    ))  # fmt: skip


def _errors(site: Site) -> PanelRow:
    errors = f"fabricmon:port:errors:rate5m{{{site.among}}}"
    legend = f"{site.port} {{{{counter}}}}"
    return PanelRow("Errors", (
        series("Errors by counter", "Per second, all links. Symbol errors: damage on the wire; uncorrectable codewords: "
               "lost data; recoveries: links that retrained.",
               Query("fabricmon:fleet:errors:rate5m > 0", "{{counter}}"), width=8, empty="no errors", logarithmic=True),
        series("Links with most errors", "The top ten and their counters. One that rises from hour to hour is a failing "
               "cable or optic.", Query(greatest(errors), legend), width=8, empty="no errors", logarithmic=True,
               links=[site.to_port, site.to_node]),
        table("Errors now", "The top 30 links by counter, errors per second over the last five minutes.",
              [Query(f"topk(30, {errors})")],
              [*site.columns("device", "Device", 110),
               PanelColumn("counter", "Counter", width=190), PanelColumn("Value", "Per second", decimals=3, width=100)],
              width=8, empty="no errors", sort="Per second"),
    ))  # fmt: skip


def _correction(site: Site) -> PanelRow:
    ratio = f"fabricmon:port:corrected_bit_error_ratio:rate15m{{{site.among}}}"
    limits = steps((1e-6, YELLOW), (1e-5, RED))
    ber = "Bit error ratio before FEC (Ethernet). A good link has 1e-12 to 1e-8"
    return PanelRow("Pre-FEC BER", (
        series("Pre-FEC BER, fleet", f"{ber}: median, 99 % and maximum of all ports. A maximum drifting away from the "
               "others is a link that will fail.",
               Query("fabricmon:fleet:corrected_bit_error_ratio:quantile15m", "quantile {{quantile}}"), unit="sci",
               logarithmic=True, width=8, empty="not supported by these adapters"),
        series("Pre-FEC BER, worst links", f"{ber}. FEC fails near 1e-4 (RS-FEC).",
               Query(greatest(ratio), site.port), unit="sci", logarithmic=True, limits=limits, width=8,
               empty="not supported by these adapters", links=[site.to_port, site.to_node]),
        table("Pre-FEC BER now", f"{ber}; the worst 30. Compare with the median of the fleet.",
              [Query(f"topk(30, {ratio})")],
              [*site.columns("device", "Device", 110),
               PanelColumn("Value", "BER", unit="sci", decimals=2, width=120, limits=limits)],
              width=8, empty="not supported by these adapters", sort="BER"),
    ), folded=True)  # fmt: skip


def _optics(site: Site) -> PanelRow:
    heat = f"fabricmon:port:module_temperature_margin_celsius:min{{{site.among}}}"
    light = f"fabricmon:port:module_light_margin_decibels:min{{{site.among}}}"
    left = steps((0, ORANGE), (5, GREEN), base=RED)
    faint = steps((0, ORANGE), (2, GREEN), base=RED)
    place = site.columns("device", "Device", 110)
    return PanelRow("Optics", (
        series("Module temperature, fleet", "Median, 99 % and maximum. All rising together: the room; one alone: its cage or "
               "a fan.",
               Query("fabricmon:fleet:module_temperature_celsius:quantile", "quantile {{quantile}}"), unit="celsius",
               width=8, least=None, empty="no module data"),
        series("Rx power above low alarm, worst modules", "The ten modules with the weakest lane, in dB above the module's "
               "low alarm. Falling for hours: a dirty or failing optic.",
               Query(smallest(light), site.port), unit="dB", width=8, least=None, limits=faint,
               empty="no module data", links=[site.to_port, site.to_node]),
        series("Temperature below high alarm, worst modules", "The ten modules nearest to their high alarm.",
               Query(smallest(heat), site.port), unit="celsius", width=8, least=None, limits=left,
               empty="no module data", links=[site.to_port, site.to_node]),
        table("Weakest Rx power now", "Weakest lane in dB above the module's low alarm; below 0: alarm.",
              [Query(f"bottomk(20, {light})")],
              [*place, PanelColumn("Value", "Above alarm", unit="dB", decimals=1, width=130, limits=faint)],
              width=12, empty="no module data", sort="Above alarm", ascending=True),
        table("Hottest modules now", "Degrees below the module's high alarm; below 0: alarm.",
              [Query(f"bottomk(20, {heat})")],
              [*place, PanelColumn("Value", "Below alarm", unit="celsius", decimals=1, width=130, limits=left)],
              width=12, empty="no module data", sort="Below alarm", ascending=True),
    ))  # fmt: skip


def _pcie(site: Site) -> PanelRow:
    width = f"fabricmon:pcie:path_width:ratio{{{site.among}}}"
    speed = f"fabricmon:pcie:path_speed:ratio{{{site.among}}}"
    below = steps((1, BLUE), base=RED)
    place = site.columns("device", "PCI address", 150)
    return PanelRow("PCIe of adapters and GPUs", (
        table("PCIe width degraded", "Active share of the possible lanes. Below 100 % the device is slower; try a reseat or "
              "a reboot. Empty is good.", [Query(f"bottomk(30, {width})")],
              [*place, PanelColumn("Value", "Lanes", unit="percentunit", decimals=0, width=100, limits=below)],
              width=12, height=6, empty="none", sort="Lanes", ascending=True),
        table("PCIe speed degraded", "Share of the possible speed. Empty is good.",
              [Query(f"bottomk(30, {speed})")],
              [*place, PanelColumn("Value", "Speed", unit="percentunit", decimals=0, width=100, limits=below)],
              width=12, height=6, empty="none", sort="Speed", ascending=True),
    ), folded=True)  # fmt: skip
