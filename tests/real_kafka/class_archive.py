"""An archive of Kafka's classes, so that a JVM maps them ready to use (the JDK's class data sharing, JEP 350).

In: a set of jars. Out: the JVM's options that use their archive. It is made once on a machine, by a rehearsal: a broker
starts, makes a topic, takes a record and stops. Whatever has these jars first on its class path can use it, and where a
Java cannot make one, everything runs without.
"""

import hashlib
import tempfile
from functools import cache, partial
from pathlib import Path

from confluent_kafka import Producer

from tests.java.libraries import classpath, kept, tool
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.settings import JVM, ONE_OF_EACH
from tests.real_kafka.topology import combined


@cache
def shared(version: str) -> tuple[str, ...]:
    """The JVM's options for the archive of this version's classes, which is made first where there is none."""
    home = Path(tool("java")).resolve().parents[1]
    release = home / "release"
    of = (str(home), release.read_text() if release.is_file() else "", classpath(version))
    digest = hashlib.sha256("\0".join(of).encode()).hexdigest()[:12]
    archive = kept(f"{version}-classes-{digest}.jsa", partial(_rehearse, version))
    if not archive.stat().st_size:
        return ()
    # A JVM says its warnings about an archive on standard output, which belongs to who asked.
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def _rehearse(version: str, archive: Path) -> None:
    """One broker's life, recorded; an empty file where this Java records nothing."""
    recording = (*JVM, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable")
    with tempfile.TemporaryDirectory(prefix="tidegauge-rehearsal-") as directory:
        alone = KafkaCluster(
            Path(directory), version=version, topology=combined(1), settings=ONE_OF_EACH, jvm=recording
        )
        with alone as cluster:
            cluster.create_topic("rehearsal", replication_factor=1)
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            producer.produce("rehearsal", b"a record")
            producer.flush()
            cluster.stop_all()
    archive.touch()
