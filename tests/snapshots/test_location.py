"""Where a snapshot lies, and what becomes of a store's refusals; a real store is in tests/object_store."""

import errno
import socket
from pathlib import Path

import pytest

from tidegauge.snapshots.errors import SnapshotError, StorageError
from tidegauge.snapshots.location import (
    OBJECT_STORES,
    ObjectPath,
    is_url,
    location,
    open_bytes,
    store_errors,
    unreadable,
)


@pytest.fixture
def objects(request, monkeypatch) -> ObjectPath:
    """A store in memory: fsspec's own, which behaves like any other."""
    monkeypatch.setattr("tidegauge.snapshots.location.OBJECT_STORES", OBJECT_STORES | {"memory"})
    root = location(f"memory://bucket/{request.node.name}")
    assert isinstance(root, ObjectPath)
    for name in ("a/one", "a/b/two", "three"):
        (root / name).write_bytes(name.encode())
    return root


def refused(code: str, status: int, kind: type[OSError] = OSError) -> OSError:
    """What s3fs raises for an answer of S3."""
    error = kind("said the server")
    error.__cause__ = Exception()
    error.__cause__.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return error


@pytest.mark.parametrize("text", ["s3://bucket/a", "gs://b", "S3A://b/c", "abfs://c@account/x"])
def test_a_url_is_told_from_a_path(text):
    assert is_url(text)


@pytest.mark.parametrize("text", ["/var/lib/kafka", "relative/path", "C:/kafka", "broker-1:9092", "s3:/bucket"])
def test_a_path_is_not_a_url(text):
    assert not is_url(text)


def test_a_path_becomes_absolute_also_as_a_file_url(tmp_path):
    assert location("x") == Path.cwd() / "x"
    assert location(f"file://{tmp_path}") == tmp_path


def test_a_url_behind_a_url_is_asked_for_nothing():
    """Fsspec's chains lead to stores of any kind, whatever scheme stands first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        for text in (f"s3://bucket/x::http://127.0.0.1:{port}/y", "s3a://b/x::file:///etc", "S3://b::memory://x"):
            with pytest.raises(SnapshotError, match="'::' names a place behind the place"):
                location(text)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("text", ["s3://", "nosuch://bucket/x", "gs://bucket/x"])
def test_a_url_that_nothing_can_read_is_a_snapshot_error(text):
    with pytest.raises(SnapshotError, match=text):
        location(text)


@pytest.mark.parametrize(
    "text", ["http://169.254.169.254/latest", "https://h/x", "ssh://h/x", "github://o:r@/x", "zip://x", "memory://x/y"]
)
def test_a_url_of_what_is_no_object_store_is_refused(text):
    with pytest.raises(SnapshotError, match="is no object store's URL"):
        location(text)


def test_a_location_comes_back_from_its_text(objects):
    again = location(str(objects / "a" / "one"))
    assert again.read_bytes() == b"a/one"
    assert (again.name, again.parent.name) == ("one", "a")


def test_objects_are_read_like_files(objects):
    with open_bytes(objects / "a" / "b" / "two") as file:
        buffer = bytearray(5)
        assert file.readinto(buffer) == 5
        assert bytes(buffer) == b"a/b/t"
        assert file.seek(2) == 2
        assert file.read() == b"b/two"
        assert file.read() == b""
    assert (objects / "three").read_text() == "three"
    assert (objects / "three").stat().st_size == 5
    assert (objects / "a").is_dir()
    assert (objects / "three").is_file()
    assert sorted(path.name for path in objects.iterdir()) == ["a", "three"]


def test_a_prefix_is_listed_with_sizes(objects):
    assert objects.sizes_below() == {"a/b/two": 7, "a/one": 5, "three": 5}
    assert (objects / "a").sizes_below() == {"b/two": 7, "one": 5}


def test_an_object_that_is_missing_is_a_file_that_is_missing(objects):
    with pytest.raises(FileNotFoundError) as raised:
        (objects / "nowhere").read_bytes()
    assert raised.value.filename == str(objects / "nowhere")
    assert list(unreadable(objects, "a", ["a/one", "a/none"])) == [("a/none", "No such file or directory")]


def test_files_that_cannot_be_opened_are_named_here_too(tmp_path):
    (tmp_path / "one").touch()
    assert list(unreadable(tmp_path, ".", ["one", "none"])) == [("none", "No such file or directory")]


@pytest.mark.parametrize(
    "error",
    [
        Exception("Could not connect to the endpoint URL"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        TimeoutError("read timeout"),
        refused("SlowDown", 503),
        refused("InternalError", 500),
        refused("ExpiredToken", 400, PermissionError),
        refused("SignatureDoesNotMatch", 403, PermissionError),
    ],
    ids=lambda error: str(error),
)
def test_a_store_that_does_not_answer_is_the_environments_fault(error):
    paragraph = r"^s3://b/x: the object store .*\. Check .* run the same command again\.$"
    with pytest.raises(StorageError, match=paragraph), store_errors("s3://b/x"):
        raise error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("b/x"), FileNotFoundError),
        (refused("NoSuchBucket", 404, FileNotFoundError), FileNotFoundError),
        (refused("AccessDenied", 403, PermissionError), PermissionError),
        (refused("InvalidRange", 416), OSError),
    ],
)
def test_one_object_that_cannot_be_had_is_like_a_file_that_cannot(error, kind):
    with pytest.raises(kind) as raised, store_errors("s3://b/x"):
        raise error
    assert raised.value.filename == "s3://b/x"
    assert raised.value.strerror


def test_every_call_of_the_stores_library_is_translated(objects):
    with pytest.raises(FileNotFoundError):
        objects.fs.cp_file(f"{objects.path}/nowhere", f"{objects.path}/there")
    objects.fs.cp_file((objects / "three").path, (objects / "copy").path)
    assert (objects / "copy").read_bytes() == b"three"
