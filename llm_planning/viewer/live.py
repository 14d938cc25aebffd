"""The live page of a sweep: a web server for the browsers of this machine.

It listens on 127.0.0.1 alone, answers GET alone, and writes nothing. The page holds no secret, and
wants no password. Any page that the user visits can send requests there: the host in a request must
be this machine, so that no foreign name can be made to lead here.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.endings import UsageError
from llm_planning.experiments.ledger import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_QUICKEST = 2.0
"""Seconds between two questions of the page, at least."""

_SHARE = 0.004
"""Share of one core that answering the page may take."""

_MOST_CONNECTIONS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePages:
    """What the server shows.

    Attributes:
        page: the HTML of the page itself, without data.
        state: what the page shows, as JSON values; called in one thread at a time.
        trial: the HTML of a trial's page, by the trial's key; None if there is no such trace.
    """

    page: bytes
    state: Callable[[], dict[str, Any]]
    trial: Callable[[str], bytes | None]


def link_of(port: int) -> str:
    """The address of the front page."""
    return f"http://{HOST}:{port}/"


def application(pages: LivePages, port: int) -> Starlette:
    """The server's routes."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    hosts = {f"{HOST}:{port}", f"localhost:{port}"}
    reading = threading.Lock()

    def guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def checked(request: Request) -> Response:
            if request.headers.get("host", "").lower() not in hosts:
                response: Response = PlainTextResponse("This is not its host.\n", 421)
            else:
                response = answer(request)
            response.headers.update(_HEADERS)
            return response

        return checked

    def front(_: Request) -> Response:
        return HTMLResponse(pages.page)

    def state(_: Request) -> Response:
        with reading:
            begun = time.thread_time()
            try:
                values = pages.state()
            except LedgerError as error:
                return JSONResponse({"error": str(error)}, 503)
            values["wait"] = max(_QUICKEST, (time.thread_time() - begun) / _SHARE)
        # Numbers without a JSON form, which a browser would refuse, are not made from a ledger.
        return JSONResponse(values)

    def trial(request: Request) -> Response:
        try:
            content = pages.trial(request.path_params["key"])
        except LedgerError as error:
            return PlainTextResponse(f"{error}\n", 503)
        if content is None:
            return PlainTextResponse("No trial of this key left a trace.\n", 404)
        return HTMLResponse(content)

    def icon(_: Request) -> Response:
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/", guarded(front)),
            Route("/state.json", guarded(state)),
            Route("/trials/{key}.html", guarded(trial)),
            Route("/favicon.ico", guarded(icon)),
        ]
    )


def listen(port: int) -> socket.socket:
    """A socket of this machine alone.

    Args:
        port: 0 for any that is free.

    Raises:
        UsageError: the port is taken, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        # A browser may be quicker than the server: its connection waits.
        listening.listen(_MOST_CONNECTIONS)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"--port {port} cannot be used ({error.strerror}): name another, or leave --port out"
        ) from error
    return listening


def serve(pages: LivePages, listening: socket.socket) -> None:
    """Answers until Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import uvicorn

    config = uvicorn.Config(
        application(pages, listening.getsockname()[1]),
        access_log=False,
        date_header=False,
        h11_max_incomplete_event_size=16_384,
        http="h11",
        lifespan="off",
        limit_concurrency=_MOST_CONNECTIONS,
        log_level="error",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=10,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])
