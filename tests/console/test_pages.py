"""Every page of the console over a real store, asked over HTTP: what it says, what it never says, what it refuses."""

import csv
import html
import io
import json
import re
from collections import deque
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from tests.console.hostile import CLUSTER, NAMES
from tidegauge import store
from tidegauge.addresses import Links
from tidegauge.console.app import create_app
from tidegauge.console.security import CSRF_COOKIE, DOCS_POLICY
from tidegauge.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.slow

LINKS = Links()
ORDERS = LINKS.partition("production", "orders", 0)
HOSTILE = LINKS.cluster(CLUSTER)


def page(console: httpx.Client, path: str, status: int = 200) -> str:
    answer = console.get(path)
    assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:500]}"
    return answer.text


def text_of(markup: str) -> str:
    """What a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def links_of(markup: str) -> set[str]:
    return {html.unescape(found) for found in re.findall(r'\b(?:href|src|action)="([^"]*)"', markup)}


# ----------------------------------------------------------------------------------------------------- what pages say


def test_the_fleet_has_every_cluster_its_freshness_and_its_breaches(console: httpx.Client) -> None:
    seen = text_of(page(console, "/"))
    for words in ("production", "payments", "6 critical", "Records at risk 1,200", "nothing left unread", CLUSTER):
        assert words in seen


def test_a_cluster_has_its_topics_losses_and_brokers(console: httpx.Client) -> None:
    seen = text_of(page(console, LINKS.cluster("production")))
    for words in (
        "orders-0 at risk [800, 1,500) 700",
        "payments 4 critical",
        "Unclean elections 3",
        "D06 NoCommittedTruncation",
    ):
        assert words in seen
    assert (
        "__transaction_state" not in text_of(page(console, LINKS.cluster("production", topic="or"))).split("Topics")[-1]
    )


def test_a_cluster_s_risks_are_told_apart_from_its_breaches(console: httpx.Client) -> None:
    seen = text_of(page(console, LINKS.cluster("production"))).split("Risks", 1)[1]
    assert "If this fails" in seen
    assert "nothing of it has happened" in seen
    figure = console.get(f"{LINKS.cluster('production')}/figures/risks.json").json()["rows"]
    assert {row["failures"] for row in figure} <= {"now", "single", "double"}
    assert [row["failures"] == "double" for row in figure] == sorted(row["failures"] == "double" for row in figure)


PAGES = (
    "/", LINKS.cluster("production"), LINKS.cluster("payments"), LINKS.topic("production", "orders"), ORDERS,
    "/invariants", "/invariants/D06", "/runs", "/breaches", "/acknowledgements",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_every_figure_can_be_downloaded(console: httpx.Client, path: str) -> None:
    """Whatever draws or lists numbers has both forms beside it, or the whole page has them at its head."""
    head, *sections = re.split(r"(?=<section)", page(console, path))
    for part in sections:
        if (
            any(mark in part for mark in ("data-chart=", "<table", 'class="band"', 'class="rows"'))
            and "judged" not in part
        ):
            both = [f"/figures/[a-z_]+\\.{form}" for form in ("csv", "json")]
            assert all(re.search(each, part) or re.search(each, head) for each in both), part[:300]


def test_a_partition_s_lineage_is_drawn(console: httpx.Client) -> None:
    markup = page(console, ORDERS)
    spans = re.findall(r'<rect class="mark span (epoch-\d)"[^>]* data-s="(\d+)" data-e="(\d+)"', markup)
    assert sorted(spans) == sorted([
        ("epoch-0", "0", "1500"), ("epoch-0", "0", "800"), ("epoch-1", "800", "1100"), ("epoch-0", "0", "800"),
        ("epoch-1", "800", "1100"),
    ])  # fmt: skip
    hatches = re.findall(r'<rect class="mark hatch ([a-z-]+)"[^>]* data-s="(\d+)" data-e="(\d+)"', markup)
    assert sorted(hatches) == [("at-risk", "800", "1500"), ("diverged", "800", "1500")]
    pins = re.findall(r'<svg class="mark pin ([a-z-]+)" data-at="(\d+)"', markup)
    assert ("high-watermark", "872") in pins
    assert {kind for kind, _ in pins} == {"log-start", "log-end", "high-watermark", "last-stable"}
    assert 'class="mark pin election unclean"' in markup


def test_an_earlier_run_s_partition_is_still_there(console: httpx.Client) -> None:
    runs = list(csv.DictReader(io.StringIO(page(console, "/runs/figures/runs.csv?cluster=production"))))
    earlier = runs[-1]["run_id"]
    seen = text_of(page(console, LINKS.partition("production", "__transaction_state", 0, run=earlier)))
    assert "not the latest" in seen
    page(console, LINKS.partition("production", "orders", 0, run="nope"), 404)


def test_hanging_transactions_lie_under_the_bands(console: httpx.Client) -> None:
    markup = page(console, LINKS.partition("payments", "raw", 0))
    assert 'class="mark transaction hanging"' in markup
    assert "ghost-tx" in markup


def test_a_breach_argues_and_ends_with_a_command(console: httpx.Client) -> None:
    found = console.get("/breaches/figures/breaches.json?cluster=production&code=D06").json()["rows"]
    row = next(r for r in found if r["subject"]["topic"] == "orders")
    markup = page(console, LINKS.breach("production", row["breach_id"]))
    seen = text_of(markup)
    for words in (
        "Broker 1 holds offsets 800..1499",
        "tidegauge salvage",
        "declared committed 700",
        "What follows from it",
        "D02",
    ):
        assert words in seen
    assert ORDERS in links_of(markup)


def test_invariants_have_their_verdicts_history_and_runbook(console: httpx.Client) -> None:
    assert "A13" in text_of(page(console, "/invariants"))
    seen = text_of(page(console, "/invariants/D06"))
    for words in ("production ✗ breached", "payments ✓ holds", "Runbook", "How a row is judged"):
        assert words in seen
    history = list(csv.DictReader(io.StringIO(page(console, "/invariants/D06/figures/history.csv"))))
    assert [row["verdict"] for row in history if row["cluster"] == "production"] == ["holds", "holds", "breached"]


def test_search_finds_parts_of_names_and_beginnings_of_ids(console: httpx.Client) -> None:
    assert ORDERS.rsplit("/partitions", 1)[0] in links_of(page(console, "/search?q=ord"))
    assert "/invariants/D06" in links_of(page(console, "/search?q=d06"))
    assert "/clusters/payments" in links_of(page(console, "/search?q=paym"))
    assert "/clusters/payments" in links_of(page(console, "/search?q=YMEN"))
    assert ORDERS.rsplit("/partitions", 1)[0] in links_of(page(console, "/search?q=rders"))
    listed = console.get("/incidents/figures/incidents.json").json()["rows"][0]
    assert LINKS.incident(listed["cluster"], listed["incident_id"]) in links_of(
        page(console, f"/search?q={listed['incident_id'][:16]}")
    )
    assert "Nothing is called" in text_of(page(console, "/search?q=%25_"))


def test_long_lists_go_on_where_they_stopped(console: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.console.web.PAGE_ROWS", 2)
    for start, row in (("/breaches", "breaches/"), (LINKS.cluster("production"), "/topics/"), ("/runs", "/runs/2")):
        seen: list[str] = []
        path: str | None = start
        while path:
            markup = page(console, path)
            seen += [
                link
                for link in sorted(links_of(markup))
                if row in link and "figures" not in link and "/partitions/" not in link
            ]
            more = re.search(r'rel="next" href="([^"]*)"', markup)
            path = html.unescape(more[1]) if more else None
        assert len(set(seen)) >= 4, start


def test_data_docs_are_served_by_cluster_and_date(
    console: httpx.Client, docs_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.console.docs._FRESH_S", 0.0)
    run = docs_root / "manual__1" / "c" / "s"
    (run / "data_docs").mkdir(parents=True)
    (run / "data_docs" / "index.html").write_text("<style>b{}</style>the run's own pages")
    about = {"run_id": "r", "cluster": "c<b>", "snapshot_id": "s", "finished_at": "2026-11-21T03:00:00Z"}
    (run / "report.json").write_text(json.dumps({"run": about}))
    link = LINKS.data_docs("c<b>", "2026-11-21", "r")
    assert link in links_of(page(console, "/data-docs"))
    answer = console.get(link)
    assert answer.text.endswith("the run's own pages")
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page(console, link.replace("index.html", "..~2freport.json"), 404)


# ------------------------------------------------------------------------------------------------- what pages never do


def crawl(console: httpx.Client, start: str, most: int) -> dict[str, httpx.Response]:
    """Every address that can be reached by following links, breadth first."""
    found: dict[str, httpx.Response] = {}
    waiting = deque([start])
    while waiting and len(found) < most:
        path = waiting.popleft()
        if path in found:
            continue
        answer = found[path] = console.get(path)
        if answer.headers["content-type"].startswith("text/html"):
            for link in sorted(links_of(answer.text)):
                joined = urlsplit(urljoin(path, link))
                assert joined.scheme in ("", "http"), f"{path} leads to {link}"
                assert not joined.netloc, f"{path} leads to {link}"
                waiting.append(joined.path + (f"?{joined.query}" if joined.query else ""))
    return found


@pytest.mark.parametrize("start", ["/", HOSTILE])
def test_every_page_that_can_be_reached_answers_and_is_safe(console: httpx.Client, start: str) -> None:
    found = crawl(console, start, 250)
    assert len(found) > 150
    for path, answer in found.items():
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        is_docs = path.startswith("/data-docs/") and "/figures/" not in path
        assert policy == DOCS_POLICY if is_docs else "unsafe" not in policy
        if answer.headers["content-type"].startswith("text/html") and policy != DOCS_POLICY:
            scripts = re.findall(r"<script\b([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
            assert all(not inside and 'src="/static/' in attributes for attributes, inside in scripts), path
            assert not re.search(r"<[^>]*\s(?:on\w+|style)\s*=", re.sub(r'"[^"]*"', '""', answer.text)), path
            assert "<img src=x" not in answer.text
            assert "49{%" not in answer.text, f"{path} was taken for a template"


def test_hostile_names_are_shown_as_they_are(console: httpx.Client) -> None:
    seen = page(console, HOSTILE)
    for name in NAMES:
        assert LINKS.topic(CLUSTER, name) in links_of(seen)
        markup = page(console, LINKS.partition(CLUSTER, name, 0))
        assert html.escape(name).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in markup
    rows = list(csv.DictReader(io.StringIO(page(console, f"{HOSTILE}/figures/topics.csv"))))
    assert {row["topic"] for row in rows} == {f"'{name}" if name.startswith("=") else name for name in NAMES}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/clusters/nope", 404),
        ("/clusters/~zz", 404),
        ("/clusters/a%00b", 404),
        ("/clusters/production/topics/nope", 404),
        ("/clusters/production/topics/orders/partitions/1x", 404),
        ("/clusters/production/topics/orders/partitions/-1", 404),
        ("/clusters/production/topics/orders/partitions/99999999999", 404),
        ("/clusters/production/topics/orders/partitions/4294967296", 404),
        ("/clusters/production/breaches/nope", 404),
        ("/invariants/Z99", 404),
        ("/runs/nope", 404),
        ("/breaches?severity=<script>", 400),
        ("/breaches?after=e30", 400),
        ("/breaches?cluster=%00", 400),
        ("/figures/nope.csv", 404),
        ("/figures/clusters.exe", 404),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
        ("/data-docs/c/2026-11-21/nope/..~2f..~2fetc~2fpasswd", 404),
        ("/nope", 404),
    ],
)
def test_what_is_not_there_is_said_on_a_page(console: httpx.Client, path: str, status: int) -> None:
    markup = page(console, path, status)
    assert "Traceback" not in markup
    assert 'href="/"' in markup or path.startswith("/static")


# --------------------------------------------------------------------------------------------------- acknowledgement


@pytest.fixture
def breach_page(console: httpx.Client) -> str:
    found = console.get("/breaches/figures/breaches.json?cluster=production&code=K07").json()["rows"]
    return LINKS.breach("production", found[0]["breach_id"])


def token(console: httpx.Client, path: str) -> str:
    found = re.search(r'name="form_token" value="([^"]*)"', page(console, path))
    assert found
    return found[1]


def test_a_breach_is_acknowledged_once_however_often_the_form_is_sent(console: httpx.Client, breach_page: str) -> None:
    form = {
        "form_token": token(console, breach_page),
        "who": "<b>ada</b>",
        "until": "2126-11-21T18:00",
        "note": '"><script>',
    }
    first = console.post(breach_page, data=form, headers={"Origin": str(console.base_url)})
    assert first.status_code == 303
    assert first.headers["location"] == f"{breach_page}?said=acknowledged#acknowledgement"
    assert console.post(breach_page, data=form).headers["location"].endswith("said=already#acknowledgement")
    seen = page(console, f"{breach_page}?said=already")
    assert "&lt;b&gt;ada&lt;/b&gt;" in seen
    assert "nothing has changed" in seen
    assert "until 2126-11-21 18:00 UTC" in text_of(seen)
    assert breach_page in links_of(page(console, "/breaches?state=acknowledged"))
    again = console.post(breach_page, data=form | {"action": "withdraw"})
    assert again.headers["location"].endswith("said=withdrawn#acknowledgement")
    assert breach_page not in links_of(page(console, "/breaches?state=acknowledged"))


def test_the_trail_says_who_said_what_of_a_breach_and_from_where(console: httpx.Client, breach_page: str) -> None:
    form = {"form_token": token(console, breach_page), "who": "<i>bo</i>", "until": "resolved", "note": "<u>mine</u>"}
    console.post(breach_page, data=form)
    console.post(breach_page, data=form | {"who": "cy", "action": "withdraw"})
    place = next(link for link in links_of(page(console, breach_page)) if link.startswith("/acknowledgements?"))
    markup = page(console, place)
    assert breach_page in links_of(markup)
    assert "&lt;i&gt;bo&lt;/i&gt;" in markup
    assert "&lt;u&gt;mine&lt;/u&gt;" in markup
    seen = text_of(markup)
    assert seen.index("cy unverified 127.0.0.1") < seen.index("<i>bo</i> unverified 127.0.0.1"), "the latest first"
    rows = console.get("/acknowledgements/figures/acknowledgements.json?cluster=production").json()["rows"]
    assert [(row["action"], row["said_by"]) for row in rows[:2]] == [("withdrawn", "cy"), ("acknowledged", "<i>bo</i>")]
    of_another = page(console, "/acknowledgements?cluster=payments&breach=nope")
    assert "Nobody has said anything of this breach" in of_another
    page(console, "/acknowledgements?after=nonsense", 400)


def test_a_long_trail_goes_on_below(filled_store: str, console: httpx.Client) -> None:
    from tests.store.helpers import audit, breach

    audit(filled_store, "talked-about", "s1", breach("b1"))
    for number in range(60):
        store.acknowledge(filled_store, "talked-about", "b1", by=f"number {number}", until=None)
    first = page(console, "/acknowledgements?cluster=talked-about")
    (more,) = (link for link in links_of(first) if "after=" in link and "/figures/" not in link)
    found = [re.findall(r"<bdi>number (\d+)</bdi>", markup) for markup in (first, page(console, more))]
    assert [int(number) for numbers in found for number in numbers] == list(range(59, -1, -1))


@pytest.mark.parametrize(
    ("form", "headers", "status"),
    [
        ({"form_token": "x" * 43}, {}, 403),
        ({"form_token": ""}, {}, 403),
        ({}, {"Origin": "https://evil.example"}, 403),
        ({}, {"Sec-Fetch-Site": "cross-site"}, 403),
        ({"who": "   "}, {}, 400),
        ({"who": "a" * 300}, {}, 400),
        ({"until": "2020-01-01T00:00"}, {}, 400),
        ({"until": "yesterday"}, {}, 400),
        ({"note": "n" * 20_000}, {}, 413),
    ],
)  # fmt: skip
def test_a_form_from_elsewhere_or_without_sense_changes_nothing(
    console: httpx.Client, breach_page: str, form: dict[str, str], headers: dict[str, str], status: int
) -> None:
    sent = {"form_token": token(console, breach_page), "who": "ada", "until": "1 day"} | form
    assert console.post(breach_page, data=sent, headers=headers).status_code == status
    assert "Nobody has acknowledged it" in page(console, breach_page)


def test_a_browser_without_the_cookie_cannot_send_a_form(console: httpx.Client, breach_page: str) -> None:
    known = token(console, breach_page)
    with httpx.Client(base_url=console.base_url, trust_env=False) as stranger:
        assert stranger.post(breach_page, data={"form_token": known, "who": "ada"}).status_code == 403
    cookie = httpx.get(f"{console.base_url}/", trust_env=False).headers["set-cookie"]
    assert cookie.startswith(f"{CSRF_COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


# ---------------------------------------------------------------------------------------------------- for machines


def test_metrics_speak_kafka_s_words(console: httpx.Client) -> None:
    families = {f.name: f for f in text_string_to_metric_families(page(console, "/metrics"))}
    values = {(s.name, *sorted(s.labels.items())): s.value for f in families.values() for s in f.samples}
    production = ("cluster", "production")
    assert values["tidegauge_open_breaches", production, ("severity", "critical")] == 6
    assert values["tidegauge_records_at_risk", production] == 1200
    assert values["tidegauge_unclean_leader_elections", production] == 3
    orders = (production, ("partition", "0"), ("topic", "orders"))
    for name, value in (
        ("log_end_offset", 1100),
        ("high_watermark_lower", 1100),
        ("last_stable_offset", 1100),
        ("leader_epoch", 1),
    ):
        assert values[f"tidegauge_partition_{name}", *orders] == value
    assert families["tidegauge_under_min_isr_partitions"].documentation


def test_metrics_count_incidents_as_the_list_does(console: httpx.Client) -> None:
    families = {f.name: f for f in text_string_to_metric_families(page(console, "/metrics"))}
    told = {
        tuple(s.labels[n] for n in ("cluster", "severity", "state")): s.value
        for s in families["tidegauge_incidents"].samples
    }
    clusters = {cluster for cluster, _, _ in told}
    assert len(told) == 6 * len(clusters), "one that is over is a zero, not a series that ends"
    assert told["production", "critical", "open"] == 1
    assert "1 incident" in text_of(page(console, "/clusters/production"))


def test_metrics_count_risks_by_what_has_to_fail_and_what_it_costs(console: httpx.Client) -> None:
    families = {f.name: f for f in text_string_to_metric_families(page(console, "/metrics"))}
    risks = {(s.labels["cluster"], s.labels["failures"]): s.value for s in families["tidegauge_risks"].samples}
    assert {kind: risks["production", kind] for kind in ("now", "single", "double")} == {
        "now": 0, "single": 4, "double": 4,
    }  # fmt: skip
    assert risks["payments", "double"] == 15
    topics = {
        (s.labels["failures"], s.labels["cost"]): s.value
        for s in families["tidegauge_topics_at_risk"].samples
        if s.labels["cluster"] == "production"
    }
    assert {of: count for of, count in topics.items() if count} == {
        ("single", "refusing"): 2, ("double", "losing"): 4, ("double", "unavailable"): 4,
    }  # fmt: skip
    assert len(topics) == 12, "what costs nothing is told as nothing"


def test_metrics_tell_no_risk_of_a_cluster_that_could_not_be_judged(console: httpx.Client) -> None:
    families = {f.name: f for f in text_string_to_metric_families(page(console, "/metrics"))}
    all_clusters, judged = (
        {s.labels["cluster"] for s in families[name].samples} for name in ("tidegauge_partitions", "tidegauge_risks")
    )
    assert judged == {"production", "payments"} < all_clusters


def test_probes(console: httpx.Client) -> None:
    assert console.get("/healthz").json()["status"] == "ok"
    assert console.get("/readyz").json() == {"status": "ready"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "UPDATE tidegauge.alembic_version SET version_num = 'r0020'; DELETE FROM tidegauge.readable_by",
            "its tables are of r0020",
        ),
        ("UPDATE tidegauge.view_version SET digest = 'of an older version'", "other views"),
        (
            "UPDATE tidegauge.alembic_version SET version_num = 'r9999'; DELETE FROM tidegauge.readable_by",
            "Another version of Tidegauge made",
        ),
        ("DROP SCHEMA tidegauge CASCADE", "no schema that says its version"),
    ],
)
def test_it_is_not_ready_before_the_store_has_its_schema(
    postgres_server: EmbeddedPostgres, worker_id: str, change: str, told: str
) -> None:
    url = postgres_server.fresh_database(f"not_ready_{worker_id}")
    store.migrate(url)
    with TestClient(create_app(url)) as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        with store.connect(url, "be changed") as connection, connection.cursor() as cursor:
            cursor.execute(change)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
        assert told in answer.json()["reason"]
        what_to_do = "new database" if "version_num" in change else "tidegauge store migrate"
        assert what_to_do in answer.json()["reason"]


def test_a_store_that_is_away_is_said_and_its_password_is_not() -> None:
    from tidegauge.console import server

    url = "postgresql+psycopg2://someone:s3cret@127.0.0.1:1/nowhere"
    with (
        server.running(url, host="127.0.0.1", port=0, docs=[]) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        assert client.get("/healthz").status_code == 200
        for path in ("/", "/readyz", "/metrics"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert "s3cret" not in answer.text
            assert "127.0.0.1:1" in answer.text


def test_a_new_run_is_seen_at_once(console: httpx.Client, filled_store: str) -> None:
    from tests.store.helpers import audit, breach

    page(console, "/clusters/young", 404)
    audit(filled_store, "young", "s1", breach("b1"))
    assert "1 critical" in text_of(page(console, "/clusters/young"))
    audit(filled_store, "young", "s2", day=1)
    assert "none open" in text_of(page(console, "/clusters/young"))
    assert "/clusters/young/breaches/b1" in links_of(page(console, "/breaches?state=resolved&cluster=young"))
    assert store.acknowledge(filled_store, "young", "b1", by="ada", until=None).outcome == "resolved"
