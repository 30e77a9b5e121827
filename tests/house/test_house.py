"""The rules of the house that neither ruff, mypy nor the import contracts hold: see docs/architecture.md."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_MODULES = 40, 40
PURE = "The core is pure: it takes now and returns data"


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module of fabricmon; a package goes by its own name."""
    found = {}
    for path in sorted((ROOT / "fabricmon").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = _tree(path.read_text(encoding="utf-8"))
    return found


def _tree(text: str) -> ast.Module:
    """The syntax tree. A collection of garbage meanwhile makes ast.parse of Python 3.11.7 fail (CPython gh-106905)."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def packages() -> set[str]:
    return {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "fabricmon").rglob("__init__.py")}


def contract(name: str) -> dict[str, list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = [one for one in settings["tool"]["importlinter"]["contracts"] if one["name"] == name]
    return found


def imports(name: str) -> set[str]:
    """Modules of fabricmon that one imports at its top, those for type checking included, those in functions not."""
    found: set[str] = set()
    waiting: list[ast.AST] = [modules()[name]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules().keys() or {str(node.module)}
        else:
            waiting += ast.iter_child_nodes(node)
    return found & modules().keys() - {name}


def circles() -> Iterator[list[str]]:
    """Sets of modules that all reach each other (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(imports(name)):
            if other not in number:
                yield from visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                yield sorted(members)

    for name in modules():
        if name not in number:
            yield from visit(name)


def test_a_module_that_says_it_is_pure_stands_in_a_pure_package() -> None:
    pure = contract(PURE)["source_modules"]
    outside = [
        name
        for name, tree in modules().items()
        if re.search(r"\bPure\b", ast.get_docstring(tree) or "")
        and not any(f"{name}.".startswith(f"{package}.") for package in pure)
    ]
    assert not outside


def test_purity_is_a_property_of_packages() -> None:
    """A single module may be listed only where it stands beside the packages, directly below fabricmon."""
    listed = contract(PURE)["source_modules"]
    assert [name for name in listed if name not in packages() and name.count(".") > 1] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert list(circles()) == []


def test_a_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_function_is_at_most_40_lines() -> None:
    long = {
        f"{name}.{node.name}": size
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES
    }
    assert long == {}


def test_a_folder_has_at_most_40_modules() -> None:
    count = Counter(path.parent for path in (ROOT / "fabricmon").rglob("*.py") if path.name != "__init__.py")
    assert {str(folder): number for folder, number in count.items() if number > MOST_MODULES} == {}
