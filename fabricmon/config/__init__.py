"""One YAML file into typed settings, or all problems with file and line.

A path in the file is a path of fields: `collect.infiniband.interval` is the field `interval` of the config that
COLLECTORS has for `infiniband`; `rules.link_down.hold` is a field of that rule's params. The sections are found
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
from fabricmon.config.source import MAX_PROBLEMS, ConfigError, ConfigProblem, Located, join, parse, put, read_text

__all__ = [
    "ORDER",
    "SECTIONS",
    "TABLES",
    "ConfigError",
    "ConfigProblem",
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
    files       further ones of the same fabric; all are merged, live dumps over plans.
    node_names  a node-name-map of the InfiniBand tools for the dumps; "" means none.
    power       host name -> power domain, where the cable plan has none.
    """

    file: str = ""
    files: tuple[str, ...] = ()
    node_names: str = ""
    power: dict[str, str] = {}


# Sections with one fixed struct: name -> "module:struct". The settings of agent and server belong to higher
# layers, hence by name; it also spares a program the import of sections it does not use.
SECTIONS: dict[str, str] = {
    "agent": "fabricmon.agent.settings:AgentConfig",
    "central": "fabricmon.central.settings:CentralConfig",
    "topology": "fabricmon.config:TopologyConfig",
    "notify": "fabricmon.notify.settings:NotifyConfig",
    "log": "fabricmon.runtime.logs:LogConfig",
}

# Sections keyed by the rows of a literal table: name -> "module:table".
TABLES: dict[str, str] = {
    "collect": "fabricmon.collect:COLLECTORS",
    "rules": "fabricmon.rules:RULES",
    "senders": "fabricmon.senders:CONFIGS",
}

ORDER = ("agent", "collect", "central", "topology", "rules", "notify", "senders", "log")


@dataclass(frozen=True, slots=True)
class Sender:
    """One receiver of notifications: which kind of sender, and the settings of it."""

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
    """Read `path` (None: defaults only), apply `overrides`, check, fill in the defaults.

    overrides  dotted path -> plain value, as a command line flag sets it: {"central.listen": ["[::]:9791"]};
               it replaces the file's value.
    uses       the sections the program needs. Others are checked if the file has them, else left out, so that an
               agent neither imports the senders nor needs the secret files of the server.
    Raises ConfigError with all problems.
    """
    tree = Located({}, 0) if path is None else parse(read_text(path), path)
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
        item = found.get(section) or Located({}, 0)
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


def _senders(decoder: Decoder, item: Located) -> dict[str, Sender]:
    """Receivers by name; `kind` selects the sender whose Config decodes the rest."""
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
            done[name] = Sender(kind.value, decoder.struct(Located(fields, child.line), kinds[kind.value], path))
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
    if table == "senders":
        return dict(rows)
    return {name: kind.config for name, kind in rows.items()}
