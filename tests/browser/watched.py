"""A page in the browser with everything that goes wrong on it, and what a person does there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

TOTAL = '[data-testid="stMetricValue"] >> nth=0'


class Watched:
    """A page with everything that went wrong on it: console errors, script errors, requests to other hosts."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address, self.wrong = page, address, list[str]()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self._on_request(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        # Opened on a page's own path, Streamlit looks for its server below that path first.
        searching = "404" in message.text and "/_stcore/" in message.location["url"]
        if message.type == "error" and not searching:
            self.wrong.append(message.text)

    def _on_request(self, url: str) -> None:
        if not url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.wrong.append(f"asked another host: {url}")

    def open(self, query: str = "") -> None:
        self.page.goto(f"{self.address}/{query}")
        self.page.locator(TOTAL).wait_for(timeout=60_000)
        self.page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)

    def answer(self, text: str) -> None:
        from playwright.sync_api import expect

        expect(self.page.locator(TOTAL)).to_have_text(text, timeout=15_000)

    def nothing_wrong(self) -> None:
        assert self.page.locator('[data-testid="stException"]').count() == 0
        assert self.page.locator('[data-testid="stAlertContentError"]').count() == 0
        assert self.wrong == [], self.wrong


def choose(page: Page, key: str, text: str) -> None:
    """Pick `text` in the select box with this key, as a person would: open, type, Enter."""
    box = page.locator(f".st-key-{key} input")
    box.click()
    box.fill(text)
    page.get_by_role("option", name=text, exact=True).first.wait_for()
    page.keyboard.press("Enter")


def quiet(page: Page) -> None:
    """Wait until the page has drawn all that was asked, and stands still."""
    page.wait_for_timeout(300)
    page.wait_for_function("!document.querySelector('[data-testid=\"stStatusWidget\"]')", timeout=90_000)
    page.wait_for_function(_STILL, timeout=90_000)


#: True where the words of the page have been the same for a while.
_STILL = """() => {
    const text = document.querySelector('[data-testid="stMain"]')?.innerText ?? ''
    const now = performance.now(), last = window.seenWords
    if (!last || last.text !== text) { window.seenWords = { text, since: now }; return false }
    return now - last.since > 700
}"""
