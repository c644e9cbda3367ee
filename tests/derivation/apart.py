"""Copies of captures with their log directories laid out otherwise, as other settings of the brokers would.

In: an unpacked capture, read only. Out: a copy below a new directory. Kafka's own bytes stay as they are; only which
directory they lie in changes, and what meta.properties says.
"""

import os
import re
import shutil
from pathlib import Path

METADATA = "__cluster_metadata-0"
NODES = (1, 2, 3)


def whole_copy(capture: Path, target: Path) -> Path:
    """All log directories; files are links, which a test that writes to one must remove first."""
    for home in sorted(capture.glob("broker-*")):
        shutil.copytree(home, target / home.name, copy_function=os.link)
    return target


def say(directory: Path, **wanted: str) -> None:
    """Writes other values into a meta.properties: `node_id="7"` sets node.id."""
    path = directory / "meta.properties"
    text = path.read_text()
    for name, value in wanted.items():
        text, times = re.subn(rf"(?m)^{name.replace('_', '.')}=.*$", f"{name.replace('_', '.')}={value}", text)
        assert times == 1
    path.unlink()
    path.write_text(text)


def metadata_apart(directory: Path) -> None:
    """Each node keeps its metadata log in a metadata.log.dir, which gets a directory id that nobody registers."""
    for node in NODES:
        home = directory / f"broker-{node}"
        home.rename(directory / "moved")
        home.mkdir()
        (directory / "moved").rename(home / "data")
        (home / "meta").mkdir()
        (home / "data" / METADATA).rename(home / "meta" / METADATA)
        shutil.copy(home / "data" / "meta.properties", home / "meta" / "meta.properties")
        say(home / "meta", directory_id=f"meta{node}-{'x' * 16}")


def add_controller(directory: Path, *, node: int = 100) -> Path:
    """A node that has the metadata log and nothing else: a controller that is no broker, or an observer of it."""
    home = directory / f"broker-{node}"
    source = next(p for p in directory.glob(f"broker-1/**/{METADATA}"))
    shutil.copytree(source, home / METADATA)
    shutil.copy(source.parent / "meta.properties", home / "meta.properties")
    say(home, node_id=str(node), directory_id=f"ctrl{node}-{'x' * 14}")
    return home
