"""Topic names under a keyed hash: a snapshot that tells which topic is which to no one without the key.

In: a key, and names. Out: names that stand for them. The rules that must hold: the same key gives the same name for
the same topic, on every broker and at every capture; without the key a name can be neither read back nor guessed at;
Kafka's own topics keep their names, since what they are is no secret and the audit has to know them.

The hash is BLAKE2b with a key, 64 bits of it. A topic becomes `t-` and 16 hexadecimal digits, which is a topic name
that Kafka allows. Every other name that clients choose and that tells of a topic as often as not (a group, a
transactional id, a client, a member, a principal) becomes `n-` and 16 digits.
"""

import hashlib
import re
import secrets
from pathlib import Path
from typing import Final

from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.key_files import key_file

_DIGEST_BYTES: Final = 8
_KEY_BYTES: Final = 32
_LEAST_KEY_BYTES: Final = 16
_PARTITION_DIR: Final = re.compile(r"(?P<topic>.+)(?P<rest>-[0-9]{1,10}(?:\.[0-9a-f]{32}-(?:future|delete|stray))?)")


class TopicNames:
    """Gives names that stand for the real ones. Picklable; holds the key, so it is not to be kept."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.blake2b(secret, digest_size=_KEY_BYTES).digest()

    @classmethod
    def of_key_file(cls, path: Path) -> "TopicNames":
        """By the bytes of a file, white space at its ends aside. Raises `SnapshotError` if they are no key."""
        try:
            secret = key_file(path)[0].strip()
        except OSError as error:
            raise SnapshotError(
                f"The key file {path} cannot be read: {error.strerror or error}. "
                f"Make one, and keep it: head -c 32 /dev/urandom | base64 > {path}"
            ) from error
        if len(secret) < _LEAST_KEY_BYTES:
            raise SnapshotError(
                f"The key file {path} holds {len(secret)} bytes; with fewer than {_LEAST_KEY_BYTES} names could be "
                f"guessed. Make one, and keep it: head -c 32 /dev/urandom | base64 > {path}"
            )
        return cls(secret)

    @classmethod
    def of_random_key(cls) -> "TopicNames":
        """By a key that nobody keeps: names of two captures cannot be compared, not even by whoever made them."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """Tells whether two keys are one, and nothing else of them."""
        return self._digest("key", "")

    def hashed(self, topic: str) -> str:
        """The name that stands for a topic; Kafka's own topics keep theirs."""
        return topic if topic in INTERNAL_TOPICS or not topic else "t-" + self._digest("topic", topic)

    def identifier(self, name: str) -> str:
        """The name that stands for a group, a transactional id, a client, … An empty one stays empty."""
        return "n-" + self._digest("name", name) if name else name

    def path(self, path: str) -> str:
        """A path below a log dir, with the topic in its partition directory's name hashed."""
        first, slash, rest = path.partition("/")
        parsed = parse_partition_dir(first)
        if parsed is None:
            return path
        match = _PARTITION_DIR.fullmatch(first)
        assert match is not None
        return self.hashed(parsed.topic) + match["rest"] + slash + rest

    def unknown_path(self, path: str) -> str:
        """A path of which nobody knows what its names tell: every part but a partition directory's is hashed."""
        first, slash, rest = self.path(path).partition("/")
        if parse_partition_dir(first) is None:
            first = self.identifier(first)
        return first + slash + "/".join(self.identifier(part) for part in rest.split("/"))

    def _digest(self, kind: str, name: str) -> str:
        data = name.encode("utf-8", "surrogateescape")
        person = kind.encode().ljust(hashlib.blake2b.PERSON_SIZE, b"\0")
        return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=self._key, person=person).hexdigest()
