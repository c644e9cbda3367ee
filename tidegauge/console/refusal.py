"""What a reader did wrong, as an answer: a status, what is wrong, what to do."""

from collections.abc import Mapping


class RefusalError(Exception):
    """The request cannot be answered: a status, what is wrong, what to do."""

    def __init__(self, status: int, title: str, words: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.status, self.title, self.words = status, title, words
        self.headers = headers or {}


def not_found(what: str) -> RefusalError:
    """There is no such thing, or not any more."""
    return RefusalError(404, "Not found", f"{what} It may have been named otherwise, or removed by retention.")
