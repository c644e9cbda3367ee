"""Makes golden captures: one real cluster, lived in for a minute or a few, copied on the way, packed.

    python -m tests.real_kafka.make_golden kafka-4.1 tests/golden

In: a life's name. Out: its archives (`archives.py` says what they hold). A life is one of `LIVES`, or the name of a
version (a pom below `tests/java/`), whose cluster is of three combined nodes and is stopped cleanly.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.lives import (
    controllers,
    deaf,
    everyday,
    forgotten,
    jbod,
    migration,
    mirror,
    old_formats,
    one_controller,
    plain,
    racks,
    shares,
    streams,
)
from tests.real_kafka.lives.life import Life

LIVES: Final[Mapping[str, Life]] = {
    "controllers": controllers.LIFE,
    "one-controller": one_controller.LIFE,
    "forgotten": forgotten.LIFE,
    "racks": racks.LIFE,
    "failed-disk": jbod.LIFE,
    "deaf-unclean": deaf.LIFE,
    "streams": streams.LIFE,
    "mirror": mirror.LIFE,
    "shares": shares.LIFE,
    "format-1": old_formats.LIFE,
    "zookeeper": migration.LIFE,
    "zookeeper-unclean": migration.UNCLEAN,
}


def make(name: str, target: Path) -> list[str]:
    """Runs the cluster; returns the names of the archives that it left in the target."""
    life = LIVES[name] if name in LIVES else plain.life(name)
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-life-") as directory,
        KafkaCluster(
            Path(directory),
            version=life.version,
            topology=life.topology,
            static_quorum=life.static_quorum,
            settings={**everyday.SETTINGS, **life.settings},
        ) as cluster,
    ):
        archives = Archives(target=target, cluster=cluster, ledger=Ledger())
        life.live(archives)
    return archives.names


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in make(sys.argv[1], Path(sys.argv[2]))))
