"""Sequences that grow at their end and are never changed.

In: values. Out: a new `Trail`, the old one as it was. `appended` costs the same however long the trail is, as long as
it is appended to its newest version; an older one is copied first.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Trail(Generic[T]):
    """An immutable sequence. Versions share one list; each sees only as much of it as was there for it."""

    __slots__ = ("_items", "_size")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._size = len(self._items)

    @classmethod
    def _of(cls, items: list[T], size: int) -> "Trail[T]":
        trail = cls.__new__(cls)
        trail._items = items
        trail._size = size
        return trail

    def appended(self, item: T) -> "Trail[T]":
        """A trail with one more item."""
        items = self._items
        if len(items) != self._size:
            items = items[: self._size]
        items.append(item)
        return self._of(items, self._size + 1)

    def cut(self, size: int) -> "Trail[T]":
        """The first `size` items."""
        return self if size >= self._size else self._of(self._items, size)

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return self._size > 0

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> list[T]: ...

    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [self._items[i] for i in range(*at.indices(self._size))]
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._items[at if at >= 0 else self._size + at]

    def __iter__(self) -> Iterator[T]:
        items = self._items
        return (items[i] for i in range(self._size))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Trail)
            and self._size == other._size
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"
