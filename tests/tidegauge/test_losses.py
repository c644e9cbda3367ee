"""Losses over days, on real clusters' files: told the same everywhere, until somebody decides, and then quiet."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.console.filling import publish_capture
from tests.store.helpers import rows
from tests.tidegauge.alerts.receivers import Web, web
from tests.tidegauge.alerts.test_send import hook, words
from tidegauge.alerts.send import send
from tidegauge.cli.main import main
from tidegauge.console import server
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.scenario import Moment
from tidegauge.sim_engine.scenarios.stage import A, B, killed, started
from tidegauge.sim_engine.scenarios.write_moment import write_moment

BEFORE = datetime(2026, 11, 20, 6, tzinfo=UTC)
SERIES = ("one-controller", "one-controller-unclean", "one-controller-rejoined", "one-controller-rejoined")
"""A sound day; broker 1 died alone; it has come back and cut its log; and a day on which nothing is left to see."""

Golden = Callable[[str], Path]


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


@pytest.fixture(scope="module")
def aged(url: str, golden: Golden) -> dict[int, str]:
    """What the terminal says of the ledger after the audit of each day."""
    said = {}
    for day, name in enumerate(SERIES):
        at = BEFORE + timedelta(days=day)
        publish_capture(url, golden(name), cluster="payments", snapshot_id=f"day-{day}", captured_at=at)
        result = losses(url)
        said[day] = f"exit {result.exit_code}: {result.output}"
    return said


def losses(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["losses", *arguments, "--store", url])


@pytest.fixture(scope="module")
def console(url: str) -> Iterator[httpx.Client]:
    with (
        server.running(url, host="127.0.0.1", port=0, docs=[]) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


@pytest.fixture
def receiver() -> Iterator[Web]:
    with web() as told_here:
        yield told_here


def alerted(receiver: Web, url: str) -> str:
    """What the channel hears of losses and of D06 now."""
    receiver.posted.clear()
    send(hook(receiver, "payments"), url, say=lambda _: None, now=BEFORE + timedelta(days=4))
    return words(receiver)


def gauge(console: httpx.Client, name: str) -> float:
    (line,) = re.findall(rf'^tidegauge_{name}{{cluster="payments"}} (.*)$', console.get("/metrics").text, re.MULTILINE)
    return float(line)


def text(console: httpx.Client, path: str) -> str:
    answer = console.get(path)
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def posted(console: httpx.Client, path: str, **form: str) -> httpx.Response:
    found = re.search(r'name="form_token" value="([^"]*)"', console.get(path).text)
    assert found is not None
    return console.post(
        path, data={"form_token": found[1], **form}, headers={"Origin": str(console.base_url).rstrip("/")}
    )


def told(url: str, *arguments: str) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(losses(url, "list", "--json", *arguments).stdout)
    return found


def test_what_was_at_risk_is_lost_and_stays_lost_when_nothing_is_left_to_see(url: str, aged: dict[int, str]) -> None:
    assert aged[0].startswith("exit 0: No loss waits for a decision.")
    assert aged[1].startswith("exit 1: payments: 124 records at risk since 21 Nov 2026, nobody has decided.")
    assert "[120, 200)  80 records, at risk, held by broker 1, last told 2026-11-21" in aged[1]
    for day in (2, 3):
        assert aged[day].startswith("exit 1: payments: 124 records lost since 22 Nov 2026, nobody has decided.")
        assert "[54, 100)  44 records, lost, on no disk, last told 2026-11-21" in aged[day]
    open_ones = "SELECT count(*) FROM tidegauge.v_breach WHERE code IN ('D06', 'C10') AND state <> 'resolved'"
    assert rows(url, open_ones) == [(0,)], "what an audit can see of it is over"
    latest = "SELECT DISTINCT topic FROM tidegauge.v_loss"
    assert rows(url, latest) == [("orders",)], "of which a group had read more than there is now"


def test_the_breach_of_what_was_lost_is_known_to_be_a_loss(url: str, aged: dict[int, str]) -> None:
    lost = rows(
        url,
        "SELECT b.code, b.state, x.records_lost::integer, x.undecided FROM tidegauge.v_breach b "
        "JOIN tidegauge.v_breach_loss x USING (cluster, breach_id) WHERE b.code = 'D06' ORDER BY 3",
    )
    assert lost == [("D06", "resolved", 44, True), ("D06", "resolved", 80, True)]


def test_everybody_tells_the_same_number(url: str, aged: dict[int, str], console: httpx.Client, receiver: Web) -> None:
    words_of_all = "124 records lost since 22 Nov 2026, nobody has decided"
    assert words_of_all in text(console, "/")
    assert words_of_all in text(console, "/clusters/payments")
    assert words_of_all in text(console, "/clusters/payments/losses")
    assert gauge(console, "records_lost_undecided") == 124
    assert gauge(console, "losses_undecided") == 2
    assert gauge(console, "oldest_undecided_loss_timestamp_seconds") == (BEFORE + timedelta(days=1)).timestamp()
    said = alerted(receiver, url)
    assert "2: orders-0, payments-0, 124 records lost; group billing had read" in said
    assert "Losses that wait for a decision: 2." in said
    assert "Next: tidegauge plan incident-" in said
    assert alerted(receiver, url) == "", "once"


def test_a_breach_whose_records_were_lost_is_not_shown_as_resolved(
    url: str, aged: dict[int, str], console: httpx.Client
) -> None:
    ((breach, loss),) = rows(
        url,
        "SELECT breach_id, loss_id FROM tidegauge.v_breach_loss "
        "WHERE starts_with(breach_id, 'D06') AND topic = 'orders'",
    )
    page = console.get(f"/clusters/payments/breaches/{breach}").text
    head = page[page.index("<h1>") : page.index("The argument")]
    assert 'class="chip state resolved"' not in head
    assert f'href="/clusters/payments/losses/{loss}"' in head
    assert "80 records of it were lost" in text(console, f"/clusters/payments/breaches/{breach}")
    assert "lost: 80 records" in text(console, "/breaches?state=resolved")


@pytest.mark.parametrize(
    ("path", "records"),
    [
        ("/", 124),
        ("/clusters/payments", 124),
        ("/clusters/payments/topics/orders", 80),
        ("/clusters/payments/topics/orders/partitions/0", 80),
    ],
)
def test_no_page_is_green_as_long_as_a_loss_waits(
    url: str, aged: dict[int, str], console: httpx.Client, path: str, records: int
) -> None:
    page = text(console, path)
    assert f"{records} records lost since 22 Nov 2026, nobody has decided" in page
    assert "none open" not in page


def test_an_invariant_whose_records_were_lost_says_so(url: str, aged: dict[int, str], console: httpx.Client) -> None:
    page = text(console, "/invariants/D06")
    assert "Not found any more, since the records are lost" in page
    assert "lost: 80 records" in page


def test_a_page_of_a_loss_tells_its_life_and_takes_a_decision(
    url: str, aged: dict[int, str], console: httpx.Client, receiver: Web
) -> None:
    alerted(receiver, url)
    (loss, other) = (str(each["loss_id"]) for each in told(url)["losses"])
    path = f"/clusters/payments/losses/{loss}"
    page = text(console, path)
    order = [page.index(step) for step in ("told as at risk", "on no disk any more")]
    assert order == sorted(order)
    assert "2026-11-21 06:00 UTC told as at risk , 80 records" in page
    assert "D06 NoCommittedTruncation" in page
    for form, status, word in (
        ({"action": "accept", "who": "ada", "note": ""}, 400, "Say why"),
        ({"action": "accept", "who": "", "note": "x"}, 400, "Say who decides"),
        ({"action": "burn", "who": "ada", "note": "x"}, 400, "Choose one of"),
        ({"action": "accept", "who": "ada", "note": "x", "seen": "79"}, 409, "80 records wait now"),
        ({"action": "reopen", "who": "ada", "note": "x"}, 409, "Nobody has decided it"),
    ):
        refused = posted(console, path, **form)
        assert refused.status_code == status
        assert word in refused.text
    assert rows(url, "SELECT count(*) FROM tidegauge.v_loss_decision") == [(0,)]
    assert console.get(f"{path}0").status_code == 404
    done = posted(console, path, action="accept", who="ada", note="<b>test</b> data", seen="80")
    assert (done.status_code, done.headers["location"]) == (303, f"{path}?said=decided#decision")
    page = console.get(path).text
    assert "&lt;b&gt;test&lt;/b&gt; data" in page
    assert "<b>test" not in page
    assert "accepted , 80 records, by ada unverified" in text(console, path)
    assert gauge(console, "records_lost_undecided") == 44
    assert "44 records lost since 22 Nov 2026, nobody has decided" in text(console, "/")
    said = alerted(receiver, url)
    assert said == "", "the other loss of the incident waits still"
    assert posted(console, path, action="salvaged", who="bo", note="x").status_code == 409
    assert posted(console, path, action="reopen", who="bo", note="not test data").status_code == 303
    assert "124 records lost" in alerted(receiver, url), "again, since somebody opened it again"
    assert other in {str(each["loss_id"]) for each in told(url)["losses"]}


def test_json_has_the_documented_keys(url: str, aged: dict[int, str]) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/losses.md").read_text(encoding="utf-8")
    found = told(url, "--all")
    assert found["schema_version"] == 1
    assert [each["records_lost_undecided"] for each in found["totals"]] == [124]
    assert {each["topic"]: each["records"] for each in found["losses"]} == {"orders": 80, "payments": 44}
    inner = [each for loss in found["losses"] for kind in ("stretches", "decisions") for each in loss[kind]]  # type: ignore[attr-defined]
    keys = {key for each in (found, *found["totals"], *found["losses"], *inner) for key in each}
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_decisions_on_the_terminal(
    url: str, golden: Golden, aged: dict[int, str], console: httpx.Client, receiver: Web
) -> None:
    first, second = (str(each["loss_id"]) for each in told(url)["losses"])
    accepted = losses(url, "accept", first, "--note", "test data", "--by", "ada")
    assert (accepted.exit_code, accepted.stdout) == (0, f"{first}: 80 records accepted, by ada.\n")
    again = losses(url, "accept", first, "--note", "test data", "--by", "grace")
    assert again.exit_code == 0
    assert f"{first} was accepted before, by ada on" in again.stdout
    other = losses(url, "close", first, "--as", "salvaged", "--note", "saved", "--by", "grace")
    assert other.exit_code == 2
    assert f"{first} is decided otherwise: accepted by ada" in other.output
    assert losses(url).output.startswith("payments: 44 records lost since 22 Nov 2026")
    assert losses(url, "close", second, "--as", "produced-again", "--note", "by hand", "--by", "ada").exit_code == 0
    quiet = losses(url)
    assert (quiet.exit_code, quiet.output) == (0, "No loss waits for a decision.\n")
    publish_capture(
        url, golden(SERIES[3]), cluster="payments", snapshot_id="day-4", captured_at=BEFORE + timedelta(days=4)
    )
    assert losses(url).exit_code == 0
    assert gauge(console, "records_lost_undecided") == 0
    assert "nobody has decided" not in text(console, "/")
    alerted(receiver, url)
    assert alerted(receiver, url) == ""
    everything = losses(url, "--all")
    assert everything.exit_code == 0
    assert "produced again, 44 records, by ada: by hand" in everything.output
    reopened = losses(url, "reopen", second, "--note", "it was not", "--by", "grace")
    assert reopened.stdout == f"{second}: 44 records reopened, by grace.\n"
    assert losses(url, "reopen", second, "--note", "it was not", "--by", "grace").exit_code == 2
    assert losses(url).output.startswith("payments: 44 records lost since 22 Nov 2026")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("accept", "L-0000000000", "--note", "x"), "There is no loss L-0000000000 in this store."),
        (("accept", "\x1b[31m'; DROP TABLE", "--note", "x"), "There is no loss \\x1b[31m'; DROP TABLE in this store."),
        (("accept", "L-0000000000"), "Missing option '--note'"),
        (("accept", "L-0000000000", "--note", "x" * 2001), "The note has 2,001 characters; 2,000 fit."),
        (("close", "L-0000000000", "--note", "x"), "Missing option '--as'"),
        (("list", "--cluster", "nowhere"), "No run of a cluster named nowhere is published in this store."),
        (("acept",), "No such command 'acept'"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(url: str, arguments: tuple[str, ...], said: str) -> None:
    result = losses(url, *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize(("by", "note"), [(" ", "x"), ("ada", " ")])
def test_who_and_why_are_asked_for(url: str, aged: dict[int, str], by: str, note: str) -> None:
    found = str(told(url, "--all")["losses"][0]["loss_id"])
    result = losses(url, "reopen", found, "--by", by, "--note", note)
    assert result.exit_code == 2
    assert "Nothing was changed" in " ".join(result.output.split())


@pytest.fixture(scope="module")
def played(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, ...]]:
    """By moment of a simulated cluster, what its ledger holds: B was elected without what A had, and then A without
    what B took in between.
    """
    found: dict[str, tuple[object, ...]] = {}
    root = tmp_path_factory.mktemp("played")
    alone, elected, _ = SCENARIOS["unclean-election"].play(1).moments
    again = Moment(name="a-leads-again", what="", world=started(killed(elected.world, B), A))
    rejoined = Moment(name="b-is-cut", what="", world=started(again.world, B))
    for day, moment in enumerate((alone, elected, again, rejoined)):
        directory = write_moment(moment, root / moment.name, cluster="played", seed=1)
        at = BEFORE + timedelta(days=day)
        publish_capture(url, directory, cluster="played", snapshot_id=moment.name, captured_at=at)
        stretches = "SELECT start_offset, end_offset, state, undecided FROM tidegauge.v_loss_stretch WHERE cluster = %s"
        found[moment.name] = tuple(rows(url, f"{stretches} AND topic = 'orders' ORDER BY 1, 2", "played"))
    return found


def test_records_that_come_back_are_closed_by_proof_and_what_they_cost_is_told(
    url: str, played: dict[str, tuple[object, ...]], receiver: Web
) -> None:
    assert played["a-is-alone"] == ()
    assert played["b-is-elected"] == ((100, 201, "at_risk", True),)
    assert played["a-leads-again"] == ((100, 120, "at_risk", True), (100, 201, "back", False))
    assert played["b-is-cut"] == ((100, 120, "lost", True), (100, 201, "back", False))
    assert losses(url, "list", "--cluster", "played").output.startswith("played (simulated): 20 records lost since")
    back = next(x for x in told(url, "--cluster", "played", "--all")["losses"] if x["state"] == "back")
    refused = losses(url, "accept", str(back["loss_id"]), "--note", "x")
    assert refused.exit_code == 2
    assert "closed by proof: its records are back on the leader" in " ".join(refused.output.split())
    receiver.posted.clear()
    send(hook(receiver, "played"), url, say=lambda _: None, now=BEFORE + timedelta(days=4))
    assert "nobody has decided" not in words(receiver), "nobody is called for a simulated cluster"
