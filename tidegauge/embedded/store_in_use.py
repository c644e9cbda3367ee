"""The store that a command uses: what its options name in, an address while it is in use, and words for it, out."""

from contextlib import AbstractContextManager, nullcontext

from tidegauge import settings
from tidegauge.runs.run import NO_STORE
from tidegauge.runs.store_address import normalised, shown


def store_words(url: str | None) -> str:
    """Which store that is, without what is secret in its address."""
    if url == NO_STORE:
        return "none"
    return shown(normalised(url)) if url is not None else f"{settings.home() / 'postgres'} (embedded)"


def store_at(url: str | None) -> AbstractContextManager[str]:
    """The store's URL while it is in use: the user's own, or the embedded Postgres, started if it does not run."""
    if url is not None and url != NO_STORE:
        return nullcontext(url)
    from tidegauge.embedded.postgres import store

    return store(settings.home() / "postgres")
