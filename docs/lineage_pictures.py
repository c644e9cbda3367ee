"""The lineages that the concepts' pages show, drawn by the console: golden captures in, `docs/pictures/*.svg` out.

Each is the drawing of one partition's page, taken out of a real browser shape by shape (`lineage_to_svg.js`). Nothing
in them is made up; a change of the console's drawing changes them with the next run.

    PYTHONPATH=. python docs/lineage_pictures.py
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.browser import chromium
from tests.console.filling import publish_capture
from tidegauge import store
from tidegauge.console import server
from tidegauge.embedded import postgres
from tidegauge.embedded.archive import unpack

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
TO_SVG: Final = Path(__file__).with_name("lineage_to_svg.js")
CAPTURED_AT: Final = datetime(2026, 11, 21, tzinfo=UTC)
WIDTH: Final = 820

LINEAGES: Final = {
    "watermarks": ("hanging-txn", "pay", 0),
    "leader-epochs": ("racks-unclean", "orders", 0),
    "eligible-leaders": ("epochs", "busy", 1),
    "fuzzy-copy": ("soak-01", "plain", 1),
    "root": ("unclean-before", "orders", 0),
    "no-metadata-log": ("zookeeper-unclean", "orders", 0),
}
"""Picture -> capture of tests/golden, topic and partition."""


def main() -> int:
    """Writes every picture, and says how large it is."""
    draw(PICTURES)
    for path in sorted(PICTURES.glob("lineage-*.svg")):
        print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")
    return 0


def draw(folder: Path) -> None:
    """Publishes the captures, and takes each partition's drawing into a folder."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-lineages-") as directory:
        scratch = Path(directory)
        with postgres.running(scratch / "postgres", remove=True) as embedded:
            url = embedded.fresh_database("lineages")
            store.migrate(url)
            for capture in sorted({capture for capture, _, _ in LINEAGES.values()}):
                unpacked = unpack(ROOT / "tests" / "golden" / f"{capture}.tar.gz", scratch / capture)
                publish_capture(url, unpacked, cluster=capture, snapshot_id="copy", captured_at=CAPTURED_AT)
            with server.running(url, host="127.0.0.1", port=0, docs=[]) as address:
                _take(address, folder)


def _take(address: str, folder: Path) -> None:
    to_svg = TO_SVG.read_text(encoding="utf-8").split("\n(lineage)", 1)[1]
    with chromium() as browser:
        context = browser.new_context(
            base_url=address, viewport={"width": WIDTH, "height": 760}, color_scheme="light", reduced_motion="reduce"
        )
        page = context.new_page()
        for name, (capture, topic, partition) in LINEAGES.items():
            page.goto(f"/clusters/{capture}/topics/{topic}/partitions/{partition}")
            svg = page.locator(".lineage").evaluate(f"(lineage){to_svg}")
            (folder / f"lineage-{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
