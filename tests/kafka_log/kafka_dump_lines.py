"""What Kafka's own dump tool printed about producer snapshots and transaction indexes, line by line.

In: `dump-log/snapshots_txnindexes.txt.gz` of a capture. Out: per file of one kind, the lines about its entries.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path


def dumped_lines(capture: Path, suffix: str) -> Iterator[tuple[Path, list[str]]]:
    """Every dumped file whose name ends so, with what was printed about it."""
    path, lines = None, list[str]()
    with gzip.open(capture / "dump-log" / "snapshots_txnindexes.txt.gz", "rt", encoding="utf-8") as text:
        for line in text:
            if not line.startswith("Dumping "):
                lines.append(line.strip())
                continue
            if path is not None:
                yield path, lines
            name = line.removeprefix("Dumping ").strip()
            path, lines = capture / name if name.endswith(suffix) else None, []
    if path is not None:
        yield path, lines
