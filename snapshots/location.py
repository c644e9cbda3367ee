"""Where a snapshot lies: a directory of this machine, or one in an object store, by URL.

In: what a user names. Out: a path whose methods are those of `pathlib`, on either. The rule that must hold: whoever
reads a snapshot asks for no more than `location / path`, `open("rb")`, `read_bytes` and `stat().st_size`, and handles
`OSError`, whatever the store's library raises: `store_errors` is the one place where that is translated.

What becomes of a store's refusal:

    no such bucket, prefix or object      not there: `exists()` is false, `FileNotFoundError`
    this one object is forbidden          `PermissionError`, like a file of this machine
    credentials wrong, missing, expired   `StorageError`: it concerns everything that would be read next
    no answer, throttled, an error of its own   `StorageError`, after the library's own retries
    a URL that no library can use         `SnapshotError`

Endpoint and credentials are the library's own settings: for `s3://` the usual AWS variables and profiles, such as
AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_PROFILE; for any store FSSPEC_<PROTOCOL>_<OPTION>.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from upath import UPath
from upath.extensions import ProxyUPath

from tidegauge.snapshots.errors import AuditError, SnapshotError, StorageError
from tidegauge.snapshots.holes import written_bytes
from tidegauge.snapshots.local_path import (
    LARGEST_FILE_READ_WHOLE,
    LARGEST_TEXT_READ_WHOLE,
    LocalPath,
    must_be_of_kafka,
    must_be_readable,
    really,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    _Wrapper = UPath  # What a proxy stands for; at run time `isinstance` says so too.
else:
    _Wrapper = ProxyUPath

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Schemes that name one: S3, Google's, Azure's.

What else fsspec can open (http, ssh, zip, github, …) would let the name of a snapshot, which Airflow takes from an
asset's event, make this process ask anybody for anything.
"""

READ_AHEAD_BYTES: Final = 8 << 20
"""What one request of a sequential read asks for beyond what is wanted now."""

FIRST_READ_BYTES: Final = 1 << 20
"""What the first request of a sequential read asks for: all there is, of most files of a snapshot. Only of a larger
object does a second request ask how large it is.
"""

_CREDENTIALS: Final = frozenset(
    {
        "AccountProblem", "AuthorizationHeaderMalformed", "ExpiredToken", "InvalidAccessKeyId", "InvalidSecurity",
        "InvalidToken", "NotSignedUp", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "TokenRefreshRequired",
    }
)  # fmt: skip
"""S3's codes for a caller that it does not know, whatever is asked for."""


_NUMBERS: Final[Mapping[type[OSError], int]] = {
    FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, FileExistsError: errno.EEXIST,
    NotADirectoryError: errno.ENOTDIR, IsADirectoryError: errno.EISDIR,
}  # fmt: skip


class ObjectPath(_Wrapper):
    """A path in an object store: `UPath` with the refusals of its library translated, and with sequential reads that
    ask for megabytes at a time.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        __wrapped__: UPath

    @property
    def fs(self) -> Any:
        """The store's library; what its methods raise is translated, too."""
        return _Answering(self.__wrapped__.fs, self)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object or a prefix of this name. Raises `StorageError` if the store does not say."""
        with _must_answer(self):
            return self.__wrapped__.exists()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether this is a prefix of objects. Raises `StorageError` if the store does not say."""
        with _must_answer(self):
            return self.__wrapped__.is_dir()

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether this is an object. Raises `StorageError` if the store does not say."""
        with _must_answer(self):
            return self.__wrapped__.is_file()

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """The object's size and time."""
        with store_errors(self):
            return self.__wrapped__.stat()

    def iterdir(self) -> "Iterator[ObjectPath]":
        """What lies directly below."""
        with _must_answer(self):
            names = [path.name for path in self.__wrapped__.iterdir()]
        yield from (self / name for name in names)

    def read_bytes(self) -> bytes:
        """The whole object. Raises `OSError`, EOVERFLOW where it is larger than any that is read as a whole."""
        return self._whole(LARGEST_FILE_READ_WHOLE)

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """The whole object as text. Raises `OSError` as above."""
        return self._whole(LARGEST_TEXT_READ_WHOLE).decode(encoding or "utf-8", errors or "strict")

    def _whole(self, most: int) -> bytes:
        with store_errors(self):
            data = self._up_to(most + 1)
            if len(data) > most:
                must_be_readable(self._size(), most)
            return data

    def _up_to(self, end: int) -> bytes:
        """Its first bytes, in one request. Raises what the store's library raises."""
        try:
            return cast(bytes, self.__wrapped__.fs.cat_file(self.path, start=0, end=end))
        except (FileNotFoundError, PermissionError):
            raise
        except Exception:
            # Of an object without bytes there is no range, and each library has words of its own for that.
            if self._size() == 0:
                return b""
            raise

    def _size(self) -> int:
        return int(self.__wrapped__.fs.info(self.path)["size"] or 0)

    def write_bytes(self, data: bytes) -> int:
        """Writes the whole object, which is there at once or not at all."""
        with store_errors(self):
            self.__wrapped__.fs.pipe_file(self.path, data)
        return len(data)

    def write_text(
        self, data: str, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> int:
        """Writes the whole object, which is there at once or not at all."""
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes the object."""
        with store_errors(self):
            self.__wrapped__.unlink(missing_ok=missing_ok)

    def open(self, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        """`"rb"` reads ahead in large pieces; any other mode is as `UPath.open` has it. All raise translated errors."""
        with store_errors(self):
            if mode != "rb":
                return cast(IO[Any], _Answering(self.__wrapped__.open(mode, *args, **options), self))
            data = self._up_to(FIRST_READ_BYTES)
            if len(data) < FIRST_READ_BYTES:
                return BufferedReader(_Reading(BytesIO(data), self), 1 << 16)
            opened = self.__wrapped__.fs.open(self.path, "rb", block_size=READ_AHEAD_BYTES, cache_type="readahead")
            must_be_of_kafka(int(opened.size or 0))
        return BufferedReader(_Reading(opened, self), 1 << 16)

    def sizes_below(self) -> Mapping[str, int]:
        """Every object below this prefix: its path from here, and its size. One request a thousand objects."""
        with _must_answer(self):
            found = self.__wrapped__.fs.find(self.path, detail=True)
        start = len(self.path.rstrip("/")) + 1
        return {name[start:]: int(info["size"] or 0) for name, info in sorted(found.items())}


Location = Path | ObjectPath


class _Answering:
    """Something of the store's library, every method of which raises translated errors."""

    def __init__(self, inner: Any, where: ObjectPath) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_where", where)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            with store_errors(self._where):
                return value(*args, **options)

        return call

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._inner, name, value)

    def __enter__(self) -> "_Answering":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Reading(RawIOBase):
    """An open object whose reads raise translated errors."""

    def __init__(self, file: Any, where: ObjectPath) -> None:
        self._file = file
        self._where = where

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        with store_errors(self._where):
            return cast(int, self._file.seek(offset, whence))

    def tell(self) -> int:
        return cast(int, self._file.tell())

    def readinto(self, buffer: "Buffer") -> int:
        view = memoryview(buffer).cast("B")
        with store_errors(self._where):
            data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def is_url(text: str) -> bool:
    """Whether this names an object store, not a path."""
    return _URL.match(text) is not None


def location(text: str) -> Location:
    """The place that a path or a URL (`s3://bucket/prefix`) names; a path becomes absolute. Raises `SnapshotError` for
    a URL of a kind that nothing installed can read.
    """
    if not is_url(text) or text.lower().startswith("file://"):
        return local(Path(re.sub(r"^file://", "", text, flags=re.IGNORECASE)))
    scheme, _, below = text.partition("://")
    if scheme.lower() not in OBJECT_STORES:
        raise SnapshotError(
            f"{text} is no object store's URL: {scheme}:// is not among {', '.join(sorted(OBJECT_STORES))}. Name a "
            "directory, or a URL of one of these."
        )
    if "::" in text:
        # fsspec's chains: what stands behind is another URL, of any kind, and it is asked first.
        raise SnapshotError(f"{text} is no URL that can be used: '::' names a place behind the place. Name one place.")
    if not below.strip("/"):
        raise SnapshotError(f"{text} names no bucket. Name a place in one: {scheme}://BUCKET/PREFIX")
    with store_errors(text):
        # Another process may write there at any time: a listing is never kept.
        path = ObjectPath(f"{scheme}://{below.rstrip('/')}", use_listings_cache=False)
        _ = path.fs
    return path


def place_of(text: str) -> Location:
    """The place that a user names to be written to: one in an object store by its URL, else a path as it is given.
    Raises `SnapshotError` as `location` does.
    """
    return location(text) if is_url(text) else Path(text)


def local(path: Path) -> LocalPath:
    """A directory that a user named, as one whose files are read without following a link. It may be a link itself."""
    return LocalPath(really(path))


def open_bytes(path: Location) -> BufferedReader:
    """Opens a file to be read, `readinto` included. Raises `OSError`."""
    return cast(BufferedReader, path.open("rb"))


def changed_at_ns(path: Location) -> int:
    """When somebody last wrote to a file, as its system says: nobody can set its ctime. Raises `OSError`.

    A link to it from another snapshot moves that, too: of a file with several names it is the mtime.
    """
    if not isinstance(path, Path):
        return int(path.fs.modified(path.path).timestamp() * 1_000_000_000)
    found = path.stat()
    return found.st_ctime_ns if found.st_nlink == 1 else found.st_mtime_ns


def unreadable(root: Location, directory: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Which files of one directory cannot be opened or are too large to be read whole, and why: (path below root,
    reason).

    A file of this machine is opened to see; objects are listed, since opening each would cost a request.
    """
    there = (root / directory).sizes_below() if not isinstance(root, Path) else {}
    for name in names:
        try:
            if isinstance(root, Path):
                with (root / name).open("rb") as file:
                    size = written_bytes(file.fileno(), os.fstat(file.fileno()).st_size)
            elif (listed := there.get(name.removeprefix(f"{directory}/"))) is not None:
                size = listed
            else:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            must_be_readable(size)
        except OSError as error:
            yield name, error.strerror or str(error)


@contextmanager
def store_errors(where: object) -> Iterator[None]:
    """Translates what a store's library raises while it reads or writes `where`: see the table above."""
    try:
        yield
    except AuditError:
        raise
    except OSError as error:
        raise _of_system(error, where) from error
    except ImportError as error:
        raise SnapshotError(f"{where} cannot be read: a package for such URLs is not installed ({error}).") from error
    except ValueError as error:
        raise SnapshotError(f"{where} is not a URL that can be used: {_words(error)}.") from error
    except Exception as error:  # Each store's library has exceptions of its own, with no common root.
        raise _no_answer(error, where) from error


@contextmanager
def _must_answer(where: object) -> Iterator[None]:
    """Where no single object is asked for, a refusal concerns the whole store."""
    try:
        with store_errors(where):
            yield
    except PermissionError as error:
        raise _denied(error, where) from error


def _of_system(error: OSError, where: object) -> AuditError | OSError:
    code, status = _answered(error)
    if isinstance(error, PermissionError) and code == "403" and isinstance(where, ObjectPath):
        code = _reason_of_refusal(where) or code  # An answer to HEAD has no body that could tell why.
    if code in _CREDENTIALS:
        return _denied(error, where, code)
    if status >= 500 or code in ("SlowDown", "RequestTimeout") or isinstance(error, ConnectionError | TimeoutError):
        return _no_answer(error, where)
    number = error.errno or next((n for kind, n in _NUMBERS.items() if isinstance(error, kind)), errno.EIO)
    named_by_number = number == errno.ENOENT or (error.errno is None and not code)
    words = os.strerror(number) if named_by_number else error.strerror or _words(error)
    return OSError(number, words, str(where))  # Python chooses the subclass by the number.


def _reason_of_refusal(where: ObjectPath) -> str | None:
    try:
        where.__wrapped__.fs.cat_file(where.path, start=0, end=1)
    except OSError as error:
        return _answered(error)[0]
    return None


def _answered(error: BaseException) -> tuple[str | None, int]:
    """S3's error code and HTTP status, if that is what lies below."""
    response = getattr(error.__cause__ if error.__cause__ is not None else error, "response", None)
    if not isinstance(response, Mapping):
        return None, 0
    return response.get("Error", {}).get("Code"), int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _denied(error: BaseException, where: object, code: str | None = None) -> StorageError:
    return StorageError(
        f"{where}: the object store denies access ({code or _words(error)}). Check the credentials and what they may "
        "do there (for S3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE), then run the same command again."
    )


def _no_answer(error: BaseException, where: object) -> StorageError:
    return StorageError(
        f"{where}: the object store does not answer ({_words(error)}). Check the network, the endpoint and the "
        "credentials (for S3: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID), then run the same command again."
    )


def _words(error: BaseException) -> str:
    """What an error says, on one line, without the period that our own sentence brings."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
