"""In a real browser: every file comes down, a saved plan is opened with its link, and a printed page has the whole answer."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from .watched import Watched

pytestmark = pytest.mark.browser

LONG = 60_000
VARIED = "vary=log-normal&prompt=800&prompt_p95=4000&load=250&node=8xh100&given.weights=2.5"


def taken(page: Watched, what: str, folder: Path) -> tuple[str, str]:
    """The name and the text of a file that is downloaded."""
    with page.page.expect_download(timeout=LONG) as download:
        page.page.locator(f".st-key-take_{what}").get_by_role("button").first.click()
    name = download.value.suggested_filename
    download.value.save_as(folder / name)
    return name, (folder / name).read_text(encoding="utf-8")


def opened(page: Watched, file: Path, words: str) -> None:
    """Open a saved plan, as a person does, and wait for the page to say these words."""
    page.page.locator('[class*="st-key-open_plan_box"]').get_by_role("button").first.click()
    page.page.locator('[class*="st-key-open_plan_"] input[type=file]').set_input_files(file)
    page.page.get_by_text(words).first.wait_for(timeout=LONG)


def test_every_file_of_a_plan_comes_down(page: Watched, tmp_path: Path) -> None:
    page.open("capacity?load=20")
    page.page.locator(".st-key-take_script").wait_for(timeout=LONG)
    said = page.page.get_by_text("Starts. 20 requests of 8,192 tokens").first.inner_text()
    files = dict(taken(page, what, tmp_path) for what in ("json", "markdown", "terms", "curve", "script"))
    assert list(files) == ["plan.json", "plan.md", "plan.csv", "curve.csv", "launch.sh"]
    plan = json.loads(files["plan.json"])
    assert plan["page"]["link"] == "capacity?load=20"
    assert f"**{said}**" in files["plan.md"]
    for one in ("plan.csv", "curve.csv"):
        assert len(list(csv.DictReader(io.StringIO(files[one])))) > 5
    assert files["launch.sh"].endswith(f"\n{plan['command']}\n")
    page.nothing_wrong()


def test_every_file_of_a_kv_answer_comes_down(page: Watched, tmp_path: Path) -> None:
    page.open("?tokens=1000&engine=vllm")
    files = dict(taken(page, what, tmp_path) for what in ("json", "markdown", "layers"))
    assert list(files) == ["kv.json", "kv.md", "layers.csv"]
    whole = json.loads(files["kv.json"])["kv_cache_bytes"]
    assert sum(int(row["bytes"]) for row in csv.DictReader(io.StringIO(files["layers.csv"]))) == whole
    assert f"({whole:,} bytes)" in files["kv.md"]
    page.nothing_wrong()


@pytest.mark.parametrize("begin", ["?engine=vllm&tokens=100&vllm.block_size=32", "capacity?load=3&server=sglang&price=2"])
def test_a_saved_plan_is_opened_from_either_page_with_its_link(page: Watched, tmp_path: Path, begin: str) -> None:
    page.open(f"capacity?{VARIED}")
    page.page.locator(".st-key-take_json").wait_for(timeout=LONG)
    said = page.page.get_by_text("tokens on average, up to").first.inner_text()
    name, text = taken(page, "json", tmp_path)
    page.open(begin)
    opened(page, tmp_path / name, said)
    page.page.get_by_text("Every input is as it was saved").wait_for(timeout=LONG)
    page.page.wait_for_url(f"**/{json.loads(text)['page']['link']}", timeout=LONG)
    page.page.reload()
    page.page.get_by_text(said).first.wait_for(timeout=LONG)
    assert page.page.locator(".st-key-price input").input_value() == ""
    page.nothing_wrong()


def test_a_bad_file_is_one_error(page: Watched, tmp_path: Path) -> None:
    page.open("capacity?load=21")
    file = tmp_path / "plan.json"
    file.write_text('{"schema_version": 99}', encoding="utf-8")
    opened(page, file, "plan.json was not opened, and nothing was changed")
    assert page.page.get_by_text("this planner reads up to 1").count() == 1
    assert page.page.locator(".st-key-load input").input_value() == "21"
    assert page.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("query", ["capacity?load=20", "?engine=vllm"])
def test_a_printed_page_has_the_whole_answer(page: Watched, tmp_path: Path, query: str, scheme: str) -> None:
    page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.open(query)
    page.page.locator(".st-key-take_json").wait_for(timeout=LONG)
    paper = page.page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 2
    page.page.emulate_media(media="print")
    page.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    seen = page.page.evaluate(
        """() => {
            const box = (e) => e.getBoundingClientRect(), all = (s) => [...document.querySelectorAll(s)]
            const main = document.querySelector('[data-testid="stMain"]')
            const ends = all('.js-plotly-plot .main-svg').map((e) => box(e).right)
            return {
                cut: main.scrollHeight - main.clientHeight,
                last: box(all('[data-testid="stCode"]').filter((e) => e.innerText.includes('python -m planner')).pop()).height,
                shown: all('[data-testid="stHeader"], .st-key-take_away, .st-key-language_choice, .modebar')
                    .concat(all('[class*="st-key-open_plan_box"]')).filter((e) => box(e).height > 0).length,
                wide: Math.max(...ends) - box(main).right,
                boxed: all('.js-plotly-plot .main-svg').every((e) => e.getAttribute('viewBox')),
                paper: getComputedStyle(document.querySelector('[data-testid="stApp"]')).backgroundColor,
                ink: getComputedStyle(document.querySelector('h1')).color,
            }
        }"""
    )
    assert seen["cut"] == 0
    assert seen["last"] > 0
    assert seen["shown"] == 0
    assert seen["wide"] <= 0
    assert seen["boxed"]
    assert (seen["paper"], seen["ink"]) == ("rgba(0, 0, 0, 0)", "rgb(11, 15, 25)")
    page.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.page.emulate_media(media="screen")
    assert page.page.locator(".st-key-take_json").is_visible()
    assert page.page.evaluate("document.querySelector('.main-svg').getAttribute('viewBox')") is None
    page.nothing_wrong()
