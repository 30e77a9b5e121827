import msgspec
import pytest

from fabricmon.config import SECTIONS, TABLES, ConfigError, load, struct_of, structs_of
from fabricmon.config.renamed import RENAMED


def structs():
    yield from ((section, struct_of(section)) for section in SECTIONS)
    yield from ((f"{table}.{name}", tp) for table in TABLES for name, tp in structs_of(table).items())


def paths(path, tp):
    """Every setting below `path`; those of optional and listed structs are not followed."""
    for field in msgspec.structs.fields(tp):
        yield f"{path}.{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from paths(f"{path}.{field.encode_name}", field.type)


def test_each_new_name_is_a_setting_and_no_old_one_is():
    known = {name for path, tp in structs() for name in paths(path, tp)} | {path for path, _ in structs()}
    assert {new for new in RENAMED.values() if new not in known} == set()
    assert known.isdisjoint(RENAMED)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_is_an_error_that_names_the_new_one(tmp_path, old, new):
    *above, last = old.split(".")
    path = tmp_path / "c.yaml"
    path.write_text("".join(f"{'  ' * n}{key}:\n" for n, key in enumerate(above)) + f"{'  ' * len(above)}{last}: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(str(path), uses=())
    assert f"{path}:{len(above) + 1}: {old}: is now {new}" in str(caught.value).splitlines()
