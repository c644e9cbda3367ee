"""The console behind Airflow's plugin: its addresses, its form and its cookie work below another path."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from tidegauge.console import server
from tidegauge.console.callers import Trust

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

PLUGINS = Path(__file__).parents[2] / "dags" / "plugins"


SECRET = "s" * 40


@pytest.fixture
def inside(
    filled_store: str, docs_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[httpx.Client]:
    """A browser at an Airflow to which Ada is logged in, before a console that shares a secret with it."""
    trust = Trust(airflow_token=SECRET)
    with (
        server.running(filled_store, host="127.0.0.1", port=0, docs=[docs_root], trust=trust) as address,
        airflow_at(address, monkeypatch, tmp_path) as client,
    ):
        yield client


@contextmanager
def airflow_at(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[httpx.Client]:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(PLUGINS))
    import tidegauge_plugin as plugin
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from starlette.testclient import TestClient

    manager = SimpleNamespace(is_authorized_dag=lambda **_: True)
    monkeypatch.setattr(plugin, "get_auth_manager", lambda: manager)
    environ = {"TIDEGAUGE_CONSOLE_URL": address, "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN": SECRET}
    app, mounted = FastAPI(), plugin.create_app(environ)
    ada = SimpleAuthManagerUser(username="ada", role="admin")
    mounted.dependency_overrides[plugin.reader] = lambda: ada
    mounted.dependency_overrides[plugin.editor] = lambda: ada
    app.mount(plugin.PREFIX, mounted)
    with TestClient(app, base_url="http://airflow.example", follow_redirects=False) as client:
        yield client
    sys.modules.pop("tidegauge_plugin", None)


def test_every_address_of_a_page_leads_back_through_airflow(inside: httpx.Client) -> None:
    for path in ("/tidegauge/", "/tidegauge/breaches", "/tidegauge/runs", "/tidegauge/data-docs"):
        page = inside.get(path)
        assert page.status_code == 200, page.text
        addresses = re.findall(r'(?:href|src|action)="([^"#]+)', page.text)
        assert addresses
        assert [a for a in addresses if a.startswith("/") and not a.startswith("/tidegauge/")] == []
        assert "_token" not in page.headers.get("set-cookie", "")
    style = next(a for a in re.findall(r'href="([^"]+\.css[^"]*)"', page.text))
    assert inside.get(style).headers["content-type"].startswith("text/css")


def test_a_breach_is_acknowledged_through_it_and_a_forged_form_is_not(inside: httpx.Client) -> None:
    listing = inside.get("/tidegauge/breaches").text
    place = re.findall(r'href="(/tidegauge/clusters/[^"/]+/breaches/[^"?#]+)"', listing)[0]
    page = inside.get(place)
    token = page.text.split('name="form_token" value="')[1].split('"')[0]
    assert "You are <bdi>ada</bdi>" in page.text
    form = {"form_token": token, "who": "eve", "until": "1 day", "note": "on it", "action": "acknowledge"}
    own = {"origin": "http://airflow.example", "sec-fetch-site": "same-origin"}
    done = inside.post(place, data=form, headers=own)
    assert done.status_code == 303, done.text
    assert done.headers["location"].startswith(f"{place}?")
    assert re.search(
        r"<bdi>ada</bdi> <span[^>]*>logged in to Airflow</span></strong> takes care", inside.get(place).text
    )
    trail = inside.get("/tidegauge/acknowledgements/figures/acknowledgements.json").json()["rows"]
    assert (trail[0]["said_by"], trail[0]["verification"]) == ("ada", "airflow")
    assert inside.post(place, data=form, headers={"origin": "https://evil.example"}).status_code == 403
    assert inside.post(place, data={**form, "action": "withdraw"}, headers=own).status_code == 303
