"""Which names a cell takes from elsewhere, and whether it is Python at all. Nothing is run.

The rule kept here: a cell whose names cannot be told from its text (`from x import *`, `exec`, `except NameError`) is
believed.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loam_lab.engines.base import Problem

GIVEN = frozenset({*dir(builtins), "get_ipython", "display", "In", "Out", "exit", "quit", "open", "spark", "params"})
_DUNDER = frozenset({"__name__", "__file__", "__doc__", "__builtins__", "__loader__", "__spec__", "__package__"})
_HISTORY = frozenset({"_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh"})
_WRAPPERS = frozenset({"time", "timeit", "capture", "prun"})
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@dataclass(frozen=True)
class Names:
    """The names that a cell needs, each with the first line where it stands, and those that it makes."""

    needed: dict[str, int]
    made: frozenset[str]
    is_believed: bool = False


def transformed(source: str, transform: Callable[[str], str]) -> str:
    """The cell's code without magics, each line where it stood: the shell takes empty lines at the top away.

    What the shell cannot read stays as it is; `check` says why.
    """
    blank = len(source) - len(source.lstrip("\n"))
    try:
        return "\n" * blank + transform(source[blank:])
    except SyntaxError:
        return source


def check(code: str) -> list[Problem]:
    """Tell whether `code` (after the shell has taken out its magics) is Python; lines count from 1."""
    try:
        compile(code, "<cell>", "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return [Problem("source", error.msg or "not Python", error.lineno)]
    except ValueError as error:
        return [Problem("source", str(error))]
    return []


def names(code: str, transform: Callable[[str], str] = str) -> Names:
    """The names that `code` needs. `transform` takes magics out of the cells inside `%%time` and its like."""
    tree = ast.parse(code)
    table = symtable.symtable(code, "<cell>", "exec")
    own = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    own |= {s.get_name() for inner in _inside(table) for s in inner.get_symbols() if s.is_declared_global()}
    asked = {s.get_name() for s in table.get_symbols() if s.is_referenced() and s.get_name() not in own}
    asked |= {
        s.get_name()
        for inner in _inside(table)
        for s in inner.get_symbols()
        if s.is_global() and s.is_referenced() and s.get_name() not in own
    }
    asked |= _read_too_soon(tree, own)
    lines = {node.id: node.lineno for node in reversed(list(_in_order(tree)))}
    needed = {name: lines.get(name, 1) for name in asked if name not in GIVEN | _DUNDER | _HISTORY}
    believed = _hides_names(tree)
    for line, cell in _wrapped_cells(tree):
        inner = names(transformed(cell, transform), transform)
        own |= inner.made
        believed = believed or inner.is_believed
        needed |= {name: line + at for name, at in inner.needed.items() if name not in needed}
    return Names(dict(sorted(needed.items(), key=lambda found: found[1])), frozenset(own), believed)


def _inside(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inside(child)


def _in_order(tree: ast.AST) -> list[ast.Name]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _hides_names(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("exec", "globals"):
            return True
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "NameError" in ast.unparse(node.type):
            return True
    return any(name == "run" for _, name, _ in _magics(tree))


def _wrapped_cells(tree: ast.Module) -> list[tuple[int, str]]:
    """The code below `%%time` and its like: it runs with the cell's names."""
    return [(line, body) for line, name, body in _magics(tree) if name in _WRAPPERS and body]


def _magics(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, name, body) of each magic: the shell has made calls of `get_ipython()` of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if node.func.attr == "run_cell_magic" and len(texts) == 3:
                yield node.lineno, texts[0], texts[2]
            elif node.func.attr == "run_line_magic" and texts:
                yield node.lineno, texts[0], ""


def _read_too_soon(tree: ast.Module, own: set[str]) -> set[str]:
    """Names that the cell makes, but reads before: `total = total + 1`. Looks at plain statements only."""
    made: set[str] = set()
    early: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
            made |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} | _other_names(statement)
            continue
        read = {node.id for node in _eager(statement) if isinstance(node.ctx, ast.Load)}
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            read.add(statement.target.id)
        walrus = {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        early |= (read & own) - made - walrus
        made |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return early


def _other_names(statement: ast.stmt) -> set[str]:
    """What a statement binds besides plain names: functions, classes, imports."""
    found = {alias.asname or alias.name.partition(".")[0] for node in ast.walk(statement)
             if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return found | {node.name for node in ast.walk(statement) if isinstance(node, kinds)}


def _eager(node: ast.AST) -> Iterator[ast.Name]:
    """Names in what a statement evaluates at once: no function bodies, no comprehensions, no walrus."""
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.NamedExpr):
        return
    if isinstance(node, ast.Name):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _eager(child)
