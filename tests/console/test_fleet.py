"""A fleet of many clusters: a dense table, the worst by records first, sorted and filtered in the browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.store.helpers import LOSS, audit, breach
from tidegauge import store
from tidegauge.console import server
from tidegauge.embedded.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
SOUND = [f"sound-{number:02}" for number in range(12)]
CLUSTERS = {*SOUND, "loses", "warned", "pages"}


@pytest.fixture(scope="module")
def address(postgres_server: EmbeddedPostgres, worker_id: str) -> Iterator[str]:
    """One cluster has records at risk, one two critical breaches without, one a warning."""
    url = postgres_server.fresh_database(f"fleet_{worker_id}")
    store.migrate(url)
    for name in SOUND:
        audit(url, name, "s1")
    audit(url, "loses", "s1", breach("b1"), losses=[LOSS])
    audit(url, "pages", "s1", breach("b1", records=None), breach("b2", records=None), unknown={"D02": 3})
    audit(url, "warned", "s1", breach("b1", severity="warning", records=None))
    with server.running(url, host="127.0.0.1", port=0, docs=[]) as where:
        yield where


@pytest.fixture(scope="module")
def console(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


def names(markup: str) -> list[str]:
    """The clusters of the table, as they come."""
    table = markup[markup.index('<table id="fleet"') :]
    return re.findall(r'data-label="Cluster"><a [^>]*><bdi>([^<]+)</bdi>', table[: table.index("</table>")])


def test_many_clusters_are_lines_of_a_table_the_worst_by_records_first(console: httpx.Client) -> None:
    markup = console.get("/").text
    assert names(markup) == ["loses", "pages", "warned", *SOUND]
    assert "data-chart" not in markup, "500 charts are no overview"
    assert re.search(r'data-label="At risk" data-value="700"', markup)
    rows = console.get("/figures/trend.json").json()["rows"]
    assert {row["cluster"] for row in rows} == CLUSTERS


def test_a_picture_that_is_old_is_coloured(console: httpx.Client) -> None:
    cells = re.findall(r'data-label="Captured" data-value="[^"]+"><span class="([^"]*)">', console.get("/").text)
    assert len(cells) == len(CLUSTERS)
    assert set(cells) <= {"warn", "bad-text", ""}


def test_invariants_tell_how_many_clusters_and_can_be_narrowed(console: httpx.Client) -> None:
    everything = console.get("/invariants").text
    assert 'title="loses, pages, warned">3 clusters</span>' in everything
    assert "12 clusters" in everything
    breached = console.get("/invariants", params={"only": "breached"}).text
    assert ">D06<" in breached
    assert ">D02<" not in breached
    unknown = console.get("/invariants", params={"only": "unknown"}).text
    assert ">D02<" in unknown
    assert ">D06<" not in unknown
    assert console.get("/invariants", params={"only": "x"}).status_code == 400
    rows = console.get("/invariants/figures/invariants.json").json()["rows"]
    assert len(rows) == 2 * len(CLUSTERS)


def test_an_invariant_has_charts_of_the_worst_and_a_download_of_all(console: httpx.Client) -> None:
    markup = console.get("/invariants/D06").text
    assert markup.count("data-chart") == 12
    assert markup.index("<bdi>loses</bdi>") < markup.index("<bdi>sound-00</bdi>")
    rows = console.get("/invariants/D06/figures/history.json").json()["rows"]
    assert {row["cluster"] for row in rows} == CLUSTERS


@pytest.fixture
def page(browser: "Browser", address: str) -> Iterator["Page"]:
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    shown = context.new_page()
    wrong: list[str] = []
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    shown.goto("/")
    yield shown
    context.close()
    assert wrong == []


def shown(page: "Page") -> list[str]:
    return page.locator("#fleet tbody tr:visible th").all_inner_texts()


@pytest.mark.slow
def test_what_is_typed_leaves_the_clusters_that_hold_it(page: "Page") -> None:
    page.get_by_label("Only clusters with").fill("D-0")
    assert shown(page) == SOUND[:10]
    assert page.get_by_role("status").inner_text() == "10 of 15 clusters"
    page.get_by_label("Only clusters with").fill("")
    assert len(shown(page)) == len(CLUSTERS)


@pytest.mark.slow
def test_a_click_on_a_head_sorts_and_another_one_the_other_way(page: "Page") -> None:
    page.get_by_role("button", name="Critical").click()
    assert shown(page)[:2] == ["pages", "loses"]
    head = page.locator("#fleet th", has_text="Critical").first
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Critical").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown(page)[-1] == "pages"
    page.get_by_role("button", name="Cluster").click()
    assert shown(page) == sorted(CLUSTERS)
    assert head.get_attribute("aria-sort") is None


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_it_is_legible_and_fits(browser: "Browser", address: str, scheme: str, width: int) -> None:
    context = browser.new_context(base_url=address, color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    page = context.new_page()
    for path in ("/", "/invariants", "/invariants/D06"):
        page.goto(path)
        assert page.evaluate(CONTRAST) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()
