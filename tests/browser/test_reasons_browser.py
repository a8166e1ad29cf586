"""A figure's reason in the browser: opened by the keyboard, whole on a screen of any width, closed again with the focus kept."""

from __future__ import annotations

import pytest

from .watched import Watched, quiet

pytestmark = pytest.mark.browser

BODY = '[data-testid="stPopoverBody"]'


@pytest.mark.parametrize("screen", ["wide", "phone"])
@pytest.mark.parametrize(
    ("path", "key", "end"),
    [
        ("?model=google/gemma-3-27b-it&tokens=131072", "why_total", "= 11,173,199,872"),
        ("capacity", "why_term_1", "= 16,094,076,928"),
    ],
)  # fmt: skip
def test_a_reason_opens_by_the_keyboard_and_closes_again(page: Watched, path: str, key: str, end: str, screen: str) -> None:
    page.open(path)
    quiet(page.page)
    button = page.page.locator(f".st-key-{key} button").first
    button.focus()
    page.page.keyboard.press("Enter")
    body = page.page.locator(BODY).first
    body.wait_for()
    text = body.inner_text()
    assert end in text
    assert "python -m planner" in text
    box, width = body.bounding_box(), page.page.evaluate("window.innerWidth")
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    # Lines are broken, not cut: nothing in it has to be moved sideways.
    assert body.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    page.page.keyboard.press("Escape")
    body.wait_for(state="hidden")
    assert button.evaluate("e => e === document.activeElement")
    page.nothing_wrong()
