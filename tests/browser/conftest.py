"""A browser and the running page for the tests of this folder.

Chromium is the system's own; Playwright's package drives it. Where one of them is missing these tests are skipped with
the reason, unless REQUIRE_BROWSER=1, which makes that a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .watched import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]


def missing(reason: str) -> None:
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright is not installed: pip install -r requirements-dev.txt")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)
    if chromium is None:
        missing("no Chromium is installed: apt-get install chromium, or name one in $CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page, served by a process of its own with the Hub switched off."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.address=127.0.0.1"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/_stcore/health", server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)
    written = log.read_text()
    assert "Traceback" not in written, written


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(300):
        try:
            opener.open(url, timeout=2).close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
    pytest.fail(f"the server did not start within 30 s: {log.read_text()}")


@pytest.fixture
def page(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Watched]:
    phone = request.node.get_closest_marker("parametrize") is not None and "phone" in request.node.name
    context = browser.new_context(viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 1000})
    yield Watched(context.new_page(), address)
    context.close()
