"""The live page of a sweep: a web server for the browser of this machine's user, and nobody else.

It listens on 127.0.0.1 alone, answers GET alone, and writes nothing. Other users of the machine can
reach the port, and any page that the user visits can send requests there. So every answer with data
wants a cookie that only the printed link gives, once; and the host's name in a request must be this
machine's, so that no foreign name can be made to lead here.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Gate:
    """Who may see the pages: whoever has opened the printed link first.

    Attributes:
        port: that the server listens on.
        token: of the link; good for one opening.
    """

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _spent: bool = False

    @property
    def link(self) -> str:
        """The link to be opened."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> tuple[str, str]:
        """Name and value of the cookie. Cookies ignore ports, so its name has the port."""
        return f"llm_planning_{self.port}", self._session

    def is_host(self, named: str) -> bool:
        """Whether a request names this server."""
        return named.lower() in {f"{HOST}:{self.port}", f"localhost:{self.port}"}

    def is_known(self, cookie: str) -> bool:
        """Whether a cookie is the one that the link gave."""
        return hmac.compare_digest(cookie.encode(), self._session.encode())

    def opens(self, token: str) -> bool:
        """Whether a token opens the page; it does so once."""
        fits = hmac.compare_digest(token.encode(), self.token.encode())
        if not fits or self._spent:
            return False
        self._spent = True
        return True


def application(pages: LivePages, gate: Gate) -> Starlette:
    """The server's routes."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
    from starlette.routing import Route

    reading = threading.Lock()

    def guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def checked(request: Request) -> Response:
            if not gate.is_host(request.headers.get("host", "")):
                response: Response = PlainTextResponse("This is not its host.\n", 421)
            else:
                response = answer(request)
            response.headers.update(_HEADERS)
            return response

        return checked

    def known(request: Request) -> bool:
        name, _ = gate.cookie
        return gate.is_known(request.cookies.get(name, ""))

    def refusal() -> Response:
        return PlainTextResponse(
            "The link of this page can be opened once, and this one is used, or not the one that "
            "was printed. End the command with Ctrl-C and run it again for a new link.\n",
            403,
        )

    def front(request: Request) -> Response:
        token = request.query_params.get("token")
        if token is None or known(request):
            return HTMLResponse(pages.page) if known(request) else refusal()
        if not gate.opens(token):
            return refusal()
        response = HTMLResponse(pages.page)
        name, value = gate.cookie
        response.set_cookie(name, value, path="/", httponly=True, samesite="strict")
        return response

    def state(request: Request) -> Response:
        if not known(request):
            return refusal()
        with reading:
            begun = time.thread_time()
            try:
                found = pages.state()
            except LedgerError as error:
                return JSONResponse({"error": str(error)}, 503)
            found["wait"] = max(_QUICKEST, (time.thread_time() - begun) / _SHARE)
        # Numbers without a JSON form, which a browser would refuse, are not made from a ledger.
        return JSONResponse(found)

    def trial(request: Request) -> Response:
        if not known(request):
            return refusal()
        try:
            content = pages.trial(request.path_params["key"])
        except LedgerError as error:
            return PlainTextResponse(f"{error}\n", 503)
        if content is None:
            return PlainTextResponse("No trial of this key left a trace.\n", 404)
        return HTMLResponse(content)

    def icon(_: Request) -> Response:
        from starlette.responses import Response

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


def serve(pages: LivePages, gate: Gate, listening: socket.socket) -> None:
    """Answers until Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    import uvicorn

    config = uvicorn.Config(
        application(pages, gate),
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
