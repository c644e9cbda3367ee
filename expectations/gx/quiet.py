"""Great Expectations without its log and its progress bars."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Great Expectations logs and draws progress bars on standard error; nothing of that is a finding."""
    before = os.environ.get("TQDM_DISABLE")
    logger = logging.getLogger("great_expectations")
    level = logger.level
    os.environ["TQDM_DISABLE"] = "1"
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["TQDM_DISABLE"]
        else:
            os.environ["TQDM_DISABLE"] = before
