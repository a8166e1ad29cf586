"""The page under Streamlit's own test runner: no browser, no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui import export

APP = Path(__file__).resolve().parents[2] / "app.py"

OpenPage = Callable[..., AppTest]


def opening(timeout: int, page: str | None = None) -> OpenPage:
    """What opens the app, or one of its pages as the first of a session, by a link with these parameters."""

    def opened(**link: object) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=timeout)
        for name, value in link.items():
            app.query_params[name] = str(value)
        return (app.switch_page(page) if page else app).run()

    return opened


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """open_page(model=..., tokens=...): the page as a link with these parameters opens it. The Hub is switched off."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return opening(30)


@pytest.fixture
def open_capacity(monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """The same of the Capacity page."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return opening(60, "ui/capacity.py")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files that the page which was drawn last has on offer, by name."""
    found: dict[str, str] = {}
    offer = export._offer

    def noted(*offered: export.File) -> None:
        found.clear()
        found.update({file.name: file.text() for file in offered})
        offer(*offered)

    monkeypatch.setattr(export, "_offer", noted)
    return found
