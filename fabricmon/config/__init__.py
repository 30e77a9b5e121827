"""One YAML file into typed settings, or every problem with its place in the file. Nothing starts on a bad file.

A path in the file is a module path: `collect.infiniband.interval` is the field `interval` of the `Config` in
`fabricmon/collect/infiniband.py`; `rules.link_down.hold` is a field of that rule's params. The sections are found
through literal tables (SECTIONS here, COLLECTORS, RULES and SENDERS in their packages), so a new module's settings
are read, checked, shown and suggested without a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fabricmon.config.decode import Decoder
from fabricmon.config.source import MAX_PROBLEMS, ConfigError, Item, Problem, join, parse, put, read

__all__ = [
    "ORDER",
    "SECTIONS",
    "TABLES",
    "ConfigError",
    "Problem",
    "Root",
    "Sender",
    "TopologyConfig",
    "load",
    "struct_of",
    "structs_of",
]


class TopologyConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the plan of the fabric comes from.

    file        an `ibnetdiscover` dump, a cable plan or another of the formats of docs/topology.md, plain or gzip; ""
                means none: links, adapters, hosts and rails by index only.
    files       further ones of the same fabric; all are laid over each other, what is seen live over what is planned.
    node_names  a node-name-map of the InfiniBand tools for the dumps; "" means none.
    power       host name -> power domain, for sites whose cable plan does not say it.
    """

    file: str = ""
    files: tuple[str, ...] = ()
    node_names: str = ""
    power: dict[str, str] = {}


# Sections with one fixed struct: name -> "module:struct". The agent's and the centre's settings belong to higher
# layers, hence by name; it also spares a program the import of sections it does not use.
SECTIONS: dict[str, str] = {
    "agent": "fabricmon.agent.settings:AgentConfig",
    "central": "fabricmon.central.settings:CentralConfig",
    "topology": "fabricmon.config:TopologyConfig",
    "notify": "fabricmon.notify.settings:NotifyConfig",
    "log": "fabricmon.runtime.logs:Config",
}

# Sections keyed by the rows of a literal table: name -> "module:table".
TABLES: dict[str, str] = {
    "collect": "fabricmon.collect:COLLECTORS",
    "rules": "fabricmon.rules:RULES",
    "senders": "fabricmon.senders:KINDS",
}

ORDER = ("agent", "collect", "central", "topology", "rules", "notify", "senders", "log")


@dataclass(frozen=True, slots=True)
class Sender:
    """One receiver of notifications: which sender module, and that module's Config."""

    kind: str
    config: Any


@dataclass(slots=True)
class Root:
    """The whole configuration, defaults filled in.

    agent, central, topology, notify, log   the struct that SECTIONS names; None where the program did not ask for
                                            that section (`uses` of `load`) and the file does not have it
    collect   collector name -> its Config; rules: rule name -> its params; senders: receiver name -> Sender
    path      the file it came from, None for defaults only
    """

    agent: Any = None
    central: Any = None
    topology: Any = None
    notify: Any = None
    log: Any = None
    collect: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    senders: dict[str, Sender] = field(default_factory=dict)
    path: str | None = None


def load(path: str | None, overrides: Mapping[str, object] | None = None, *, uses: Collection[str] = ORDER) -> Root:
    """Read `path` (None: defaults only), put `overrides` over it, check all, fill in the defaults.

    overrides  dotted path -> plain value, as a command line flag sets it: {"central.listen": ["[::]:9791"]};
               it replaces the file's value.
    uses       the sections the program needs. Others are checked if the file has them, else left out, so that an
               agent neither imports the senders nor needs the centre's secret files.
    Raises ConfigError with everything that is wrong.
    """
    tree = Item({}, 0) if path is None else parse(read(path), path)
    for dotted, value in (overrides or {}).items():
        put(tree, dotted, value)
    decoder = Decoder(path or "defaults")
    root = Root(path=path)
    found = decoder.mapping(tree, "")
    for key, item in found.items():
        if key not in ORDER:
            decoder.unknown(item, key, key, ORDER, "section")
    for section in ORDER:
        if section not in found and section not in uses:
            continue
        item = found.get(section) or Item({}, 0)
        decoder.files_matter = section in uses
        if section in SECTIONS:
            setattr(root, section, decoder.struct(item, struct_of(section), section))
        elif section == "senders":
            root.senders = _senders(decoder, item)
        else:
            what = {"collect": "collector", "rules": "rule"}[section]
            setattr(root, section, decoder.table(item, structs_of(section), section, what))
    if decoder.problems:
        raise ConfigError(*decoder.problems[:MAX_PROBLEMS])
    return root


def _senders(decoder: Decoder, item: Item) -> dict[str, Sender]:
    """Receivers have names of the site's choice; `kind` says which sender's Config the rest is."""
    kinds = structs_of("senders")
    done: dict[str, Sender] = {}
    for name, child in decoder.mapping(item, "senders").items():
        path = join("senders", name)
        fields = dict(decoder.mapping(child, path))
        kind = fields.pop("kind", None)
        if kind is None:
            decoder.complain(child, path, f"'kind' is missing, one of: {', '.join(sorted(kinds))}")
        elif kind.value not in kinds:
            decoder.unknown(kind, join(path, "kind"), str(kind.value), kinds, f"kind '{kind.value}'")
        else:
            done[name] = Sender(kind.value, decoder.struct(Item(fields, child.line), kinds[kind.value], path))
    return done


def _resolve(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def struct_of(section: str) -> type[msgspec.Struct]:
    """The struct of a section of SECTIONS."""
    found: type[msgspec.Struct] = _resolve(SECTIONS[section])
    return found


def structs_of(table: str) -> dict[str, type[msgspec.Struct]]:
    """Row name -> struct of a section of TABLES."""
    rows = _resolve(TABLES[table])
    if table == "rules":
        return {rule.name: rule.params for rule in rows}
    return {name: module.Config for name, module in rows.items()}
