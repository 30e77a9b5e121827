"""Labels of a component's series, and the component of labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.model import ComponentId, Kind

IDENTIFYING: dict[Kind, tuple[str, ...]] = {
    Kind.PORT: ("device", "port"),
    Kind.NVLINK: ("gpu", "link"),
    Kind.GPU: ("gpu",),
    Kind.PCIE: ("device",),
    Kind.NODE: (),
    Kind.FLOW: ("port", "peer"),
}
"""Labels of a component's series; the rest is on the info metric."""

_NAMES: dict[Kind, tuple[tuple[str, str, bool], ...]] = {
    Kind.PORT: (("", "device", True), ("/", "port", False)),
    Kind.NVLINK: (("gpu", "gpu", True), ("/link", "link", True)),
    Kind.GPU: (("gpu", "gpu", True),),
    Kind.PCIE: (("", "device", True),),
    Kind.NODE: (),
    Kind.FLOW: (("", "port", True), (">", "peer", True)),
}
"""How a component's name is made of its labels: text before, label, whether there is no name without it."""


def component(kind: Kind, node: str, labels: Mapping[str, str]) -> ComponentId | None:
    """The component of a node with these labels, None where they name none."""
    name = ""
    for before, label, needed in _NAMES[kind]:
        value = labels.get(label, "")
        if value:
            name += before + value
        elif needed:
            return None
    return ComponentId(kind, node, name)


def template(kind: Kind, node_label: str) -> str:
    """The component in the templates of alerts: "{{ $labels.instance }}/{{ $labels.device }}..."."""
    text = f"{{{{ $labels.{node_label} }}}}"
    for n, (before, label, needed) in enumerate(_NAMES[kind]):
        start = "/" if n == 0 else ""
        value = f"{start}{before}{{{{ $labels.{label} }}}}"
        text += value if needed else f"{{{{ with $labels.{label} }}}}{start}{before}{{{{ . }}}}{{{{ end }}}}"
    return text
