"""The keyboard alone: a model and a GPU are picked, an answer read, a part opened, another page reached, and focus is seen."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageChops

from .watched import Watched, quiet

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

_MOST_TABS = 90
#: What has the focus: its name or words, and the classes around it.
FOCUSED = """() => {
    const e = document.activeElement
    const around = []
    for (let up = e; up; up = up.parentElement) around.push(...[...up.classList].filter(c => c.startsWith('st-key-')))
    return [(e.getAttribute('aria-label') || e.innerText || '').trim(), around, e.tagName]
}"""


def reach(page: Page, key: str = "", words: str = "", tag: str = "") -> None:
    """Press Tab until something with this key around it, these words or this name has the focus."""
    for _ in range(_MOST_TABS):
        page.keyboard.press("Tab")
        name, around, kind = page.evaluate(FOCUSED)
        if (not key or f"st-key-{key}" in around) and (not words or words in name) and (not tag or kind == tag):
            return
    pytest.fail(f"{_MOST_TABS} times Tab did not reach {key or words or tag}")


def test_a_model_and_a_gpu_are_picked_and_the_answer_read(page: Watched) -> None:
    """As the page's own browser test does with a mouse: Gemma's cache at 32,768 tokens, then on an L4."""
    page.open()
    page.answer("10.00 GiB")
    keyboard = page.page.keyboard
    reach(page.page, key="model", tag="INPUT")
    keyboard.press("ControlOrMeta+a")
    keyboard.type("google/gemma-3-27b-it")
    page.page.get_by_role("option", name="google/gemma-3-27b-it", exact=True).first.wait_for()
    keyboard.press("Enter")
    page.answer("2.91 GiB")
    reach(page.page, key="gpu", tag="INPUT")
    keyboard.press("ControlOrMeta+a")
    keyboard.type("L40S")
    page.page.get_by_role("option", name="L40S", exact=True).first.wait_for()
    keyboard.press("Enter")
    page.page.get_by_text("On one L40S").first.wait_for(timeout=30_000)
    assert "gpu=L40S" in page.page.url
    page.nothing_wrong()


def test_a_part_is_opened_and_closed(page: Watched) -> None:
    page.page.goto(f"{page.address}/learn")
    page.page.get_by_text("Which models have one?").wait_for(timeout=60_000)
    question = page.page.get_by_text("Does the KV cache change the answers?")
    question.scroll_into_view_if_needed()
    answer = page.page.get_by_text("It stores numbers that would be computed again unchanged")
    assert not answer.is_visible()
    page.page.get_by_role("link", name="Measure a cache").focus()
    reach(page.page, words="Does the KV cache change the answers?")
    page.page.keyboard.press("Enter")
    answer.wait_for()
    page.page.keyboard.press("Enter")
    answer.wait_for(state="hidden")


def test_a_slider_and_a_choice_are_moved(page: Watched) -> None:
    page.page.goto(f"{page.address}/learn")
    page.page.get_by_text("Which models have one?").wait_for(timeout=60_000)
    quiet(page.page)
    reach(page.page, key="learn_step")
    page.page.keyboard.press("ArrowRight")
    page.page.get_by_text("Step 6: without a cache").wait_for(timeout=30_000)
    reach(page.page, key="learn_block")
    for _ in range(3):
        if page.page.evaluate(FOCUSED)[0] != "32":
            page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**learn_block=32*", timeout=30_000)


def test_another_page_is_reached_by_the_navigation(page: Watched) -> None:
    page.open()
    reach(page.page, words="Compare", tag="A")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**/compare*")
    page.page.get_by_text("Models, engines and GPUs side by side").wait_for(timeout=60_000)
    page.nothing_wrong()


def test_the_skip_link_leads_past_the_navigation(page: Watched) -> None:
    """The first Tab stands on it, and the next after it is inside the page and no link of the navigation."""
    page.open()
    page.page.keyboard.press("Tab")
    assert "skip" in page.page.evaluate(FOCUSED)[0].lower()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.querySelector('[data-testid=\"stMain\"]').contains(document.activeElement)")


@pytest.mark.parametrize("path", ["", "compare", "learn"])
def test_the_focus_is_seen_wherever_tab_stands(page: Watched, path: str) -> None:
    """Something around what has the focus is painted in another way than without it."""
    page.page.goto(f"{page.address}/{path}")
    page.page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
    quiet(page.page)
    unseen = []
    for _ in range(24):
        page.page.keyboard.press("Tab")
        box = page.page.evaluate(
            "() => { const b = document.activeElement.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] }"
        )
        name = page.page.evaluate(FOCUSED)[0]
        if box[2] == 0 or name == "":
            continue
        clip = {"x": max(0, box[0] - 12), "y": max(0, box[1] - 12), "width": box[2] + 24, "height": box[3] + 24}
        with_focus = _shot(page.page, clip)
        page.page.evaluate("window.hadFocus = document.activeElement; document.activeElement.blur()")
        page.page.wait_for_timeout(250)
        without = _shot(page.page, clip)
        page.page.evaluate("window.hadFocus.focus()")
        if ImageChops.difference(with_focus, without).getbbox() is None:
            unseen.append(name)
    assert unseen == []


def _shot(page: Page, clip: dict[str, float]) -> Image.Image:
    page.wait_for_timeout(150)
    return Image.open(io.BytesIO(page.screenshot(clip=clip, caret="hide"))).convert("RGB")  # type: ignore[arg-type]
