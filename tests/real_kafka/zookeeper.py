"""A ZooKeeper for the test brokers of Kafka 3.9, the last that can do without a quorum of their own.

In: a directory, a class path that has ZooKeeper in it. Out: one that runs, of a single node, and its address. It is
stopped with the cluster that it was started for.
"""

import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.real_kafka import processes
from tests.real_kafka.patience import wait_until


class ZooKeeper:
    """Use `start` and `close`; what it keeps is below its directory, and no node's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = processes.free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What brokers have as `zookeeper.connect`."""
        return f"127.0.0.1:{self._port}"

    def start(self, java: list[str], log: Path) -> None:
        """Starts it and waits until it listens."""
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "zoo.cfg"
        config.write_text(
            f"dataDir={self._directory / 'data'}\nclientPort={self._port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=1000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        )
        command = [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        with log.open("ab") as output:
            self._process = processes.start(command, output=output)
        wait_until(self._listens, what="ZooKeeper to listen")

    def close(self) -> None:
        """Kills it, if it runs."""
        if self._process is not None:
            processes.kill(self._process)

    def _listens(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("ZooKeeper died while it started")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False
