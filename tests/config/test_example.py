"""docs/fabricmon.yaml has every key there is, and nothing else; its values are the defaults where there are any."""

import typing
from pathlib import Path

import msgspec
import yaml

from fabricmon import config

EXAMPLE = Path(__file__).parents[2] / "docs" / "fabricmon.yaml"

# Keys whose default is empty and whose meaning an example shows better.
ILLUSTRATED = {"central.targets", "central.target_files", "central.dns", "topology.power"}


def keys_of(tp, path):
    """Every path of the keys of a struct, those of structs within it included."""
    for field in msgspec.structs.fields(tp):
        yield f"{path}.{field.encode_name}"
        inner = [a for a in (field.type, *typing.get_args(field.type)) if isinstance(a, type)]
        for each in inner:
            if issubclass(each, msgspec.Struct):
                yield from keys_of(each, f"{path}.{field.encode_name}")


def known():
    for section in config.SECTIONS:
        yield from keys_of(config.struct_of(section), section)
    for table in ("collect", "rules"):
        for name, tp in config.structs_of(table).items():
            yield from keys_of(tp, f"{table}.{name}")
    for name, tp in config.structs_of("senders").items():
        yield from keys_of(tp, f"senders.{name}")


def written(value, path, found):
    if isinstance(value, dict):
        for key, item in value.items():
            found.add(f"{path}.{key}" if path else key)
            written(item, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for item in value:
            written(item, path, found)


def example_keys():
    tree = yaml.safe_load(EXAMPLE.read_text())
    tree["senders"] = {s["kind"]: s for s in tree["senders"].values()}
    for sender in tree["senders"].values():
        del sender["kind"]
    found = set()
    written(tree, "", found)
    return found


def test_every_key_there_is_stands_in_the_example():
    assert sorted(set(known()) - example_keys()) == [], "in docs/fabricmon.yaml"


def test_every_key_of_the_example_exists():
    config.load(str(EXAMPLE))


def test_every_value_of_the_example_is_the_default():
    shown, defaults = config.load(str(EXAMPLE)), config.load(None)
    for section in ("agent", "central", "topology", "notify", "log"):
        differ(getattr(shown, section), getattr(defaults, section), section)
    for table in ("collect", "rules"):
        for name, value in getattr(shown, table).items():
            differ(value, getattr(defaults, table)[name], f"{table}.{name}")


def differ(shown, default, path):
    for field in msgspec.structs.fields(type(shown)):
        if f"{path}.{field.encode_name}" not in ILLUSTRATED:
            assert getattr(shown, field.name) == getattr(default, field.name), f"{path}.{field.encode_name}"
