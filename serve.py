"""The page with what a public server adds: `streamlit run serve.py`. Security headers here, the JSON routes in ui/api.py.

`streamlit run app.py` is the page alone. KV_PLANNER_FRAME_ANCESTORS names the sites that may show it in a frame: `'self'` by
default, `https://huggingface.co` for a Space.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.api import ROUTES

#: Everything comes from the server itself. Inline styles and blobs are Streamlit's own; Plotly draws into data: images.
POLICY = (
    "default-src 'self'", "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:", "font-src 'self' data:",
    "connect-src 'self' ws: wss: data: blob:", "worker-src 'self' blob:", "object-src 'none'", "base-uri 'self'",
    "form-action 'self'",
)  # fmt: skip


def inline_scripts() -> list[str]:
    """The hashes of the scripts that stand in Streamlit's own index.html, which a policy has to name one by one."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", page, re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts]


def headers(ancestors: str) -> dict[str, str]:
    """What every answer says to the browser. ancestors: the sites that may show the page in a frame."""
    scripts = " ".join(["script-src 'self' blob: 'wasm-unsafe-eval'", *inline_scripts()])
    return {
        "content-security-policy": "; ".join((*POLICY, scripts, f"frame-ancestors {ancestors}")),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
        "cross-origin-opener-policy": "same-origin",
    }


class Headers:
    """Adds the headers to every HTTP answer."""

    def __init__(self, app: ASGIApp, added: dict[str, str]) -> None:
        self.app, self.added = app, [(name.encode(), value.encode()) for name, value in added.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self.added]}
            await send(message)

        await self.app(scope, receive, sent if scope["type"] == "http" else send)


app = st.App(
    str(Path(__file__).parent / "app.py"),
    routes=ROUTES,
    middleware=[Middleware(Headers, added=headers(os.environ.get("KV_PLANNER_FRAME_ANCESTORS", "'self'")))],
)
