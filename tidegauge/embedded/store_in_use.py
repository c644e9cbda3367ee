"""The store that a command uses: what its options name in, an address while it is in use out."""

from contextlib import AbstractContextManager, nullcontext

from tidegauge import settings
from tidegauge.runs.run import NO_STORE


def store_at(url: str | None) -> AbstractContextManager[str]:
    """The store's URL while it is in use: the user's own, or the embedded Postgres, started if it does not run."""
    if url is not None and url != NO_STORE:
        return nullcontext(url)
    from tidegauge.embedded.postgres import store

    return store(settings.home() / "postgres")
