"""What there should be less of, counted: a change may lower a number, and then lowers it here, too."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T", bound=ast.AST)
ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("dags", "tidegauge", *(link.name for link in (ROOT / "tidegauge").iterdir() if link.is_symlink()))

LOOSE_TYPES: Final = 376
"""Annotations that say `dict[str, Any]` or `Mapping[str, Any]`, where a class would have names; or a name that stands
for one of these.
"""
LONG_FUNCTIONS: Final = 1
"""Functions of more than 60 lines, which fit no screen. One is left, the scan kernel, a single compiled loop."""
WIDE_CLASSES: Final = 7
"""Classes of more than 20 fields. An invariant has as many as there are things to say of one. Rows (`TypedDict`) do not
count: they have as many as their table has columns.
"""


def test_loose_types_only_fall() -> None:
    said = sum(is_loose(n) for _, n in nodes(ast.Subscript))
    names = loose_names()
    named = sum(isinstance(n.ctx, ast.Load) and n.id in names.get(path, ()) for path, n in nodes(ast.Name))
    assert said + named == LOOSE_TYPES


def is_loose(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        return False
    return node.value.id in ("dict", "Mapping") and ast.unparse(node.slice) == "(str, Any)"


def loose_names() -> dict[Path, set[str]]:
    """By module, the names that stand for a loose type there: given there, or brought in from where they were."""
    found: dict[Path, set[str]] = {path: set() for path in modules()}
    size = -1
    while size != (size := sum(map(len, found.values()))):
        for path, module in modules().items():
            for statement in module.body:
                if isinstance(statement, ast.ImportFrom) and statement.module is not None:
                    there = found.get(path_of(statement.module), set())
                    found[path] |= {each.asname or each.name for each in statement.names if each.name in there}
                elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript):
                    parts = ast.walk(statement.value)
                    if any(is_loose(n) or (isinstance(n, ast.Name) and n.id in found[path]) for n in parts):
                        found[path] |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return found


def path_of(module: str) -> Path:
    """Where the text of one of our modules is, seen from the root."""
    inner = Path(*module.removeprefix("tidegauge.").split(".")).with_suffix(".py")
    return inner if inner.parts[0] in ROOMS else "tidegauge" / inner


def test_long_functions_only_fall() -> None:
    found = [
        f"{path}: {n.name}"
        for path, n in nodes(ast.FunctionDef)
        if n.end_lineno is not None and n.end_lineno - n.lineno + 1 > 60
    ]
    assert len(found) == LONG_FUNCTIONS, found


def test_wide_classes_only_fall() -> None:
    found = [
        f"{path}: {n.name}"
        for path, n in nodes(ast.ClassDef)
        if sum(isinstance(member, ast.AnnAssign) for member in n.body) > 20 and not is_row(n)
    ]
    assert len(found) == WIDE_CLASSES, found


def is_row(node: ast.ClassDef) -> bool:
    return bool(node.keywords) or any(ast.unparse(base) == "TypedDict" for base in node.bases)


def nodes(kind: type[T]) -> Iterator[tuple[Path, T]]:
    """Every node of a kind in the product's modules."""
    yield from ((path, n) for path, n in all_nodes() if isinstance(n, kind))


@cache
def all_nodes() -> list[tuple[Path, ast.AST]]:
    """Every node: a walk takes a second, and each count would make its own."""
    return [(path, n) for path, module in modules().items() for n in ast.walk(module)]


@cache
def modules() -> dict[Path, ast.Module]:
    """The product's modules, but for migrations, which nobody changes."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if "migrations" not in path.parts
    }
