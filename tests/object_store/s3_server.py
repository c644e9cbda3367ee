"""A real S3 server for the tests: S3Proxy (Apache licence, brought by Maven), which keeps its objects in a directory.

In: a directory. Out: an `S3Server` while the block lasts: where it listens, and the environment that reaches it. It
listens on the loopback interface only, wants signed requests, and is stopped with the block.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.java.libraries import classpath
from tests.processes import ended
from tidegauge.spark_jobs.java import find_java

if TYPE_CHECKING:
    from s3fs import S3FileSystem

ACCESS_KEY: Final = "tidegauge"
SECRET_KEY: Final = "only-for-tests"
BUCKET: Final = "snapshots"
_PATIENCE_S: Final = 60

_LOG_SETTINGS: Final = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A server with one empty bucket."""

    endpoint: str
    objects: Path

    @property
    def environ(self) -> Mapping[str, str]:
        """What a process needs to reach it: nothing but the usual AWS variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def file_system(self) -> "S3FileSystem":
        """The same bucket by another way than ours."""
        # Every run of pytest reads this module, and few start the server: the library takes a third of a second.
        from s3fs import S3FileSystem

        return S3FileSystem(
            key=ACCESS_KEY, secret=SECRET_KEY, endpoint_url=self.endpoint, use_listings_cache=False,
            client_kwargs={"region_name": "us-east-1"},
        )  # fmt: skip


@contextmanager
def running(directory: Path) -> Iterator[S3Server]:
    """A server whose files are below `directory`."""
    objects = directory / "objects"
    objects.mkdir(parents=True)
    (directory / "logback.xml").write_text(_LOG_SETTINGS)
    port = _free_port()
    server = S3Server(endpoint=f"http://127.0.0.1:{port}", objects=objects)
    settings = {
        "s3proxy.endpoint": server.endpoint,
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": ACCESS_KEY,
        "s3proxy.credential": SECRET_KEY,
        # Clients name the algorithm of their checksums in headers younger than this server.
        "s3proxy.ignore-unknown-headers": "true",
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
        "jclouds.filesystem.basedir": str(objects),
    }
    properties = directory / "s3proxy.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (directory / "s3proxy.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(find_java().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                f"-Dlogback.configurationFile={directory / 'logback.xml'}", "-cp", classpath("s3proxy"),
                "org.gaul.s3proxy.Main", "--properties", str(properties),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _wait_for(server, process, directory / "s3proxy.log")
        server.file_system().call_s3("create_bucket", Bucket=BUCKET)
        yield server
    finally:
        ended(process)


def _wait_for(server: S3Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        try:
            direct.open(server.endpoint, timeout=5)
        except urllib.error.HTTPError:
            return  # It answers: nobody may ask without a signature.
        except OSError:
            time.sleep(0.05)
        else:
            raise RuntimeError("The S3 server answers a request that nobody signed.")
    raise RuntimeError(f"The S3 server did not start; its log: {log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def reached_by(server: S3Server, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment for a process of its own that reaches the server."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("AWS_", "FSSPEC_"))}
    return {**kept, **server.environ}


def forget_connections() -> None:
    """Makes the next one be opened as the environment says then."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
