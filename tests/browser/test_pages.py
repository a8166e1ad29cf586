"""Every page in a real browser, light and dark, wide and on a phone: it stands, nothing is cut or breaks, axe finds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .watched import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

#: Each page by its path, with a text that stands at its end.
PAGES = {
    "": "The same from a shell", "capacity": "The same from a shell", "compare": "Memory of one GPU, by deployment",
    "explain": "Paste a log and press", "validate": "python -m validation", "learn": "Which models have one?",
    "method": "float64",
}  # fmt: skip
#: Parts that Streamlit 1.67 draws by itself: a drop zone with two roles, white names on chips, and the colours of code.
STREAMLITS_OWN = {
    "exclude": [
        ['[data-testid="stFileUploaderDropzone"]'], ['[data-testid="stMultiSelect"] span[title]'],
        ['[data-testid="stCode"] span.token'],
    ]
}  # fmt: skip


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide-light", "phone-dark"])
def visitor(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Watched]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield Watched(context.new_page(), address)
    context.close()


@pytest.mark.parametrize("path", PAGES, ids=[name or "plan" for name in PAGES])
def test_a_page_stands(visitor: Watched, path: str) -> None:
    """The last part is drawn, no error box, no console error, no other host, nothing wider than the window, no axe violation."""
    from axe_playwright_python.sync_playwright import Axe

    page = visitor.page
    page.goto(f"{visitor.address}/{path}")
    page.get_by_text(PAGES[path]).last.wait_for(timeout=90_000)
    page.wait_for_timeout(1500)
    wider = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=\"stMain\"]')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert wider == [0, 0]
    visitor.nothing_wrong()
    found = Axe().run(page, context=STREAMLITS_OWN).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
