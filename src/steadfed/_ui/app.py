"""The live page as an app: a list of runs, pages of runs, their changes as events, reports to take away.

    GET /                              the list
    GET /run/ID                        a run
    GET /compare?runs=ID,ID            several runs, their curves overlaid
    GET /api/runs?search=&state=&sort=-changed&page=1&size=50
    GET /api/runs/ID[,ID]/panels       a page as JSON
    GET /api/runs/ID[,ID]/events       its changes
    GET /api/events                    changes of the list
    GET /report/ID[,ID].html           the report, whole
    GET /static/NAME

Nothing is ever written. Whatever reads from disk does so in a thread.
"""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from steadfed._core.wording import harmless
from steadfed._ui.assets import asset_named
from steadfed._ui.catalogue import Catalogue
from steadfed._ui.downloads import Downloads, file_name
from steadfed._ui.guards import AccessGuard
from steadfed._ui.queries import Query
from steadfed._ui.streams import Listeners, list_changes, page_changes
from steadfed._ui.views import MOST_COMPARED, Views
from steadfed.errors import SteadfedError

PAGE = "live.html"


def create_app(
    folder: Path, *, token: str | None = None, names: frozenset[str] = frozenset(), patience: float = 1.0
) -> Starlette:
    """Return the app over a folder of runs, which need not be there yet.

    Args:
        folder: where the runs are, themselves or below.
        token: what visitors must show; nothing if None.
        names: hosts that visitors may name besides localhost and addresses of digits.
        patience: seconds that pass at least between two looks at the disk for the same thing.
    """
    catalogue = Catalogue(folder, patience=patience)
    site = _Site(catalogue, patience)
    routes = [
        Route("/", site.static),
        Route("/run/{runs}", site.static),
        Route("/compare", site.static),
        Route("/api/runs", site.runs),
        Route("/api/runs/{runs}/panels", site.panels),
        Route("/api/runs/{runs}/events", site.events),
        Route("/api/events", site.list_events),
        Route("/report/{runs}.html", site.report),
        Route("/static/{name}", site.static),
        Route("/favicon.ico", site.icon),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AccessGuard, token=token, names=names)],
        exception_handlers={HTTPException: _http_error, SteadfedError: _bad_request},
    )
    app.state.catalogue = catalogue
    return app


class _Site:
    """What the addresses answer."""

    def __init__(self, catalogue: Catalogue, patience: float) -> None:
        self._catalogue = catalogue
        self._views = Views(catalogue, patience=patience)
        self._downloads = Downloads()
        self._listeners = Listeners()
        self._pause = max(patience, 0.05)

    async def static(self, request: Request) -> Response:
        found = await run_in_threadpool(asset_named, request.path_params.get("name", PAGE))
        if found is None:
            raise HTTPException(404, "there is no such file")
        return found.response(request)

    async def icon(self, request: Request) -> Response:
        """Answer browsers that ask before they have read where the icon is."""
        del request
        return RedirectResponse("/static/icon.svg", 308)

    async def runs(self, request: Request) -> Response:
        query = Query.of(request.query_params)
        listing = await run_in_threadpool(self._catalogue.listing)
        answer = await run_in_threadpool(query.answer, listing)
        return JSONResponse({**answer, "folder": harmless(self._catalogue.folder)})

    async def list_events(self, request: Request) -> Response:
        known = request.headers.get("last-event-id")
        return self._listeners.stream_to(list_changes(self._catalogue.listing, known=known, pause=self._pause))

    async def panels(self, request: Request) -> Response:
        runs = _requested_runs(request)
        found = await run_in_threadpool(self._views.snapshot, runs)
        if found is None:
            raise HTTPException(404, "there is no such run (any more)")
        return Response(found.whole, media_type="application/json")

    async def events(self, request: Request) -> Response:
        runs = _requested_runs(request)
        known = request.headers.get("last-event-id")
        changes = page_changes(lambda: self._views.snapshot(runs), known=known, pause=self._pause)
        return self._listeners.stream_to(changes)

    async def report(self, request: Request) -> Response:
        runs = _requested_runs(request)
        paths = [path for run in runs if (path := await run_in_threadpool(self._catalogue.path_of, run)) is not None]
        if len(paths) != len(runs):
            raise HTTPException(404, "there is no such run (any more)")
        content = await run_in_threadpool(self._downloads.page, paths)
        name = file_name([path.name for path in paths])
        return Response(
            content, media_type="text/html", headers={"content-disposition": f'attachment; filename="{name}"'}
        )


def _requested_runs(request: Request) -> tuple[str, ...]:
    """Return the ids in an address, each once."""
    runs = tuple(dict.fromkeys(request.path_params["runs"].split(",")))
    if len(runs) > MOST_COMPARED:
        raise HTTPException(400, f"at most {MOST_COMPARED} runs are shown side by side, got {len(runs)}")
    return runs


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    told = (error.detail, error.status_code) if isinstance(error, HTTPException) else (str(error), 500)
    return JSONResponse({"error": told[0]}, told[1])


async def _bad_request(request: Request, error: Exception) -> Response:
    del request
    return JSONResponse({"error": harmless(error)}, 400)
