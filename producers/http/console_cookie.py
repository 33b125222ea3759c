"""The secret of a console session in a request: one half in a cookie, the other in a header.

The header cannot be sent by a form or a link, and a page of another origin may not send it: so it also tells that the
console's own page makes the call. A browser that says otherwise (Sec-Fetch-Site) is not believed to be that page.
"""

from fastapi import Request, Response

from embeddings.loopback import is_loopback
from producers.host_names import split_port
from producers.http.middleware import CONSOLE
from store.tenancy.console_sessions import SessionSecret

COOKIE, HEADER = "afterturn_console", "x-console-session"
#: Paths that the cookie is sent to.
PATH = "/api/v1"
#: The longest time without a call after which a session goes on, in seconds; the database holds sessions to it.
IDLE_S = 12 * 60 * 60


def is_from_this_page(request: Request) -> bool:
    """Return whether a page of this origin makes the request, or a caller that is no browser."""
    return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


def read_session(request: Request) -> SessionSecret | None:
    """Return the secret of the session that the request shows, and note it for the audit; None: it shows none.

    A key in the request goes before a session.
    """
    cookie, page = request.cookies.get(COOKIE), request.headers.get(HEADER)
    if not cookie or not page or "authorization" in request.headers or not is_from_this_page(request):
        return None
    request.scope[CONSOLE] = True
    return SessionSecret(cookie, page)


def set_cookie(request: Request, response: Response, half: str) -> None:
    """Give the browser its half, for this site alone; beyond loopback only over TLS."""
    name, _ = split_port(request.url.netloc)
    response.set_cookie(
        COOKIE, half, path=PATH, httponly=True, samesite="strict", secure=not is_loopback(name), max_age=IDLE_S
    )


def clear_cookie(response: Response) -> None:
    """Take the browser's half back."""
    response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="strict")
