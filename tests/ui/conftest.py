"""The page under Streamlit's own test runner: no browser, no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).resolve().parents[2] / "app.py"

OpenPage = Callable[..., AppTest]


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """open_page(model=..., tokens=...): the page as a link with these parameters opens it. The Hub is switched off."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def opened(**link: object) -> AppTest:
        page = AppTest.from_file(str(APP), default_timeout=30)
        for name, value in link.items():
            page.query_params[name] = str(value)
        return page.run()

    return opened


@pytest.fixture
def open_capacity(monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """The Capacity page as a link with these parameters opens it, the first page of its session."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def opened(**link: object) -> AppTest:
        page = AppTest.from_file(str(APP), default_timeout=60)
        for name, value in link.items():
            page.query_params[name] = str(value)
        return page.switch_page("ui/capacity.py").run()

    return opened
