"""The page at /docs: Swagger UI from an installed package. The browser is told to load nothing from another site."""

import base64
import hashlib
import re

from fastapi import APIRouter, HTTPException, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

PAGE, ASSETS = "/docs", "/docs/assets"
#: The package and folder with Swagger UI's files.
PACKAGE = ("fastapi_offline", "static")
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def page_routes(title: str, openapi_url: str, home: str = PAGE) -> APIRouter:
    """Return the routes of the page and of the files that it loads; a browser at the root is sent to `home`."""
    page = _build_page(title, openapi_url)
    router = APIRouter(routes=[Mount(ASSETS, StaticFiles(packages=[PACKAGE]), name="docs assets")])

    @router.get(PAGE, include_in_schema=False)
    async def show_page() -> Response:
        return page

    @router.get("/", include_in_schema=False)
    async def open_page(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(home, 302)
        raise HTTPException(404)

    return router


def _build_page(title: str, openapi_url: str) -> HTMLResponse:
    page = get_swagger_ui_html(
        openapi_url=openapi_url,
        title=title,
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon.png",
        # Without this setting, Swagger UI would send the description to another site for validation.
        swagger_ui_parameters={"validatorUrl": None},
    )
    page.headers["content-security-policy"] = _build_policy(bytes(page.body).decode())
    return page


def _build_policy(html: str) -> str:
    """Return the page's content security policy: files of this service, and the one inline script."""
    scripts = [hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(html)]
    hashes = " ".join(f"'sha256-{base64.b64encode(script).decode()}'" for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {hashes}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
