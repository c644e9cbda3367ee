"""Who acknowledges: nobody is believed by default, what a request says of itself least; guessing and flooding end."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.store.helpers import audit, breach, rows
from tidegauge import store
from tidegauge.cli.main import main as command_line
from tidegauge.console import server
from tidegauge.console.callers import AIRFLOW_TOKEN, AIRFLOW_USER, Trust, trust_of_settings
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.runs.errors import UnavailableError

pytestmark = pytest.mark.slow

SECRET = "s" * 40
TOKEN = "t" * 40
LOOPBACK = (ip_network("127.0.0.0/8"),)
ELSEWHERE = (ip_network("192.0.2.0/24"),)
HEADER = "X-Forwarded-User"
PLACE = "/clusters/c/breaches/b1"
Event = tuple[str, str, str, str]


class Console:
    """A console, and somebody's browser or program at it."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self.client, self._url = client, url

    def page(self, **headers: str) -> httpx.Response:
        return self.client.get(PLACE, headers=headers)

    def send(self, headers: Any = None, **form: str) -> httpx.Response:
        """The form of the breach's page, filled in by a browser."""
        found = re.search(r'name="form_token" value="([^"]*)"', self.client.get(PLACE).text)
        assert found
        sent = {"form_token": found[1], "who": "ada", "until": "resolved", "action": "acknowledge"} | form
        return self.client.post(PLACE, data=sent, headers=headers)

    def said(self) -> list[Event]:
        return rows(
            self._url,
            "SELECT action, said_by, verification, from_address FROM tidegauge.v_acknowledgement_event "
            "ORDER BY event_id",
        )


Start = Callable[[Trust], AbstractContextManager[Console]]


@pytest.fixture
def console(postgres_server: EmbeddedPostgres, worker_id: str) -> Start:
    """Starts one, as a server of its own that believes whom it is told to, over a store with one breach."""
    url = postgres_server.fresh_database(f"callers_{worker_id}")
    store.migrate(url)
    audit(url, "c", "s1", breach("b1"))

    @contextmanager
    def start(trust: Trust) -> Iterator[Console]:
        with (
            server.running(url, host="127.0.0.1", port=0, docs=[], trust=trust) as address,
            httpx.Client(base_url=address, trust_env=False, timeout=60) as client,
        ):
            yield Console(client, url)

    return start


# ------------------------------------------------------------------------------------------------------------- nobody


LIES = {
    HEADER: "eve",
    AIRFLOW_USER: "eve",
    AIRFLOW_TOKEN: SECRET,
    "Authorization": f"Bearer {TOKEN}",
    "X-Forwarded-For": "203.0.113.9",
}


@pytest.mark.parametrize("trust", [Trust(), Trust(proxies=ELSEWHERE, user_header=HEADER)])
def test_a_typed_name_is_unverified_whatever_the_request_says_of_itself(console: Start, trust: Trust) -> None:
    with console(trust) as asked:
        assert asked.send(LIES).status_code == 303
        assert asked.said() == [("acknowledged", "ada", "unverified", "127.0.0.1")]
        seen = asked.page(**LIES).text
        assert ">eve<" not in seen
        assert re.search(r'ada</bdi> <span class="chip [^"]*">unverified', seen)
        assert "ada</bdi> (unverified)" in asked.client.get("/breaches?state=acknowledged").text


@pytest.mark.parametrize(
    "until", ["9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59", "2226-01-01", "0001-01-01T00:00+14:00"]
)
def test_no_instant_at_the_end_of_the_calendar_is_kept(console: Start, until: str) -> None:
    """In some time zone it is none: whoever read it there could show no page of the breach any more."""
    with console(Trust()) as asked:
        assert asked.send(until=until).status_code == 400
        assert asked.said() == []
        assert asked.page().status_code == 200


# ---------------------------------------------------------------------------------------------------------- the proxy


def test_a_proxy_that_is_believed_says_who_asks_and_from_where(console: Start) -> None:
    with console(Trust(proxies=LOOPBACK, user_header=HEADER)) as asked:
        headers = {HEADER: "grace ☃".encode(), "X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
        assert asked.send(headers, who="eve").status_code == 303
        assert asked.said() == [("acknowledged", "grace ☃", "proxy", "198.51.100.7")]
        seen = asked.page(**{HEADER: "grace"}).text
        assert "You are <bdi>grace</bdi>" in seen
        assert 'name="who"' not in seen
        assert asked.send(who="ada").status_code == 303, "who is not logged in may still type a name"
        assert asked.said()[-1] == ("acknowledged", "ada", "unverified", "127.0.0.1")


def test_what_a_browser_adds_to_the_proxy_s_header_is_not_taken_for_the_proxy_s(console: Start) -> None:
    with console(Trust(proxies=LOOPBACK, user_header=HEADER)) as asked:
        for two in ([(HEADER, "eve"), (HEADER, "grace")], [(HEADER, "a" * 300)], [(HEADER, "a‮b".encode())]):
            assert asked.send(two).status_code == 400
        assert asked.send({HEADER: "grace", "Origin": "https://evil.example"}).status_code == 403
        assert asked.said() == []


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9", "198.51.100.7, 127.0.0.2"], "198.51.100.7"),
        (["::ffff:203.0.113.9"], "203.0.113.9"),
        (["2001:db8::7%eth0"], "2001:db8::7"),
        (["nonsense"], "127.0.0.1"),
        (["203.0.113.9, nonsense, 127.0.0.3"], "127.0.0.3"),
        ([], "127.0.0.1"),
    ],
)
def test_an_address_is_that_of_the_last_one_whom_a_believed_proxy_names(
    console: Start, forwarded: list[str], address: str
) -> None:
    with console(Trust(proxies=LOOPBACK)) as asked:
        assert asked.send([("X-Forwarded-For", value) for value in forwarded]).status_code == 303
        assert asked.said() == [("acknowledged", "ada", "unverified", address)]


# ------------------------------------------------------------------------------------------------------------ Airflow


def test_airflow_is_believed_by_its_secret_alone(console: Start) -> None:
    with console(Trust(airflow_token=SECRET)) as asked:
        own = {AIRFLOW_TOKEN: SECRET, "X-Forwarded-For": "203.0.113.9"}
        assert asked.send({AIRFLOW_USER: "eve"}).status_code == 303
        assert asked.send(own | {AIRFLOW_TOKEN: SECRET[:-1], AIRFLOW_USER: "eve"}).status_code == 401
        assert asked.send(own | {AIRFLOW_USER: "gr%C3%A4ce"}, who="eve").status_code == 303
        assert asked.send(own).status_code == 303, "an Airflow that asks nobody for a password vouches for nobody"
        assert asked.said() == [
            ("acknowledged", "ada", "unverified", "127.0.0.1"),
            ("acknowledged", "gräce", "airflow", "203.0.113.9"),
            ("acknowledged", "ada", "unverified", "203.0.113.9"),
        ]


# ------------------------------------------------------------------------------------------------------------- tokens


def test_a_program_acknowledges_and_withdraws_by_its_token(console: Start) -> None:
    with console(Trust(tokens={TOKEN: "pager", "u" * 40: "grace"})) as asked:
        own = {"Authorization": f"Bearer {TOKEN}"}
        first = asked.client.post(PLACE, data={"who": "eve", "until": "1 day"}, headers=own)
        assert (first.status_code, "said=acknowledged" in first.headers["location"]) == (303, True)
        assert asked.client.post(PLACE, data={"action": "withdraw"}, headers=own).status_code == 303
        wrong = asked.client.post(PLACE, data={}, headers={"Authorization": f"Bearer {TOKEN}x"})
        assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
        assert asked.client.post(PLACE, data={"who": "eve"}).status_code == 403, "without one it is a forged form"
        assert asked.said() == [
            ("acknowledged", "pager", "token", "127.0.0.1"),
            ("withdrawn", "pager", "token", "127.0.0.1"),
        ]
        assert TOKEN not in asked.page().text


@pytest.mark.parametrize(
    "browser",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Referer": "https://evil.example"}],
)
def test_a_token_that_a_proxy_adds_to_everything_makes_no_forged_form_good(
    console: Start, browser: dict[str, str]
) -> None:
    with console(Trust(tokens={TOKEN: "pager"})) as asked:
        own = {"Authorization": f"Bearer {TOKEN}"}
        assert asked.client.post(PLACE, data={"until": "1 day"}, headers=own | browser).status_code == 403
        assert asked.said() == []


def test_a_person_gives_a_token_in_the_form(console: Start) -> None:
    with console(Trust(tokens={TOKEN: "grace"})) as asked:
        assert 'name="token" type="password"' in asked.page().text
        assert asked.send(who="eve", token=TOKEN[:-1]).status_code == 401
        assert asked.send(who="eve", token=TOKEN).status_code == 303
        assert asked.said() == [("acknowledged", "grace", "token", "127.0.0.1")]


def test_guessing_ends_after_some_wrong_ones_for_who_guesses_alone(console: Start) -> None:
    with console(Trust(tokens={TOKEN: "grace"}, airflow_token=SECRET, proxies=LOOPBACK)) as asked:

        def guess(token: str, address: str = "203.0.113.9") -> httpx.Response:
            return asked.page(**{"Authorization": f"Bearer {token}", "X-Forwarded-For": address})

        assert {guess(f"{n:040}").status_code for n in range(10)} == {401}
        for token in ("0" * 40, TOKEN):
            late = guess(token)
            assert late.status_code == 429, "the right one too, or guessing would go on"
            assert 1 <= int(late.headers["retry-after"]) <= 60
        assert guess(TOKEN, "203.0.113.10").status_code == 200
        everywhere = {guess("0" * 40, f"198.51.100.{n}").status_code for n in range(100)}
        assert everywhere == {401, 429}
        assert guess(TOKEN, "203.0.113.10").status_code == 429, "all together have an end too"
        assert asked.page(**{AIRFLOW_TOKEN: SECRET, AIRFLOW_USER: "ada"}).status_code == 200
        assert {asked.page(**{AIRFLOW_TOKEN: f"{n:040}"}).status_code for n in range(10)} == {401}
        assert asked.page(**{AIRFLOW_TOKEN: SECRET}).status_code == 429
        assert asked.client.get("/breaches").status_code == 200, "who gives no secret reads on"


# --------------------------------------------------------------------------------------------------------- the flood


def test_forms_without_end_are_refused_with_a_word_on_when_to_come_again(console: Start) -> None:
    with console(Trust(proxies=LOOPBACK)) as asked:

        def flood(address: str) -> httpx.Response:
            return asked.client.post(PLACE, data={"who": "ada"}, headers={"X-Forwarded-For": address})

        assert {flood("203.0.113.9").status_code for _ in range(60)} == {403}
        late = flood("203.0.113.9")
        assert late.status_code == 429
        assert 1 <= int(late.headers["retry-after"]) <= 60
        assert "Try again in" in late.text
        assert asked.send({"X-Forwarded-For": "203.0.113.9"}).status_code == 429, "a good one as well"
        assert asked.said() == []
        assert asked.page().status_code == 200
        assert asked.send({"X-Forwarded-For": "203.0.113.10"}).status_code == 303
        many = {flood(f"198.51.100.{n}").status_code for n in range(250)}
        assert many == {403, 429}, "all together have an end too"


# ------------------------------------------------------------------------------------------------------------ settings


def test_settings_say_who_is_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada@example.com={TOKEN}\npager={SECRET}==\n")
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_TOKENS", f"@{file}")
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN", SECRET)
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_PROXIES", "10.1.2.3 2001:db8::/32")
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_USER_HEADER", HEADER)
    trust = trust_of_settings()
    assert trust == Trust(
        airflow_token=SECRET,
        proxies=(ip_network("10.1.2.3/32"), ip_network("2001:db8::/32")),
        user_header=HEADER,
        tokens={TOKEN: "ada@example.com", f"{SECRET}==": "pager"},
    )
    assert SECRET not in repr(trust)
    assert TOKEN not in repr(trust)


def test_without_settings_nobody_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKENS", "AIRFLOW_TOKEN", "PROXIES", "USER_HEADER"):
        monkeypatch.setenv(f"TIDEGAUGE_CONSOLE_{name}", "")
    assert trust_of_settings() == Trust()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("AIRFLOW_TOKEN", "short", "openssl rand"),
        ("AIRFLOW_TOKEN", "@/nowhere/at/all", "/nowhere/at/all, which cannot be read"),
        ("TOKENS", f"ada={TOKEN} bob", "Entry 2"),
        ("TOKENS", f"={TOKEN}", "Entry 1"),
        ("TOKENS", "ada=short", "entry 1, ada"),
        ("TOKENS", f"ada={TOKEN} bob={TOKEN}", "gives ada and bob one token"),
        ("PROXIES", "10.1.2.3/8", "'10.1.2.3/8'"),
        ("PROXIES", "proxy.example.com", "10.1.0.0/16"),
        ("USER_HEADER", HEADER, "TIDEGAUGE_CONSOLE_PROXIES"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error_that_tells_no_secret(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"TIDEGAUGE_CONSOLE_{variable}", value)
    with pytest.raises(UnavailableError) as caught:
        trust_of_settings()
    assert told in str(caught.value)
    assert f"TIDEGAUGE_CONSOLE_{variable}" in str(caught.value)
    assert TOKEN not in str(caught.value)
    nowhere = "postgresql+psycopg2://someone@127.0.0.1:1/nowhere"
    ended = CliRunner().invoke(command_line, ["console", "--store", nowhere, "--port", "0"])
    assert (ended.exit_code, f"TIDEGAUGE_CONSOLE_{variable}" in ended.output) == (3, True), "and it does not start"
