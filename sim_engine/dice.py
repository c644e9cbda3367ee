"""Chance, without a state: a draw is a function of the world's seed, of the event, and of what it is for.

In: seed, sequence number of the event, purpose. Out: an integer. The rule that must hold: the same three give the same
number in every process, and what one purpose draws does not move what another one gets.
"""

import base64
from hashlib import blake2b


def draw(seed: int, sequence: int, purpose: str) -> int:
    """A number from 0 to 2**64 - 1."""
    return int.from_bytes(blake2b(f"{seed}/{sequence}/{purpose}".encode(), digest_size=8).digest(), "big")


def below(limit: int, seed: int, sequence: int, purpose: str) -> int:
    """A number from 0 to `limit` - 1."""
    return draw(seed, sequence, purpose) % limit


def uuid_for(seed: int, name: str) -> str:
    """An id in Kafka's form, always the same for a seed and a name. None begins with a hyphen, which Kafka avoids."""
    digest = blake2b(f"{seed}/uuid/{name}".encode(), digest_size=16).digest()
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return text if not text.startswith("-") else "A" + text[1:]
