"""The Learn page: every section stands, and its live figures are those of hand arithmetic."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui import learn_paging, learn_steps
from ui.i18n import t, texts

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def learn() -> AppTest:
    return AppTest.from_file(str(APP), default_timeout=60).switch_page("ui/learn.py").run()


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
    """fp8 is half; int8 in groups of 64 with 4 bytes of scale 68/128; int4 36/128. llama.cpp's q8_0 is 34 bytes for 32 numbers
    of two bytes, q4_0 18."""
    table = next(table.value for table in learn.table if t("learn.quantised.bytes") in table.value.columns)
    assert list(table[t("learn.quantised.share")]) == ["100.0%", "50.0%", "53.1%", "28.1%", "53.1%", "28.1%"]


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


def linked(**link: str) -> AppTest:
    page = AppTest.from_file(str(APP), default_timeout=60)
    for name, value in link.items():
        page.query_params[name] = value
    return page.switch_page("ui/learn.py").run()


def test_a_link_sets_every_widget() -> None:
    """Step 3: 3 tokens against 1, 6 against 3; 32 query heads of 64 keep 2 x 32 x 64 = 4,096 numbers, 4 of them 512."""
    page = linked(
        learn_model="meta-llama/Llama-3.1-8B", learn_step="3", learn_heads_query="32", learn_heads_kv="4", learn_heads_dim="64"
    )
    assert not page.exception
    assert not page.warning
    assert t("learn.steps.count", step=3, without=3, sum=6) in said(page)
    table = next(table.value for table in page.table if t("learn.heads.numbers") in table.value.columns)
    assert list(table[t("learn.heads.numbers")]) == ["4,096", "512", "128", "576"]
    assert any("meta-llama/Llama-3.1-8B" in box.value for box in page.info)


def test_more_kv_heads_than_query_heads_cannot_be() -> None:
    page = linked(learn_heads_query="4", learn_heads_kv="16")
    assert not page.exception
    table = next(table.value for table in page.table if t("learn.heads.numbers") in table.value.columns)
    numbers = list(table[t("learn.heads.numbers")])
    assert numbers[0] == numbers[1] == f"{2 * 4 * 128:,}"
    assert t("learn.heads.too_many", query=4) in said(page)


@pytest.mark.parametrize("link", [{"learn_step": "99"}, {"learn_model": "nobody"}, {"learn_gpu": "x"}, {"learn_block": "7"},
                                  {"learn_work_answer": "inf"}])  # fmt: skip
def test_what_a_link_says_wrongly_is_reported(link: dict[str, str]) -> None:
    page = linked(**link)
    assert not page.exception
    (name, value), = link.items()
    assert any(f"{name} = {value}" in box.value.replace("\\", "") for box in page.warning)


def test_what_helps_the_first_token(learn: AppTest) -> None:
    """Qwen2.5-72B keeps 2 x 80 x 8 x 128 x 2 B = 320 KiB a token: 5 more positions are 1.56 MiB, 4,096 in common 1.25 GiB,
    which 15 of 16 requests do not take again; 32,768 tokens are 16 chunks of 2,048."""
    chunked, prompt, speculative = next(box.value for box in learn.info if "1.56 MiB" in box.value).split("\n")
    assert "the KV cache stays 10.00 GiB; 16 passes of at most 2,048 tokens" in chunked
    assert "1.25 GiB stored once for 16 requests at the same time: 18.75 GiB less" in prompt
    assert t("learn.helpers.prompt.time", rest=28_672, prompt=32_768) in prompt
    assert "1.56 MiB more a request for 5 positions" in speculative


def test_one_answer_with_and_without(learn: AppTest) -> None:
    """512 + 1,024 tokens: 1,535 positions are kept, 320 KiB each; without a cache step t sends 511 + t tokens,
    1,024 x 511 + 1,024 x 1,025 / 2 in all."""
    table = next(table.value for table in learn.table if t("learn.work.what") in table.value.columns)
    without, with_ = list(table[t("learn.steps.without")]), list(table[t("learn.steps.with")])
    assert (without[0], with_[0]) == (f"{1024 * 511 + 1024 * 1025 // 2:,}", "1,535")
    assert (without[2], with_[2]) == ("0 B", f"{1535 * 320 / 1024:.2f} MiB")


def test_the_measured_curve_names_its_machine(learn: AppTest) -> None:
    """The curve of validation/results stands with model, machine and date, and its figures are the report's."""
    files = [json.loads(path.read_text()) for path in (APP.parent / "validation" / "results").glob("*.json")]
    report = max((one for one in files if one["speed"]), key=lambda one: one["created"])
    captions = [caption.value.replace("\\", "") for caption in learn.caption]
    assert any(report["device"]["name"] in text and report["created"][:10] in text for text in captions)
    last = [row for row in report["speed"]["curve"] if row["uncached_s"]][-1]
    times = last["uncached_s"] / last["cached_s"]
    assert t("learn.measured.point", tokens=last["new_tokens"], times=times) in said(learn)
