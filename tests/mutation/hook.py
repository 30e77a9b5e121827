"""Imports modules of fabricmon in a changed form, in this process and in every Python process that it starts.

The files stay as they are: what the import system compiles is another syntax tree. Which, stands in a file that the
environment variable FABRICMON_MUTATION names; `boot/sitecustomize.py` reads it in processes that a test starts.
"""

from __future__ import annotations

import ast
import importlib.machinery
import json
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutation.changes import changed, marked

ENVIRONMENT = "FABRICMON_MUTATION"
BOOT = Path(__file__).parent / "boot"


@dataclass(frozen=True)
class Plan:
    """What becomes of the modules.

    change   number of the change to make, by module
    marks    offset in `hits` of the marks of a module: each statement that is executed sets its byte
    hits     the file of these bytes, shared by all processes
    """

    change: Mapping[str, int]
    marks: Mapping[str, int]
    hits: str = ""

    def install(self, file: Path) -> None:
        """From now on, in this process and in those that it starts. Writes the plan to `file`."""
        file.write_text(json.dumps(asdict(self)))
        os.environ[ENVIRONMENT] = str(file)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(BOOT), str(BOOT.parents[2])])
        sys.meta_path.insert(0, _Finder(self))


def install_from_environment() -> None:
    plan = Plan(**json.loads(Path(os.environ[ENVIRONMENT]).read_text()))
    sys.meta_path.insert(0, _Finder(plan))


class _Finder(MetaPathFinder):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._hits: mmap.mmap | None = None
        if plan.hits:
            with open(plan.hits, "r+b") as file:
                self._hits = mmap.mmap(file.fileno(), 0)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._plan.change and name not in self._plan.marks:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path, self._plan, self._hits)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, plan: Plan, hits: mmap.mmap | None) -> None:
        super().__init__(name, path)
        self._plan, self._hits = plan, hits

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        if fullname in self._plan.change:
            tree = changed(source, self._plan.change[fullname])
        else:
            offset = self._plan.marks[fullname]
            tree, _ = marked(source, lambda number: _mark(offset + number))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__hits__"] = self._hits
        super().exec_module(module)


def _mark(place: int) -> ast.stmt:
    """`__hits__[place] = 1`"""
    target = ast.Subscript(ast.Name("__hits__", ast.Load()), ast.Constant(place), ast.Store())
    return ast.Assign([target], ast.Constant(1))
