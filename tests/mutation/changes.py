"""Every small change that can be made inside the functions of a module, as edits of its syntax tree. Pure.

A change swaps an operator, a constant, a condition, a result, two arguments, or removes a statement. Texts stay as they
are: docstrings, string constants, f-strings, type hints, log messages, `__repr__` and the arguments of what is raised.
"""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_OFF_BY_ONE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum",
    "fmin": "fmax", "fmax": "fmin", "nanmin": "nanmax", "nanmax": "nanmin", "floor": "ceil", "ceil": "floor",
}  # fmt: skip
_KEEP_ORDER = {
    "min", "max", "minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or", "isclose", "cast", "isinstance",
}  # fmt: skip
_OF_DEFINITIONS = ("returns", "annotation", "decorator_list", "args")
_LOGS = ("debug", "info", "warning", "error", "exception", "critical")
_LOGGERS = ("log", "_log", "logger", "_logger", "LOG")
_SILENT = ("__repr__",)


@dataclass(frozen=True)
class Change:
    """One possible change.

    module    dotted name
    function  qualified name of the outermost function that holds it, with its classes
    line      of the statement that changes
    operator  sort of change
    was       the statement before, its first line, as ast.unparse writes it
    becomes   the same after
    number    position among the changes of the module (for `changed`)
    """

    module: str
    function: str
    line: int
    operator: str
    was: str
    becomes: str
    number: int

    def __str__(self) -> str:
        was, becomes = _around(self.was, self.becomes), _around(self.becomes, self.was)
        return f"{self.module}:{self.line} {self.function} [{self.operator}]\n    {was}\n    {becomes}"


@dataclass
class _Edit:
    """Replace the child of `parent` in `field` (at `place`, where that is a list) by `new`."""

    parent: ast.AST
    field: str
    place: int | None
    new: ast.AST
    operator: str
    statement: ast.stmt
    function: str

    def swap(self) -> None:
        """Make the change; a second call takes it back."""
        old = getattr(self.parent, self.field)
        if self.place is None:
            setattr(self.parent, self.field, self.new)
            self.new = old
        else:
            old[self.place], self.new = self.new, old[self.place]


def changes(module: str, source: str) -> list[Change]:
    """All changes of a module, in the order of its text."""
    found = []
    for number, edit in enumerate(_edits(parse(source))):
        was, becomes = _head(edit.statement), "pass"
        if isinstance(edit.new, ast.Return | ast.AugAssign):
            becomes = _head(edit.new)
        elif not isinstance(edit.new, ast.stmt):
            edit.swap()
            becomes = _head(edit.statement)
            edit.swap()
        if was != becomes:
            found.append(Change(module, edit.function, edit.statement.lineno, edit.operator, was, becomes, number))
    return found


def changed(source: str, number: int) -> ast.Module:
    """The syntax tree with change `number` made."""
    tree = parse(source)
    for at, edit in enumerate(_edits(tree)):
        if at == number:
            edit.swap()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"no change {number}")


@dataclass(frozen=True)
class Statement:
    """A statement inside a function, named so that the name outlives changes elsewhere in the module.

    function  qualified name of the outermost function
    digest    of the function's syntax, without positions
    number    of the statement in the function
    line      in this text of the module
    """

    function: str
    digest: str
    number: int
    line: int


def marked(source: str, mark: Callable[[int], ast.stmt]) -> tuple[ast.Module, list[Statement]]:
    """The syntax tree with `mark(n)` before the n-th statement inside functions, and these statements."""
    tree = parse(source)
    found: list[Statement] = []
    for name, function in _functions(tree):
        digest, first = hashlib.sha256(ast.dump(function).encode()).hexdigest()[:16], len(found)

        def named(node: ast.stmt, name: str = name, digest: str = digest, first: int = first) -> ast.stmt:
            found.append(Statement(name, digest, len(found) - first, node.lineno))
            return ast.copy_location(mark(len(found) - 1), node)

        for node in list(ast.walk(function)):
            for field in ("body", "orelse", "finalbody"):
                held = getattr(node, field, None)
                if isinstance(held, list):
                    setattr(node, field, list(_with_marks(held, named)))
    return ast.fix_missing_locations(tree), found


def _with_marks(held: list[ast.stmt], mark: Callable[[ast.stmt], ast.stmt]) -> Iterator[ast.stmt]:
    for node in held:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a docstring stays the first
            yield mark(node)
        yield node


def parse(source: str) -> ast.Module:
    """The syntax tree. A collection of garbage meanwhile makes ast.parse of Python 3.11.7 fail (CPython gh-106905)."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Outermost functions and methods with their qualified names."""
    waiting: list[tuple[str, ast.stmt]] = [("", node) for node in reversed(tree.body)]
    while waiting:
        prefix, node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name not in _SILENT:
                yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", inner) for inner in reversed(node.body)]


def _edits(tree: ast.Module) -> Iterator[_Edit]:
    for name, function in _functions(tree):
        yield from _inside(function, function, name)


def _inside(node: ast.AST, statement: ast.stmt, function: str) -> Iterator[_Edit]:
    """The edits below a node, each with the innermost statement that holds it."""
    for field, value in ast.iter_fields(node):
        if field in _OF_DEFINITIONS and not isinstance(node, ast.Call):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            own = child if isinstance(child, ast.stmt) else statement
            for operator, new in _replacements(child, node):
                yield _Edit(node, field, place, ast.copy_location(new, child), operator, own, function)
            if not isinstance(child, ast.Raise):
                yield from _inside(child, own, function)


def _is_text(node: ast.AST) -> bool:
    """Texts, hints and logging; assertions, whose failure is a defect already."""
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_log(node.value)
    return False


def _is_log(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Await) else node
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _LOGS):
        return False
    base = call.func.value
    name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
    return name in _LOGGERS


def _replacements(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in a node's place: sort of change, new node."""
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "removed sign or not", node.operand
        case ast.BinOp() if type(node.op) in _ARITHMETIC and not _of_texts(node):
            yield "arithmetic", ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        case ast.Constant():
            yield from _constants(node)
        case ast.Call():
            yield from _calls(node)
        case ast.Slice():
            yield from _slices(node)
        case ast.stmt():
            yield from _statements(node)
    if _is_condition(node, parent) and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield "inverted condition", ast.UnaryOp(ast.Not(), node)


def _is_condition(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(parent, ast.If | ast.While | ast.IfExp):
        return node is parent.test
    return isinstance(parent, ast.comprehension) and node in parent.ifs


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for place, op in enumerate(node.ops):
        for sort, table in (("boundary", _OFF_BY_ONE), ("comparison", _OPPOSITE)):
            if type(op) in table:
                ops = [*node.ops[:place], table[type(op)](), *node.ops[place + 1 :]]
                yield sort, ast.Compare(node.left, ops, node.comparators)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    match node.value:
        case bool():
            yield "constant", ast.Constant(not node.value)
        case int():
            yield "constant", ast.Constant(node.value + 1)
        case float():
            yield "constant", ast.Constant(node.value * 2 if node.value else 1.0)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    func, args = node.func, node.args
    if isinstance(func, ast.Name) and func.id in _NAMES:
        other: ast.expr = ast.Name(_NAMES[func.id], ast.Load())
        yield "opposite function", ast.Call(other, args, node.keywords)
    if isinstance(func, ast.Attribute) and func.attr in _NAMES:
        other = ast.Attribute(func.value, _NAMES[func.attr], ast.Load())
        yield "opposite function", ast.Call(other, args, node.keywords)
    if isinstance(func, ast.Name) and func.id == "range" and not isinstance(args[-1], ast.Constant):
        yield "off by one", ast.Call(func, [*args[:-1], _plus_one(args[-1])], node.keywords)
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    fixed = name in _KEEP_ORDER or any(isinstance(arg, ast.Starred) or _is_string(arg) for arg in args[:2])
    if len(args) > 1 and not fixed:
        yield "swapped arguments", ast.Call(func, [args[1], args[0], *args[2:]], node.keywords)


def _slices(node: ast.Slice) -> Iterator[tuple[str, ast.AST]]:
    if node.lower is not None and not isinstance(node.lower, ast.Constant):
        yield "off by one", ast.Slice(_plus_one(node.lower), node.upper, node.step)
    if node.upper is not None and not isinstance(node.upper, ast.Constant):
        yield "off by one", ast.Slice(node.lower, _plus_one(node.upper), node.step)


def _plus_one(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "returned value", ast.Return(ast.Constant(None))
        case ast.AugAssign() if type(node.op) in _ARITHMETIC and not _is_string(node.value):
            yield "arithmetic", ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
    if _can_go(node):
        # Still compiled, so that the function keeps its variables and stays a generator.
        yield "removed statement", ast.If(ast.Constant(False), [node], [])


def _can_go(node: ast.stmt) -> bool:
    """Statements that do something to what exists already."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant) and not _is_log(node.value)
    if isinstance(node, ast.Delete):  # of a local variable: nothing can differ
        return not all(isinstance(target, ast.Name) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _of_texts(node: ast.BinOp) -> bool:
    return _is_string(node.left) or _is_string(node.right)


def _is_string(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return _of_texts(node)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _around(text: str, other: str) -> str:
    """What is about where two texts differ, as far as it fits on a line."""
    start = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(text))
    begin, end = max(0, start - 70), start + 70
    return ("... " if begin else "") + text[begin:end] + (" ..." if end < len(text) else "")


def _head(node: ast.stmt) -> str:
    """The first line of a statement: a compound one without what stands in it."""
    shallow = copy.copy(node)
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if isinstance(getattr(shallow, field, None), list):
            setattr(shallow, field, [ast.Pass()] if field == "body" else [])
    text = ast.unparse(ast.fix_missing_locations(shallow))
    return next(line for line in text.splitlines() if not line.startswith("@"))
