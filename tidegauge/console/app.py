"""The console as an ASGI application: a store's URL and roots of data docs in, an application out.

The rules that must hold: every answer carries the headers of `security`; an error is a page (or JSON, for probes) that
says what is wrong and what to do, never a traceback; no answer holds the store's password.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message

from tidegauge import __version__
from tidegauge.addresses import Links
from tidegauge.console import metrics, pages, security
from tidegauge.console.callers import Caller, Door, Trust, too_often
from tidegauge.console.database import Store
from tidegauge.console.docs import Docs
from tidegauge.console.limits import Limit
from tidegauge.console.mounted import Mounted
from tidegauge.console.pages import (
    acknowledgements,
    breaches,
    cluster,
    fleet,
    incidents,
    invariants,
    losses,
    partition,
    runs,
)
from tidegauge.console.refusal import RefusalError, not_found
from tidegauge.console.watched import Watched
from tidegauge.console.web import Page, asking, html_of
from tidegauge.runs.errors import StoreError
from tidegauge.store import VERSION, schema_problem

__all__ = ["create_app", "pages"]

_LOG: Final = logging.getLogger(__name__)
_LONGEST_FORM: Final = 16_384
_FORMS_OF_ONE: Final = 60
_FORMS_OVERALL: Final = 300
"""In a minute, of one address and of all. What is said is kept for good: nobody fills the store with words."""


def create_app(
    store_url: str,
    *,
    docs: Sequence[Path] = (),
    framed_by: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    trust: Trust | None = None,
    watched: Watched | None = None,
) -> FastAPI:
    """The application. `docs`: where audits leave `report.json` and `data_docs/`; `framed_by`: origins whose pages may
    show the console in a frame, besides its own; `hosts`: names by which it may be asked, None where whoever mounts it
    sees to that; `trust`: who is believed about who asks, by default nobody; `watched`: files with which it is alive
    only as long as they stay as they are. Raises `StoreError` for a URL that names no Postgres; the store itself is
    asked when somebody asks.
    """
    store = Store(store_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        store.close()

    app = FastAPI(
        title="Tidegauge console",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.store = store
    app.state.watched = watched
    app.state.docs = Docs(tuple(docs))
    app.state.door = Door(trust or Trust())
    app.state.forms = Limit(each=_FORMS_OF_ONE, overall=_FORMS_OVERALL)
    app.add_middleware(security.Headers, framed_by=tuple(framed_by))
    if hosts is not None:
        app.add_middleware(security.Hosts, names=hosts)
    app.add_middleware(Mounted)  # the outermost: all others see addresses as they are outside
    app.add_exception_handler(RefusalError, _refused)
    app.add_exception_handler(HTTPException, _refused_by_routing)
    app.add_exception_handler(StoreError, _store_is_away)
    app.add_exception_handler(Exception, _our_fault)
    app.mount("/static", StaticFiles(directory=str(files("tidegauge.console") / "static")), name="static")
    router = APIRouter()
    for kind in (fleet, incidents, cluster, partition, breaches, losses, acknowledgements, invariants, runs):
        kind.add(router)
    router.add_api_route("/clusters/{cluster}/breaches/{breach}", _acknowledge, methods=["POST"])
    router.add_api_route("/clusters/{cluster}/losses/{loss}", _decide, methods=["POST"])
    router.add_api_route("/clusters/{cluster}/incidents/{incident}", _say, methods=["POST"])
    router.add_api_route("/data-docs/{cluster}/{date}/{run}/{file}", _docs_file, methods=["GET", "HEAD"])
    router.add_api_route("/data-docs/of/{folder}", _docs_of, methods=["GET", "HEAD"])
    router.add_api_route("/metrics", _metrics, methods=["GET"])
    router.add_api_route("/healthz", _healthz, methods=["GET", "HEAD"])
    router.add_api_route("/readyz", _readyz, methods=["GET", "HEAD"])
    app.include_router(router)
    return app


async def _acknowledge(request: Request) -> Response:
    """A form of the breach's page."""
    return await _written(request, _acknowledged)


async def _decide(request: Request) -> Response:
    """A form of the loss's page."""
    return await _written(request, _decided)


async def _say(request: Request) -> Response:
    """A form of the incident's page."""
    return await _written(request, _said_of_incident)


async def _written(request: Request, write: Callable[[Request, dict[str, str], Caller], str]) -> Response:
    """What a form says, from somebody who may say it. Afterwards the browser is sent to the page that `write` returns,
    so that reloading says nothing twice.
    """
    from starlette.concurrency import run_in_threadpool

    caller: Caller = request.app.state.door.caller(request)
    if wait := request.app.state.forms.take(caller.address):
        raise too_often("More forms came than anybody fills in.", wait)
    form = await _form(request)
    if not (caller.verification == "token" and security.is_no_browser(request)):
        security.check_form(request, form)
    if caller.name is None and form.get("token"):
        caller = request.app.state.door.caller(request, token=form["token"])
    return RedirectResponse(await run_in_threadpool(write, request, form, caller), status_code=303)


async def _form(request: Request) -> dict[str, str]:
    """What a form says. Raises `RefusalError` for one that is too long: it counts what comes, not what is said."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_FORM:
            raise RefusalError(413, "Not understood", "The form is too long.")

    async def again() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    found = await Request(request.scope, again).form()
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _acknowledged(request: Request, form: dict[str, str], caller: Caller) -> str:
    with asking(request) as asked:
        said = breaches.acknowledge(asked, request.app.state.store, form, caller)
        return asked.links.breach(asked.path["cluster"], asked.path["breach"], said=said) + "#acknowledgement"


def _decided(request: Request, form: dict[str, str], caller: Caller) -> str:
    with asking(request) as asked:
        said = losses.decide(asked, request.app.state.store, form, caller)
        return asked.links.loss(asked.path["cluster"], asked.path["loss"], said=said) + "#decision"


def _said_of_incident(request: Request, form: dict[str, str], caller: Caller) -> str:
    with asking(request) as asked:
        said = incidents.say(asked, request.app.state.store, form, caller)
        incident_id = form.get("into", "").strip() if said == "merged" else asked.path["incident"]
        return asked.links.incident(asked.path["cluster"], incident_id, said=said)


def _docs_file(request: Request) -> Response:
    with asking(request) as asked:
        found = asked.docs.file(asked.path["run"], asked.path["cluster"], asked.path["date"], asked.path["file"])
    if found is None:
        raise not_found("No data docs are kept under this address.")
    page, kind = found
    return Response(page, media_type=kind, headers={"Content-Security-Policy": security.DOCS_POLICY})


def _docs_of(request: Request) -> Response:
    """What a run directory holds: its only data docs, or the list of them."""
    with asking(request) as asked:
        folder = asked.path["folder"]
        found = asked.docs.below(folder)
        if not found:
            raise not_found(f"No report lies in a directory {folder!r} yet, or its run wrote none.")
        only = found[0]
        if len(found) == 1:
            return RedirectResponse(asked.links.data_docs(only.cluster, only.date, only.run_id), status_code=307)
        return RedirectResponse(asked.links.to("/data-docs", folder=folder), status_code=307)


def _metrics(request: Request) -> Response:
    with request.app.state.store.reading() as reader:
        return Response(metrics.exposition(reader), media_type=metrics.CONTENT_TYPE)


def _healthz(request: Request) -> Response:
    """The process answers, and began with the secrets that hold now. Nothing else is asked: an unreachable store
    restarts no console.
    """
    watched: Watched | None = request.app.state.watched
    if watched is not None and (changed := watched.changed()):
        reason = f"{', '.join(changed)} changed after this console had begun"
        return JSONResponse({"status": "outdated", "reason": reason}, status_code=503)
    return JSONResponse({"status": "ok", "version": __version__})


def _readyz(request: Request) -> Response:
    """The store answers, may be read, and has this version's tables and views, or a newer one's that hold as much."""
    try:
        with request.app.state.store.reading() as reader:
            is_told = reader.row("SELECT to_regclass('tidegauge.v_schema_version') IS NOT NULL AS it")
            told = reader.row(VERSION) if is_told["it"] else None
            problem = schema_problem(told["said"] if told else None)
            if problem is None:
                reader.row("SELECT cluster FROM tidegauge.v_cluster LIMIT 1")
    except StoreError as error:
        problem = str(error)
    if problem is not None:
        return JSONResponse({"status": "not ready", "reason": problem}, status_code=503)
    return JSONResponse({"status": "ready"})


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return _error_page(request, error.status, error.title, error.words, error.headers)


def _refused_by_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {
        404: "No page has this address. The search above finds clusters, topics, incidents, breaches and runs.",
        405: "This address does not take that kind of request.",
    }
    return _error_page(request, error.status_code, "Not found", words.get(error.status_code, str(error.detail)))


def _store_is_away(request: Request, error: Exception) -> Response:
    _LOG.warning("%s", error)
    words = f"{error} The pages are back as soon as the store is."
    return _error_page(request, 503, "The store does not answer", words)


def _our_fault(request: Request, error: Exception) -> Response:
    _LOG.error("an error of the console's own at %s", request.url.path, exc_info=error)
    return _error_page(
        request, 500, "An error of the console's own", "Nothing was changed. The console's log says where it happened."
    )


def _error_page(
    request: Request, status: int, title: str, words: str, headers: Mapping[str, str] | None = None
) -> Response:
    page = Page(template="error.html.j2", values={"status": status, "title": title, "words": words})
    links = Links(request.scope.get("root_path", ""))
    return HTMLResponse(html_of(page, links, request, now=datetime.now(UTC)), status_code=status, headers=headers)
