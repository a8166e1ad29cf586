"""Every page in a real browser, light and dark, wide and on a phone: it stands, nothing is cut or breaks, axe finds nothing.

Each visit leaves a picture of the whole page in $SCREENSHOTS, or in build/screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from .watched import Watched, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

LONG = 90_000
PICTURES = Path(os.environ.get("SCREENSHOTS") or Path(__file__).resolve().parents[2] / "build" / "screenshots")
#: Each page by its path, with a text that stands at its end.
PAGES = {
    "": "The same from a shell", "capacity": "The same from a shell", "compare": "Memory of one GPU, by deployment",
    "explain": "Paste a log and press", "validate": "python -m validation", "learn": "Which models have one?",
    "method": "float64",
}  # fmt: skip
#: What Streamlit 1.67 does by itself, as (rule, what the element has): its drop zone has a role that says it is nothing and a
#: name that says what it is, there is no other way to upload a file, and pages keep it behind a button; an open list of choices
#: stands outside of the page's regions. Of everything else axe is asked every rule.
STREAMLITS_OWN = (("presentation-role-conflict", "stFileUploaderDropzone"), ("region", 'role="listbox"'))


def violations(page: Page) -> list[tuple[str, str]]:
    """What axe finds on the page as it stands: (rule, element)."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (one["id"], node["html"][:200])
        for one in Axe().run(page).response["violations"] for node in one["nodes"]
        if not any(one["id"] == rule and element in node["html"] for rule, element in STREAMLITS_OWN)
    ]  # fmt: skip


def picture(page: Page, name: str) -> None:
    """The whole page as a PNG, the window being made as high as the content; it is as wide as the window and shows something."""
    size = page.viewport_size
    assert size is not None
    height = int(page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": min(height + 60, 8_000)})
    page.wait_for_timeout(800)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    page.set_viewport_size(size)
    with Image.open(path) as image:
        assert (image.format, image.width) == ("PNG", size["width"])
        assert image.height > 400
        colours = image.convert("RGB").getcolors(image.width * image.height)
    assert colours is not None
    assert len(colours) > 20
    assert max(count for count, _ in colours) < 0.995 * image.width * image.height


def nothing_is_wider(page: Page) -> None:
    wider = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=\"stMain\"]')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert wider == [0, 0]


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide-light", "phone-dark"])
def visitor(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Watched]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500)
    yield Watched(context.new_page(), address)
    context.close()


@pytest.mark.parametrize("path", PAGES, ids=[name or "plan" for name in PAGES])
def test_a_page_stands(visitor: Watched, path: str, request: pytest.FixtureRequest) -> None:
    """The last part is drawn, no error box, no console error, no other host, nothing wider than the window, no axe violation."""
    page = visitor.page
    page.goto(f"{visitor.address}/{path}")
    page.get_by_text(PAGES[path]).last.wait_for(timeout=LONG)
    quiet(page)
    nothing_is_wider(page)
    visitor.nothing_wrong()
    assert violations(page) == []
    picture(page, f"{path or 'plan'}-{request.node.callspec.id.rpartition('-' + (path or 'plan'))[0]}")


def unfold(page: Page) -> None:
    """Open every part that is closed."""
    closed = page.locator('[data-testid="stMain"] details:not([open]) > summary')
    for _ in range(closed.count()):
        closed.first.click()
    quiet(page)
    assert closed.count() == 0


def example(page: Page) -> None:
    page.locator(".st-key-explain_example button").click()
    page.get_by_text("Printed and worked out").wait_for(timeout=LONG)
    unfold(page)


def upload(page: Page) -> None:
    page.locator(".st-key-explain_upload_more button").first.click()
    page.get_by_test_id("stFileUploaderDropzone").wait_for(timeout=LONG)


def reasons(page: Page) -> None:
    """The reason of the first figure."""
    quiet(page)
    page.get_by_text("Why 10.00 GiB?").first.click()
    page.get_by_test_id("stPopoverBody").first.wait_for(timeout=LONG)


def list_of_models(page: Page) -> None:
    page.locator(".st-key-models input").last.click()
    page.get_by_role("option").first.wait_for(timeout=LONG)


#: By name: the link, a text that stands there, what a person does, and whether the page then says that something is wrong.
STATES: dict[str, tuple[str, str, Callable[[Page], Any] | None]] = {
    "plan-unfolded": ("?model=google/gemma-3-27b-it&engine=vllm&requests=4", "The same from a shell", unfold),
    "plan-why": ("", "The same from a shell", reasons),
    "plan-refused": ("?model=openai/whisper-large-v3&engine=sglang&tokens=448", "The same from a shell", None),
    "plan-wrong-link": ("?tokens=many&gpu=banana", "could not be used", None),
    "capacity-refused": (
        "capacity?model=Qwen/Qwen2.5-72B&node=a100&gpus=3&vllm.tensor_parallel_size=3", "refuse", unfold,
    ),
    "capacity-error": ("capacity?node=banana", "banana", None),
    "capacity-unfolded": ("capacity?node=l4", "The same from a shell", unfold),
    "compare-detail": ("compare?row=2&order=free", "What starts it", unfold),
    "compare-refused": ("compare?models=meta-llama/Llama-3.1-8B&engines=llama.cpp&dtypes=fp8&row=0", "refused", None),
    "compare-list": ("compare", "Memory of one GPU, by deployment", list_of_models),
    "compare-nothing": ("compare?models=", "Pick at least one of each", None),
    "explain-example": ("explain", "Paste a log and press", example),
    "explain-upload": ("explain", "Paste a log and press", upload),
    "validate-wrong": ("validate?validate_tokens=x&validate_layers=999", "whole numbers", None),
    "validate-results": ("validate?validate_source=results", "Every figure", unfold),
    "learn-unfolded": ("learn", "Which models have one?", unfold),
    "plan-zh-CN": ("?lang=zh-CN", "命令行", None),
    "capacity-zh-CN": ("capacity?lang=zh-CN", "命令行", None),
    "compare-zh-TW": ("compare?lang=zh-TW&row=1", "啟動它的命令", None),
    "learn-zh-CN": ("learn?lang=zh-CN", "哪些模型有 KV 缓存", unfold),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing_in_what_a_person_opens(browser: Browser, address: str, state: str) -> None:
    """Parts unfolded, lists and small windows open, errors and refusals, other languages: light when wide, dark on a phone."""
    link, text, act = STATES[state]
    phone = list(STATES).index(state) % 2 == 1
    context = browser.new_context(
        viewport={"width": 390 if phone else 1280, "height": 900}, color_scheme="dark" if phone else "light", has_touch=phone
    )
    visitor = Watched(context.new_page(), address)
    page = visitor.page
    page.goto(f"{address}/{link}")
    page.get_by_text(text).last.wait_for(timeout=LONG, state="attached")
    quiet(page)
    if act is not None:
        act(page)
    found = violations(page)
    picture(page, f"{state}-{'phone-dark' if phone else 'wide-light'}")
    assert found == []
    assert visitor.wrong == []
    assert page.get_by_test_id("stException").count() == 0
    nothing_is_wider(page)
    context.close()


@pytest.mark.parametrize(("form", "start"), [("PNG", b"\x89PNG"), ("SVG", b"<svg")])
def test_a_picture_is_saved(visitor: Watched, form: str, start: bytes, tmp_path: Path) -> None:
    """By the figure's own button, which on a phone always shows, in the format that is chosen below the page."""
    page = visitor.page
    page.goto(f"{visitor.address}/compare?models=meta-llama/Llama-3.1-8B")
    figure = page.locator('.st-key-compare_chart[data-stale="false"]')  # a figure that is drawn anew keeps the old one a moment
    figure.locator(".main-svg").first.wait_for(timeout=LONG)
    quiet(page)
    if form == "SVG":
        page.locator(".st-key-picture_format").get_by_text("SVG").click()
        quiet(page)
    figure.scroll_into_view_if_needed()
    figure.hover()
    button, legend = (figure.locator(name).first.bounding_box() for name in (".modebar-btn", ".legend"))
    assert button is not None
    assert legend is not None
    assert button["y"] + button["height"] <= legend["y"] + 1  # it stands above, and hides nothing
    with page.expect_download() as download:
        figure.get_by_role("button").first.click()
    assert download.value.suggested_filename == f"compare_chart.{form.lower()}"
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes().startswith(start)
    assert visitor.wrong == []
