"""The pictures of README, taken in a real browser.

In: golden captures, audited into an embedded Postgres: a fortnight of three clusters, the last run of one by a whole
audit with its data docs. Out: `docs/pictures/*.png`. Nothing in them is made up: each is a page as the console serves
it.

    PYTHONPATH=. python docs/pictures.py
"""

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.browser import chromium
from tests.console.filling import publish_capture
from tidegauge import store
from tidegauge.audit import steps as audit
from tidegauge.audit.request import AuditRequest
from tidegauge.console import server
from tidegauge.embedded import postgres
from tidegauge.embedded.archive import unpack
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
DAY = datetime(2026, 11, 8, 3, 0, tzinfo=UTC)
STORY = {
    "production": ["healthy"] * 12,
    "payments-eu": ["epochs"] * 5 + ["unclean-before"] * 2 + ["epochs"] * 5 + ["hanging-txn"],
    "staging": ["tiered"] * 6 + ["soak-01"] * 7,
}
LINEAGE = "/clusters/production/topics/orders/partitions/0"
CLUSTER = "/clusters/production"
MARGIN = 20
LARGEST_BYTES = 200_000


def fill(url: str, scratch: Path) -> None:
    """A fortnight of audits; the last of `production` is a whole one, with its report and data docs."""
    store.migrate(url)
    for cluster, captures in STORY.items():
        for number, name in enumerate(captures):
            captured_at = DAY + timedelta(days=number)
            directory = unpack(ROOT / "tests" / "golden" / f"{name}.tar.gz", scratch / "golden" / name)
            snapshot_id = f"{captured_at:%Y-%m-%d}"
            publish_capture(url, directory, cluster=cluster, snapshot_id=snapshot_id, captured_at=captured_at)
    incident = unpack(ROOT / "tests" / "golden" / "unclean-before.tar.gz", scratch / "incident")
    adopt(incident, cluster="production", consistency=Consistency.FUZZY, snapshot_id="2026-11-21")
    asked = AuditRequest(snapshots=(str(incident),), out=scratch / "runs" / "incident", fail_on="never", store=url)
    audit.audit(asked, master=None, progress=print)


def main() -> int:
    """Fills, serves, takes the pictures; 1 if one is too large for a README."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegauge-pictures-") as directory:
        scratch = Path(directory)
        with postgres.running(scratch / "postgres", remove=True) as embedded:
            url = embedded.fresh_database("pictures")
            fill(url, scratch)
            with server.running(url, host="127.0.0.1", port=0, docs=[scratch / "runs"]) as address:
                take(address)
    sizes = {path.name: path.stat().st_size for path in sorted(PICTURES.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{name}  {size / 1000:.0f} kB")
    return int(max(sizes.values()) > LARGEST_BYTES)


def around(page: Any, selector: str) -> Any:
    """A part of a page, and a little of what is around it."""
    box = page.locator(selector).bounding_box()
    size = {"width": box["width"] + 2 * MARGIN, "height": box["height"] + 2 * MARGIN}
    return {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN, **size}


def take(address: str) -> None:
    """Every picture."""
    with chromium() as browser:
        light = browser.new_context(base_url=address, viewport={"width": 1200, "height": 760}, color_scheme="light")
        page = light.new_page()
        page.goto("/")
        page.screenshot(path=PICTURES / "console.png")
        page.goto(LINEAGE)
        page.get_by_role("tooltip").wait_for(state="hidden")
        page.locator(".hatch.diverged[data-s]").hover(position={"x": 40, "y": 5})
        page.screenshot(path=PICTURES / "lineage.png")
        page.goto(CLUSTER)
        page.screenshot(
            path=PICTURES / "risks.png", full_page=True, clip=around(page, "section[aria-labelledby=risks]")
        )
        page.goto("/data-docs")
        page.locator("main li a").first.click()
        page.locator("h1").wait_for()
        page.screenshot(path=PICTURES / "data-docs.png")
        dark = browser.new_context(base_url=address, viewport={"width": 390, "height": 760}, color_scheme="dark")
        page = dark.new_page()
        page.goto(LINEAGE)
        page.locator("#lineage").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('#lineage').scrollIntoView()")
        page.screenshot(path=PICTURES / "lineage-phone-dark.png")


if __name__ == "__main__":
    sys.exit(main())
