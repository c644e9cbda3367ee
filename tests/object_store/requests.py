"""Counts what this process asks an S3 server, by operation: a wrapper about the one method that sends requests."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """What was asked while the block ran: HeadObject, GetObject, ListObjectsV2, …"""
    # Who only collects tests need not wait for it.
    from aiobotocore.client import AioBaseClient

    count: Counter[str] = Counter()
    sent = AioBaseClient._make_api_call

    async def counting(self: Any, operation: str, words: Any) -> Any:
        count[operation] += 1
        return await sent(self, operation, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AioBaseClient, "_make_api_call", counting)
        yield count
