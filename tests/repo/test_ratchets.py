"""What there should be less of, counted: a change may lower a number, and then lowers it here, too."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T", bound=ast.AST)
ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("dags", "tidegauge", *(link.name for link in (ROOT / "tidegauge").iterdir() if link.is_symlink()))

LOOSE_TYPES: Final = 242
"""Annotations that say `dict[str, Any]` or `Mapping[str, Any]`, where a class would have names."""
LONG_FUNCTIONS: Final = 1
"""Functions of more than 60 lines, which fit no screen. One is left, the scan kernel, a single compiled loop."""
WIDE_CLASSES: Final = 7
"""Classes of more than 20 fields. An invariant has as many as there are things to say of one; a row (`TypedDict`) as many
as its table has columns, and is not counted.
"""


def test_loose_types_only_fall() -> None:
    found = sum(ast.unparse(n) in ("dict[str, Any]", "Mapping[str, Any]") for _, n in nodes(ast.Subscript))
    assert found == LOOSE_TYPES


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
    """Every node of a kind in the product's modules, but for migrations, which nobody changes."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                yield from ((path.relative_to(ROOT), n) for n in ast.walk(tree) if isinstance(n, kind))
