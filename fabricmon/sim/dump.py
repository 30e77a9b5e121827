"""A graph in the format of `ibnetdiscover`, for the server and for ibsim. Pure."""

from __future__ import annotations

from collections import defaultdict

from fabricmon.topology.graph import End, Graph

_LANES = {2.5: "SDR", 5: "DDR", 10: "QDR", 14.0625: "FDR", 25: "EDR", 50: "HDR", 100: "NDR", 200: "XDR"}


def rate_word(rate: float, width: int) -> str:
    return f"{width}x{_LANES[rate * 8 / 1e9 / width]}" if width else ""


def write(graph: Graph, rate: str = "") -> str:
    """Adapters first, as ibsim gives clients the first record; `rate` ("4xHDR") replaces the rates of all links."""
    peers: dict[str, list[tuple[int, End, str]]] = defaultdict(list)
    for link in graph.cables:
        word = rate or rate_word(link.rate, link.width)
        peers[link.a.node].append((link.a.port, link.b, word))
        if link.a != link.b:
            peers[link.b.node].append((link.b.port, link.a, word))
    lines: list[str] = ["# made from a graph", ""]
    for adapter in graph.adapters.values():
        bare = adapter.id.removeprefix("0x")
        lines += ["vendid=0x2c9", "devid=0x101b", f"sysimgguid=0x{bare.lstrip('0')}", f"caguid=0x{bare.lstrip('0')}"]
        lines.append(f'Ca\t{adapter.ports} "H-{bare}"\t\t# "{adapter.description}"')
        for port, far, word in sorted(peers[adapter.id]):
            mine = f"{int(bare, 16) + port:x}"
            lines.append(f'[{port}]({mine}) \t{_peer(graph, far)}\t\t# lid 1 lmc 0 "{_text(graph, far)}" lid 2 {word}')
        lines.append("")
    for switch in graph.switches.values():
        bare = switch.id.removeprefix("0x")
        short = bare.lstrip("0")
        lines += ["vendid=0x2c9", "devid=0xd2f0", f"sysimgguid=0x{short}", f"switchguid=0x{short}({short})"]
        lines.append(f'Switch\t{switch.ports} "S-{bare}"\t\t# "{_name(graph, switch.id)}" enhanced port 0 lid 3 lmc 0')
        for port, far, word in sorted(peers[switch.id]):
            guid = "" if far.node in graph.switches else f"({int(far.node, 16) + far.port:x})"
            lines.append(f'[{port}]\t{_peer(graph, far)}{guid}\t\t# "{_text(graph, far)}" lid 4 {word}')
        lines.append("")
    return "\n".join(lines)


def _peer(graph: Graph, end: End) -> str:
    kind = "S" if end.node in graph.switches else "H"
    return f'"{kind}-{end.node.removeprefix("0x")}"[{end.port}]'


def _name(graph: Graph, switch: str) -> str:
    found = graph.switches[switch]
    return f"MF0;{found.name}:{found.model or 'MQM8700'}/U1"


def _text(graph: Graph, end: End) -> str:
    return _name(graph, end.node) if end.node in graph.switches else graph.adapters[end.node].description
