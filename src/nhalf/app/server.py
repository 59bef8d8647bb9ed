"""The server: the page, its numbers, and the documents of the commands, to this machine alone unless told otherwise."""

from __future__ import annotations

import hmac
import secrets
import shlex
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from nhalf.app.asked import COMMANDS, Opened, checked, scenarios, split
from nhalf.app.asked import request as asked
from nhalf.app.panel import SLIDERS, measured, messages, panel
from nhalf.catalog import overlay, store
from nhalf.engines import ENGINES
from nhalf.errors import InputError, NhalfError
from nhalf.files.reading import only
from nhalf.live.exporter import CONTENT, predicted
from nhalf.printable import shown
from nhalf.report import glossary
from nhalf.report.export import bundle
from nhalf.report.page import html
from nhalf.report.pictures import page, subject
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from nhalf.report.view import Said

STATIC: Final = Path(__file__).with_name("static")
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]", "::1")
_POLICY: Final = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                  "connect-src 'self'; frame-src 'self'")  # fmt: skip
_ALONE: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
)
"""The policy of a page that carries its own script: it has no origin, so that it reaches nothing here."""
_COOKIE: Final = "nhalf"
_LONGEST_QUERY: Final = 8000
_LARGEST_FILE: Final = 32_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the app listens, what was opened with it, the word that visitors from elsewhere need, and what `ask`s."""

    ask: Callable[..., Said]
    host: str = "127.0.0.1"
    opened: Opened = field(default_factory=lambda: Opened(files={}))
    token: str = ""

    @property
    def local(self) -> bool:
        """Tell whether only this machine can reach it."""
        return self.host in _LOCAL


def token(host: str) -> str:
    """Return a word that nobody guesses, empty where only this machine can reach the app."""
    return "" if host in _LOCAL else secrets.token_urlsafe(18)


def application(settings: Settings) -> Starlette:
    """Return the app."""
    made = Starlette(
        routes=[
            Route("/", _page),
            Route("/names", _names),
            Route("/panel", _panel),
            Route("/metrics", _metrics),
            Route("/pictures", _pictures),
            Route("/timeline", _timeline),
            Route("/screen/{command}", _screen),
            Route("/api/{command}", _document),
            Route("/file/{command}", _file, methods=["POST"]),
        ]
    )
    made.mount("/static", StaticFiles(directory=STATIC))
    made.state.settings = settings
    overlay.current()  # what NHALF_CATALOG names is read now: no request opens a file of its own
    made.add_middleware(_Door)
    return made


class _Door:
    """Lets in who belongs here: requests to this host's own name, with the word where one is needed."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401  an ASGI application
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI
        """Serve a request, or refuse it in one line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        settings: Settings = scope["app"].state.settings
        refused = _refusal(scope, settings)
        if refused is not None:
            await refused(scope, receive, send)
            return

        async def guarded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = any(name == b"content-security-policy" for name, _ in message["headers"])
                message["headers"] = [
                    *message["headers"],
                    *(() if own else ((b"content-security-policy", _POLICY.encode()),)),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        await self._app(scope, receive, guarded)


def _refusal(scope: Mapping[str, Any], settings: Settings) -> Response | None:
    """Return why a request is refused, None where it is not; a right word in the URL becomes a cookie."""
    request = Request(scope)  # type: ignore[arg-type]
    name = request.headers.get("host", "").rsplit(":", 1)[0]
    if settings.local and name not in _LOCAL:
        return PlainTextResponse("this app answers to localhost alone\n", status_code=403)
    if len(scope.get("query_string", b"")) > _LONGEST_QUERY:
        return PlainTextResponse("the address is too long\n", status_code=414)
    if not settings.token:
        return None
    if _is_word(request.query_params.get("token", ""), settings):
        kept = urlencode([(key, value) for key, value in request.query_params.multi_items() if key != "token"])
        answer = RedirectResponse(f"{request.url.path}{'?' if kept else ''}{kept}", status_code=303)
        answer.set_cookie(_COOKIE, settings.token, httponly=True, samesite="strict")
        return answer
    if _is_word(request.cookies.get(_COOKIE, ""), settings):
        return None
    return PlainTextResponse("the address lacks the word that nhalf app printed\n", status_code=403)


def _is_word(given: str, settings: Settings) -> bool:
    """Tell whether what a visitor gives is the word."""
    return hmac.compare_digest(given.encode(), settings.token.encode())


def _guarded(work: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that works in a thread, reads what was opened alone, and says in one line what is wrong."""

    def worked(request: Request) -> Any:  # noqa: ANN401  what the endpoint answers
        with only(request.app.state.settings.opened.files.values()):
            return work(request)

    async def endpoint(request: Request) -> Response:
        try:
            made = await run_in_threadpool(worked, request)
        except NhalfError as error:
            return JSONResponse({"error": shown(str(error)), "code": error.exit_code}, status_code=400)
        return made if isinstance(made, Response) else JSONResponse(made)

    return endpoint


def _given(request: Request) -> dict[str, list[str]]:
    """Return the parameters of a request, each with its values."""
    return {name: request.query_params.getlist(name) for name in request.query_params}


def _command(request: Request) -> str:
    """Return the command of a request.

    Raises
    ------
    InputError
        There is none of that name here.
    """
    name: str = request.path_params["command"]
    if name not in COMMANDS:
        raise InputError(f"there is no {name[:40]!r} here", where="/api", allowed=", ".join(COMMANDS))
    return name


@_guarded
def _page(request: Request) -> Response:
    """Return the page."""
    del request
    return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8").replace("{version}", VERSION))


@_guarded
def _names(request: Request) -> dict[str, Any]:
    """Return what there is to choose from, and what the words of the page mean."""
    settings: Settings = request.app.state.settings
    return {
        "models": sorted(store.names("model")),
        "systems": [*settings.opened.files, *sorted(store.names("system"))],
        "engines": list(ENGINES),
        "sliders": SLIDERS,
        "words": {entry.word: entry.says for entry in glossary.entries().values() if entry.listed},
    }


@_guarded
def _panel(request: Request) -> dict[str, Any]:
    """Return the numbers that the page draws."""
    settings: Settings = request.app.state.settings
    return panel(scenarios(checked("decode", _given(request), settings.opened)))


@_guarded
def _metrics(request: Request) -> Response:
    """Return what is predicted of a question as metrics of Prometheus, of nothing where nothing is asked."""
    settings: Settings = request.app.state.settings
    found = checked("decode", _given(request), settings.opened)
    return PlainTextResponse(predicted(scenarios(found).scenarios if found else ()), media_type=CONTENT)


@_guarded
def _pictures(request: Request) -> Response:
    """Return the interconnect in eight pictures, as the page of its own that `nhalf lab -o` writes."""
    settings: Settings = request.app.state.settings
    found = checked("pictures", _given(request), settings.opened)
    drawn = page(subject(asked(found)))
    command = shlex.join(["nhalf", "lab", "--model", found["model"][0], "--on", found["on"][0], "-o", "pictures.html"])
    return HTMLResponse(html(drawn, command=command, bundle=bundle()), headers={"content-security-policy": _ALONE})


@_guarded
def _timeline(request: Request) -> dict[str, Any]:
    """Return the messages of a simulated collective, of the first algorithm where there are several."""
    outcomes: Any = _of("simulate", request).view.found
    if not outcomes:
        raise InputError("there is no single run to look at", where="/timeline", do="leave out --draws")
    return messages(outcomes[0].run)


def _answered(request: Request) -> Said:
    return _of(_command(request), request)


def _of(command: str, request: Request) -> Said:
    """Return what a command answers to a request."""
    settings = request.app.state.settings
    arguments, flags = split(command, checked(command, _given(request), settings.opened))
    said: Said = settings.ask(command, *arguments, **flags)
    return said


@_guarded
def _document(request: Request) -> dict[str, Any]:
    """Return the document that the command prints with `--json`."""
    return _answered(request).view.document()


@_guarded
def _screen(request: Request) -> dict[str, Any]:
    """Return the first screen of a command as text."""
    return _screened(_answered(request))


def _screened(said: Said) -> dict[str, Any]:
    """Return the first screen of an answer, and what is told beside it."""
    return {"text": said.text(columns=100), "problem": said.problem, "warnings": list(said.warnings)}


async def _file(request: Request) -> Response:
    """Return the first screen of `fit`, `doctor` or `trace` about a file that was dropped on the page."""
    name = request.path_params["command"]
    if name not in ("fit", "trace", "doctor"):
        return JSONResponse({"error": "a log goes to fit or doctor, a trace to trace", "code": 2}, status_code=400)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FILE:
            large = {"error": "the file is too large for a page: run nhalf on it", "code": 2}
            return JSONResponse(large, status_code=413)

    def work(request: Request) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "dropped.json" if body.lstrip()[:1] in (b"{", b"[") else "dropped.log")
            path.write_bytes(body)
            try:
                with only([str(path)]):
                    said = request.app.state.settings.ask(name, path)
                    found = _screened(said)
            except NhalfError as error:
                error.where = error.where.replace(str(path), "FILE")
                raise
            curves = measured(said.view.found) if name == "fit" else []
            return {**found, "text": found["text"].replace(str(path), "FILE"), "curves": curves}

    return await _guarded(work)(request)
