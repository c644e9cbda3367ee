"""The console in a real browser: what scripts do, what a keyboard reaches, what fits a phone, what is legible."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.console.hostile import CLUSTER, NAMES
from tidegauge.addresses import Links

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.slow

LINKS = Links()
ORDERS = LINKS.partition("production", "orders", 0)
PAGES = (
    "/",
    "/acknowledgements",
    LINKS.cluster("production"),
    LINKS.topic("production", "orders"),
    ORDERS,
    "/breaches",
    "/invariants/D06",
    "/runs",
)

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.fixture
def context(browser: "Browser", address: str) -> Iterator["BrowserContext"]:
    """A context whose pages may complain of nothing and load nothing from elsewhere."""
    wrong: list[str] = []
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})

    def watch(page: "Page") -> None:
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: None if r.url.startswith(address) else wrong.append(f"loads {r.url}"))

    context.on("page", watch)
    yield context
    context.close()
    assert wrong == []


def place(page: "Page", selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box
    return round(box["x"], 1), round(box["width"], 1)


def test_the_lineage_zooms_by_button_and_by_keyboard(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto(ORDERS)
    span = '.band rect.span[data-s="800"]'
    whole = place(page, span)
    page.get_by_role("button", name="Zoom in").click()
    assert place(page, span)[1] == pytest.approx(2 * whole[1], rel=0.02)
    plot = page.locator(".plot")
    plot.focus()
    page.keyboard.press("0")
    assert place(page, span) == whole
    page.keyboard.press("+")
    page.keyboard.press("+")
    before = place(page, span)[0]
    page.keyboard.press("ArrowRight")
    assert place(page, span)[0] < before
    page.get_by_role("button", name="Divergence").click()
    assert page.locator(".range").inner_text() == "offsets [660, 1,500)"
    page.get_by_role("button", name="Whole log").click()
    assert page.locator(".range").inner_text() == "offsets [0, 1,500)"


def test_a_mark_says_what_it_is_when_pointed_at_or_focused(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto(ORDERS)
    tip = page.get_by_role("tooltip")
    page.locator(".hatch.diverged[data-s]").hover(position={"x": 5, "y": 5})
    assert "Kafka will truncate offsets [800, 1,500)" in tip.inner_text()
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    page.locator(".plot").focus()
    page.keyboard.press("Tab")
    assert "Leader epoch 0 on broker 2" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator(".election.unclean[data-tip]").hover()
    assert "Unclean election" in tip.inner_text()


def test_the_search_suggests_names_as_one_types(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto("/")
    box = page.locator("#search")
    box.fill("rder")
    page.wait_for_selector('#suggested option[value="orders"]', state="attached")
    box.fill("paym")
    page.wait_for_selector('#suggested option[value="payments"]', state="attached")
    assert page.locator('#suggested option[value="orders"]').count() == 0
    box.fill("")
    page.wait_for_selector("#suggested option", state="detached")


def test_charts_are_drawn_and_read(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto(LINKS.cluster("production"))
    chart = page.locator("[data-chart]").first
    assert chart.locator("canvas").count() == 1
    assert "critical 6" in (chart.get_attribute("aria-label") or "")
    assert "6" in chart.locator(".u-legend").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_legible(browser: "Browser", address: str, scheme: Any) -> None:
    context = browser.new_context(base_url=address, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    for path in PAGES:
        page.goto(path)
        assert page.evaluate(CONTRAST) == [], path
    context.close()


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_a_phone(browser: "Browser", address: str, width: int) -> None:
    context = browser.new_context(base_url=address, viewport={"width": width, "height": 740})
    page = context.new_page()
    for path in (*PAGES, LINKS.cluster(CLUSTER), LINKS.partition(CLUSTER, NAMES[-1], 0)):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()


def test_a_keyboard_reaches_everything_and_shows_where_it_is(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="orders", exact=True).first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{LINKS.topic('production', 'orders')}")
    page.keyboard.press("Tab")
    ring = page.evaluate(
        "(() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]; })()"
    )
    assert ring[0] == "solid"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
        ".filter((e) => !e.labels.length).length"
    )
    assert unnamed == 0


def test_a_breach_is_acknowledged_in_the_browser(context: "BrowserContext", console: httpx.Client) -> None:
    found = console.get("/breaches/figures/breaches.json?cluster=payments&state=open").json()["rows"]
    rows = found or console.get("/breaches/figures/breaches.json?cluster=production&code=D06").json()["rows"]
    page = context.new_page()
    page.goto(LINKS.breach(rows[0]["cluster"], rows[0]["breach_id"]))
    page.get_by_label("Who").fill("Ada <script>")
    page.get_by_label("Note").fill("looking at it")
    page.get_by_role("button", name="Acknowledge").click()
    assert page.get_by_role("status").inner_text() == "Acknowledged."
    assert "Ada <script> unverified takes care of it until" in page.locator("main").inner_text()
    page.get_by_role("button", name="Withdraw").click()
    assert "withdrawn" in page.get_by_role("status").inner_text()


def test_hostile_names_run_nothing(context: "BrowserContext") -> None:
    page = context.new_page()
    for path in ("/", LINKS.cluster(CLUSTER), *(LINKS.partition(CLUSTER, name, 0) for name in NAMES[:8])):
        page.goto(path)
        assert page.evaluate("window.pwned") is None, path
        page.locator("[data-tip]").first.hover() if page.locator("[data-tip]").count() else None
    assert page.evaluate("window.pwned") is None


def test_figures_are_downloaded(context: "BrowserContext") -> None:
    page = context.new_page()
    page.goto(ORDERS)
    with page.expect_download() as download:
        page.locator("section", has=page.get_by_role("heading", name="Lineage")).get_by_role(
            "link", name="CSV"
        ).first.click()
    assert download.value.suggested_filename == "lineage.csv"
    assert "leader_epoch" in download.value.path().read_text()


def test_it_can_be_read_without_scripts(browser: "Browser", address: str) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    page = context.new_page()
    page.goto(ORDERS)
    assert page.locator(".lineage .band rect.span").count() == 5
    assert page.locator(".controls").is_hidden()
    assert place(page, '.band rect.span[data-s="800"]')[1] > 50
    context.close()
