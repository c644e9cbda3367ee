"""What tests of questions to a cluster share."""

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens, nor will while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"
