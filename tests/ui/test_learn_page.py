"""The Learn page: every section stands, and its live figures are those of hand arithmetic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui import learn_paging, learn_steps
from ui.i18n import t, texts

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def learn() -> AppTest:
    page = AppTest.from_file(str(APP), default_timeout=60).run()
    return page.switch_page("ui/learn.py").run()


def said(page: AppTest) -> str:
    return "\n".join(str(element.value) for kind in ("markdown", "caption", "info", "header") for element in getattr(page, kind))


def test_every_section_is_drawn(learn: AppTest) -> None:
    """No part fails, and each section of the contents has its header."""
    assert not learn.exception
    assert not learn.error
    titles = {header.value for header in learn.header}
    assert titles == {text for key, text in texts().items() if re.fullmatch(r"learn\.[a-z]+\.title", key)}


def test_the_price_of_qwen_72b(learn: AppTest) -> None:
    """2 x 80 x 8 x 128 x 32,768 x 2 B = 10 GiB; with hidden 8,192 in place of 8 x 128 it is 80 GiB, 8 times that. The weights'
    135.4 GiB are less than 14 x 10 GiB."""
    found = next(box.value for box in learn.info if "a request" in box.value and "weights take" in box.value)
    for figure in ("**10.00 GiB**", "**160 GiB**", "80.00 GiB, 8 times", "**14** requests"):
        assert figure in found


def test_what_heads_keep(learn: AppTest) -> None:
    """64 heads of 128: 2 x 64 x 128 = 16,384 numbers; 8 heads 2,048; one head 256; DeepSeek's latent 512 + 64."""
    table = next(table.value for table in learn.table if t("learn.heads.numbers") in table.value.columns)
    assert list(table[t("learn.heads.numbers")]) == ["16,384", "2,048", "256", "576"]


def test_what_storage_formats_keep(learn: AppTest) -> None:
    """fp8 is half; int8 in groups of 64 with 4 bytes of scale 68/128; int4 36/128."""
    table = next(table.value for table in learn.table if t("learn.quantised.bytes") in table.value.columns)
    assert list(table[t("learn.quantised.share")]) == ["100.0%", "50.0%", "53.1%", "28.1%"]


def test_a_step_of_the_matrix() -> None:
    """At step 5 there are 5 pairs for the newest token; the 10 before are computed again, or lie in the cache."""
    without, cached = learn_steps.cells(5, cached=False), learn_steps.cells(5, cached=True)
    assert {name: len(pairs) for name, pairs in without.items()} == {"new": 5, "again": 10}
    assert {name: len(pairs) for name, pairs in cached.items()} == {"new": 1, "read": 4, "kept": 10}
    assert sorted(pair for pairs in without.values() for pair in pairs) == sorted(
        pair for pairs in cached.values() for pair in pairs
    )


@pytest.mark.parametrize(
    ("lengths", "common", "block", "count", "shared", "empty"),
    [
        # 75 in 5 blocks, 52 in 4; 36 in common are 2 whole blocks: 7 blocks x 16 - (75 + 52 - 32) = 17.
        ((75, 52), 36, 16, 7, 2, 17),
        ((16, 16), 16, 16, 1, 1, 0),
        ((1, 1), 0, 32, 2, 0, 62),
        ((128, 128), 127, 8, 17, 15, 0),
    ],
)
def test_blocks(lengths: tuple[int, int], common: int, block: int, count: int, shared: int, empty: int) -> None:
    found = learn_paging.blocks(lengths, common, block)
    assert (len(found), sum(row[3] for row in found)) == (count, shared)
    assert len(found) * block - sum(row[2] for row in found) == empty


def test_a_moved_slider_moves_the_count(learn: AppTest) -> None:
    """Step 8: 8 tokens against 1, 36 against 8 so far."""
    page = learn.slider(key="learn_step").set_value(8).run()
    assert t("learn.steps.count", step=8, without=8, sum=36) in said(page)


@pytest.mark.parametrize("model", ["openai/whisper-large-v3", "google-bert/bert-base-multilingual-cased",
                                   "state-spaces/mamba-130m-hf", "deepseek-ai/DeepSeek-V3"])  # fmt: skip
def test_any_model_may_be_chosen(learn: AppTest, model: str) -> None:
    """Models with an encoder, without use for a cache, without attention, or of 671 B leave a page that stands."""
    page = learn.selectbox(key="learn_model").set_value(model).run()
    assert not page.exception
    assert model in said(page)
    assert not page.error
