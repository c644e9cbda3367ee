"""Who wrote a snapshot: a private key and a text in, a signature out; public keys and both in, a yes or no out.

    MANIFEST.json       names every file of the snapshot with its SHA-256
    MANIFEST.json.sig   the manifest's Ed25519 signature (RFC 8032) in base64, a line

The rule that must hold: what is checked are the bytes that are then read, and nothing is signed that its signer has not
read itself or found signed. Two keys, not one secret: what audits cannot sign, and a broker's machine has no more
than it needs. Any OpenSSL makes the keys, and checks a signature without us.
"""

import base64
import binascii
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.key_files import key_file

_SIGNATURE_BYTES: Final = 64
_PUBLIC_KEY: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)
_MAKE: Final = "openssl genpkey -algorithm ed25519 -out"


def signature_name(name: str) -> str:
    """The file that holds the signature of another one beside it."""
    return f"{name}.sig"


@dataclass(frozen=True, slots=True)
class Trusted:
    """Public keys; a signature by any of them will do, so that a key can be exchanged for the next one."""

    keys: tuple[Ed25519PublicKey, ...]
    where: str
    """What they were read from, for messages."""

    @classmethod
    def of_key_file(cls, path: Path) -> "Trusted":
        """Of a PEM file with one public key or several. Raises `SnapshotError`."""
        data = _key_file(path, is_private=False)
        try:
            keys = [load_pem_public_key(found) for found in _PUBLIC_KEY.findall(data)]
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SnapshotError(f"The key file {path} holds a public key that cannot be read: {error}.") from error
        usable = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
        if not usable or len(usable) < len(keys):
            raise SnapshotError(
                f"The key file {path} does not hold Ed25519 public keys alone. Make one of the private key that signs: "
                f"openssl pkey -in PRIVATE.pem -pubout -out {path}"
            )
        return cls(usable, str(path))

    def check(self, data: bytes, signature: Callable[[], bytes], *, where: str) -> None:
        """Whether the bytes of a file are signed. `signature` reads what stands beside it, and may raise `OSError`.

        Raises `SnapshotError`.
        """
        try:
            text = signature()
        except FileNotFoundError:
            raise SnapshotError(
                f"{where} is not signed, and {self.where} asks for a signature. Capture with --sign, or take a "
                "snapshot that is signed; what anybody may have written is not judged."
            ) from None
        except OSError as error:
            raise SnapshotError(f"{signature_name(where)} cannot be read: {error}. Check its permissions.") from error
        if not self._accept(data, text):
            raise SnapshotError(
                f"{where} is not what the holder of a key in {self.where} signed: it was changed afterwards, or "
                "somebody else wrote it. Find out who; nothing of it is judged."
            )

    def _accept(self, data: bytes, signature: bytes) -> bool:
        try:
            raw = base64.b64decode(signature.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return len(raw) == _SIGNATURE_BYTES and any(_is_by(key, raw, data) for key in self.keys)


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key. Not to be printed, kept or sent anywhere."""

    key: Ed25519PrivateKey
    where: str

    @classmethod
    def of_key_file(cls, path: Path) -> "Signer":
        """Of a PEM file that nobody but its owner can read. Raises `SnapshotError`."""
        data = _key_file(path, is_private=True)
        try:
            key = load_pem_private_key(data, password=None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise SnapshotError(
                f"The key file {path} holds no private key, or one with a password. Make one: {_MAKE} {path}"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SnapshotError(
                f"The key file {path} holds a key of another kind than Ed25519. Make one: {_MAKE} {path}"
            )
        return cls(key, str(path))

    @property
    def trusted(self) -> Trusted:
        """Who trusts its own signatures only."""
        return Trusted((self.key.public_key(),), self.where)

    def signature(self, text: str) -> str:
        """Of a text as UTF-8, as its file holds it."""
        return base64.b64encode(self.key.sign(text.encode("utf-8"))).decode("ascii") + "\n"


def _is_by(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _key_file(path: Path, *, is_private: bool) -> bytes:
    """Its bytes. What others can read is no secret any more; what others can write is nobody's key."""
    forbidden = stat.S_IRWXG | stat.S_IRWXO if is_private else stat.S_IWOTH
    try:
        data, mode = key_file(path)
    except OSError as error:
        made = f"{_MAKE} {path}" if is_private else f"openssl pkey -in PRIVATE.pem -pubout -out {path}"
        raise SnapshotError(
            f"The key file {path} cannot be read: {error.strerror or error}. To make one: {made}"
        ) from error
    if mode & forbidden:
        who, bits = ("read", "600") if is_private else ("written", "644")
        raise SnapshotError(
            f"The key file {path} can be {who} by others ({stat.filemode(mode)}), so it proves nothing. Make a new key "
            f"if anybody may have done so, and close it: chmod {bits} {path}"
        )
    return data
