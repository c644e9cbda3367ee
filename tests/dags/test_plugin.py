"""The plugin that shows the console inside Airflow: what it passes on, what it does not, and to whom."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

PLUGINS = Path(__file__).parents[2] / "dags" / "plugins"


@pytest.fixture(scope="session")
def plugin():
    """Its import is that of Airflow's API server, which takes seconds."""
    sys.path.insert(0, str(PLUGINS))
    import tidegauge_plugin

    return tidegauge_plugin


class Manager:
    """An auth manager that lets everybody do what was given."""

    def __init__(self, *methods):
        self.methods = methods

    def is_authorized_dag(self, *, method, details, user):
        assert details.id == "replication_audit"
        return method in self.methods


@pytest.fixture
def heard():
    return []


@pytest.fixture
def environ():
    """Of Airflow's API server."""
    return {"TIDEGAUGE_CONSOLE_URL": "http://console:8137/"}


@pytest.fixture
def browser(plugin, monkeypatch, heard, environ):
    """A browser at an Airflow that mounts the plugin, before a console that repeats what it hears."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user

    behind = FastAPI()

    @behind.api_route("/{path:path}", methods=["GET", "HEAD", "POST"])
    async def console(path: str, request: Request):
        heard.append(
            {
                "path": request.url.path,
                "query": request.url.query,
                "headers": dict(request.headers),
                "body": await request.body(),
            }
        )
        answer = JSONResponse({"path": path})
        answer.headers["set-cookie"] = "tidegauge_form=t; Path=/tidegauge"
        answer.raw_headers.append((b"set-cookie", b"_token=stolen"))
        answer.headers["server"] = "secret"
        return answer

    def client(self):
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=behind))

    monkeypatch.setattr(plugin.Console, "_client", client)
    monkeypatch.setattr(plugin, "get_auth_manager", lambda: Manager("GET", "PUT"))
    app, inside = FastAPI(), plugin.create_app(environ)
    inside.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(username="ada ☃", role="user")
    app.mount(plugin.PREFIX, inside)
    return TestClient(app, base_url="https://airflow.example", follow_redirects=False)


def test_a_page_is_asked_for_without_anything_of_airflow_s(browser, heard):
    browser.cookies.update({"_token": "airflow's", "session": "airflow's", "tidegauge_form": "ours"})
    answer = browser.get("/tidegauge/clusters/prod~2eeu?after=x%20y", headers={"authorization": "Bearer airflow's"})
    assert answer.json() == {"path": "clusters/prod~2eeu"}
    (asked,) = heard
    assert asked["query"] == "after=x%20y"
    assert asked["headers"]["cookie"] == "tidegauge_form=ours"
    assert "airflow's" not in str(asked)
    assert asked["headers"]["x-forwarded-prefix"] == "/tidegauge"
    assert (asked["headers"]["x-forwarded-host"], asked["headers"]["x-forwarded-proto"]) == ("airflow.example", "https")
    assert asked["headers"]["host"] == "console:8137", "the console knows no other name"


SECRET = "s" * 40
OURS = ("x-tidegauge-airflow-token", "x-tidegauge-user", "x-forwarded-for")


def told(asked):
    """What the console hears of who asks."""
    return {name: asked["headers"][name] for name in OURS if name in asked["headers"]}


@pytest.mark.parametrize("in_a_file", [False, True])
def test_who_is_logged_in_is_told_with_the_secret_that_proves_it(browser, heard, environ, tmp_path, in_a_file):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    environ["TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN"] = f"@{file}" if in_a_file else SECRET
    lies = {"x-tidegauge-user": "eve", "x-tidegauge-airflow-token": "guess", "x-forwarded-for": "6.6.6.6"}
    browser.get("/tidegauge/runs", headers=lies)
    browser.post("/tidegauge/clusters/a/breaches/b", data={"who": "eve"}, headers=lies)
    vouched = {"x-tidegauge-airflow-token": SECRET, "x-tidegauge-user": "ada%20%E2%98%83"}
    assert [told(asked) for asked in heard] == [vouched | {"x-forwarded-for": "testclient"}] * 2


def test_without_a_secret_nothing_is_told_of_who_asks(browser, heard):
    browser.get("/tidegauge/runs", headers={"x-tidegauge-user": "eve", "x-forwarded-for": "6.6.6.6"})
    assert told(heard[0]) == {}


def test_nobody_is_vouched_for_whom_airflow_asked_for_no_password(plugin, browser, heard, environ, monkeypatch):
    from airflow.api_fastapi.core_api.security import get_user

    environ["TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN"] = SECRET
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
    browser.get("/tidegauge/runs")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    public = SimpleNamespace(is_anonymous=True, get_name=lambda: "Anonymous")
    inside = next(route.app for route in browser.app.routes if route.path == plugin.PREFIX)
    inside.dependency_overrides[get_user] = lambda: public
    browser.get("/tidegauge/runs")
    assert [set(told(asked)) for asked in heard] == [{"x-tidegauge-airflow-token", "x-forwarded-for"}] * 2


def test_a_secret_s_file_that_is_away_is_said(browser, heard, environ, tmp_path):
    environ["TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN"] = f"@{tmp_path / 'nowhere'}"
    answer = browser.get("/tidegauge/runs")
    assert (answer.status_code, "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN" in answer.text) == (503, True)
    assert heard == []


def test_of_the_answer_only_what_the_console_may_say_comes_back(browser):
    answer = browser.get("/tidegauge/")
    assert answer.headers.get_list("set-cookie") == ["tidegauge_form=t; Path=/tidegauge"]
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["a/%2e%2e/b", "%2e%2e%2fapi", "a//b", "/e.com", "a%00b", "a%20b", "a%5cb", "a@b", "https:%2f%2fe.com", "..;/x"],
)
def test_what_is_no_address_of_the_console_is_never_asked_for(browser, heard, path):
    assert browser.get(f"/tidegauge/{path}").status_code == 404
    assert heard == []


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("", True), ("runs/", True), ("a/b~2e.c", True), ("..", False), ("a/../b", False), ("a/./b", False), ("/", False)],
)
def test_an_address_has_plain_segments_none_of_which_leads_up(plugin, path, is_one):
    assert plugin.is_address(path) is is_one


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("clusters/prod/breaches/D06~2f1", 200),
        ("clusters/prod/breaches", 404),
        ("runs", 404),
        ("clusters/a/b/breaches/c", 404),
    ],
)
def test_the_one_form_is_passed_on(browser, heard, path, status):
    assert browser.post(f"/tidegauge/{path}", data={"who": "ada"}).status_code == status
    assert [asked["body"] for asked in heard] == [b"who=ada"] * (status == 200)


def test_a_form_that_is_too_long_is_refused(browser, heard):
    assert browser.post("/tidegauge/clusters/a/breaches/b", content=b"x" * 20_000).status_code == 413
    assert heard == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_else_is_passed_on(browser, heard, method):
    assert browser.request(method, "/tidegauge/clusters/a/breaches/b").status_code == 405
    assert heard == []


def test_who_may_not_see_the_dag_sees_nothing_and_who_may_not_edit_it_acknowledges_nothing(
    plugin, monkeypatch, browser, heard
):
    monkeypatch.setattr(plugin, "get_auth_manager", lambda: Manager("GET"))
    assert browser.get("/tidegauge/runs").status_code == 200
    assert browser.post("/tidegauge/clusters/a/breaches/b", data={}).status_code == 403
    monkeypatch.setattr(plugin, "get_auth_manager", lambda: Manager())
    assert browser.get("/tidegauge/runs").status_code == 403
    assert browser.get("/tidegauge/of-run/replication_audit/x").status_code == 403
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("run_id", "folder"),
    [
        ("scheduled__2026-11-21T00:00:00+00:00", "scheduled__2026-11-21T00-00-00-00-00"),
        ("by hand~..x", "by~20hand~7e..x"),
        ("ü", "~c3~bc"),
    ],
)
def test_a_dag_run_leads_to_where_its_report_is(browser, run_id, folder):
    answer = browser.get(f"/tidegauge/of-run/replication_audit/{quote(run_id, safe='')}")
    assert (answer.status_code, answer.headers["location"]) == (307, f"/tidegauge/data-docs/of/{folder}")


def test_runs_of_the_two_audits_that_have_one_id_have_reports_of_their_own(browser):
    run_id = "manual__2026-11-21T00:00:00+00:00"
    places = {
        browser.get(f"/tidegauge/of-run/{dag}/{quote(run_id, safe='')}").headers["location"]
        for dag in ("replication_audit", "replication_audit_adhoc")
    }
    folder = "manual__2026-11-21T00-00-00-00-00"
    assert places == {f"/tidegauge/data-docs/of/{folder}", f"/tidegauge/data-docs/of/adhoc-{folder}"}


def test_a_console_that_is_not_set_or_away_is_said(plugin, browser):
    request = Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "server": ("h", 1)}
    )
    unset = asyncio.run(plugin.Console({}).ask("GET", "", request, None))
    assert (unset.status_code, b"TIDEGAUGE_CONSOLE_URL" in unset.body) == (503, True)
