"""What does the Plan page say and draw for an engine? Its figure is the library's, or its refusal is one message."""

from __future__ import annotations

import json

import pytest

from planner.cache import architecture_bytes
from planner.engines import ENGINES
from planner.engines.explain import TEXTS
from planner.engines.waste import shared_prefix_saving, waste
from ui import charts, engine_answer, engine_fields, i18n, waterfall
from ui import format as fmt
from ui.engine_fields import LABELS
from ui.model_input import from_catalogue

from .asked import B200, CHOICES, GEMMA, MODELS, asked, bytes_of, choice_of, command, has_encoder
from .conftest import OpenPage
from .test_plan_page import faults, texts, total


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("option", CHOICES)
def test_each_engines_answer_is_the_librarys_or_its_refusal(open_page: OpenPage, option: str, model: str) -> None:
    page = open_page(engine=option, model=model, tokens=4_000, requests=3)
    told = [text for text in faults(page) if "more than the" not in text]  # beyond the model's own limit
    encoder = has_encoder(model)
    plain = architecture_bytes(from_catalogue(model), 4_000, 3, encoder_tokens=encoder)
    wanted = asked(option, model, encoder=encoder)
    if isinstance(wanted, str):
        (message,) = told
        assert wanted[5:40] in message.replace("\\", "")
        assert page.metric[0].delta == fmt.exact(plain.total_bytes)  # the architecture's answer stands
        return
    assert told == []
    assert page.metric[0].delta == fmt.exact(wanted)
    assert page.metric[1].delta == fmt.exact(plain.total_bytes)
    assert str(page.metric[0].label) == LABELS[option]


def test_the_default_is_the_architecture(open_page: OpenPage) -> None:
    page = open_page()
    assert page.selectbox(key="engine").value == "architecture"
    assert total(page) == "10.00 GiB"
    assert "--engine" not in command(page)


def test_the_difference_is_told_in_words_and_adds_up(open_page: OpenPage) -> None:
    page = open_page(model=GEMMA, engine="vllm", tokens=131_072, gpu="h100")
    said = texts(page).replace("\\", "")
    assert "+6.51 GiB: window layers hold up to 17,424 positions instead of 1,023 on 52 layers" in said
    figure = next(
        json.loads(chart.proto.spec)["data"][0] for chart in page.get("plotly_chart") if "waterfall" in chart.proto.spec
    )
    assert sum(figure["x"][:-1]) == pytest.approx(figure["x"][-1])


def test_the_gpu_decides_where_it_does(open_page: OpenPage) -> None:
    """An H100 runs batches of 8,192 tokens and a B200 of 16,384, so that a window keeps more in flight."""
    on = {name: total(open_page(model=GEMMA, engine="vllm", tokens=131_072, gpu=name)) for name in ("h100", "b200")}
    assert on == {"h100": "17.98 GiB", "b200": "25.48 GiB"}


def test_the_layers_are_the_engines(open_page: OpenPage) -> None:
    page = open_page(model=GEMMA, engine="vllm", tokens=131_072, gpu="h100")
    rows = page.dataframe[-1].value.to_dict("records")
    assert rows[0]["Positions held"] == "17,424"
    assert rows[-1]["Kind"] == "padding"
    assert sum(row["Bytes"] for row in rows) == int(str(page.metric[0].delta).split()[0].replace(",", ""))


@pytest.mark.parametrize(("option", "role"), [("vllm", "tp"), ("sglang", "tp"), ("tensorrt-llm", "tp"), ("tgi", "tp")])
def test_two_gpus_take_half_each(open_page: OpenPage, option: str, role: str) -> None:
    page = open_page(engine=option)
    key = engine_fields.key(option, engine_fields.IN_SIGHT[option][role])
    page.number_input(key=key).set_value(2).run()
    assert total(page) == "5.00 GiB"
    assert "even share of 2 GPUs" in texts(page)
    assert str(page.metric[0].label) == f"{LABELS[option]}, a GPU"


def test_pipeline_stages_draw_the_fullest(open_page: OpenPage) -> None:
    page = open_page(model=GEMMA, engine="vllm", **{"vllm.pipeline_parallel_size": 2})
    assert faults(page) == []
    assert page.metric[0].delta == fmt.exact(bytes_of("vllm", GEMMA, 32_768, 1, pipeline_parallel_size=2))


def test_what_is_lost_in_blocks_is_said(open_page: OpenPage) -> None:
    page = open_page(model="meta-llama/Llama-3.1-8B", engine="vllm", tokens=1_000, requests=4)
    assert "**4.00 MiB** (4,194,304 bytes) is lost in last blocks" in texts(page)
    page.number_input(key="tokens").set_value(1_008).run()
    assert "Nothing is lost" in texts(page)


def test_every_part_of_the_loss_is_the_librarys(open_page: OpenPage) -> None:
    page = open_page(model=GEMMA, engine="vllm", tokens=131_072, requests=2, gpu="h100")
    vllm = ENGINES["vllm"]
    found = waste(from_catalogue(GEMMA), vllm, vllm.Settings(), 131_072, 2, "h100")
    assert f"({fmt.exact(found.reserved_bytes)}) is set aside" in texts(page)
    assert f"({fmt.exact(found.padding_bytes)}) is padding" in texts(page)


def test_a_shared_prefix_saves_whole_blocks(open_page: OpenPage) -> None:
    page = open_page(model="meta-llama/Llama-3.1-8B", engine="vllm", requests=8)
    page.number_input(key="prefix").set_value(1_000).run()
    vllm = ENGINES["vllm"]
    saved = shared_prefix_saving(from_catalogue("meta-llama/Llama-3.1-8B"), vllm, vllm.Settings(), 1_000, 8, B200)
    assert f"({fmt.exact(saved)}): 992 tokens in whole blocks of 16" in texts(page)
    page.number_input(key="requests").set_value(1).run()
    assert "nothing is shared" in texts(page)


def test_every_reason_has_a_name_on_its_bar() -> None:
    assert {f"reason.{code}" for code in TEXTS} <= set(i18n.texts())


def test_the_waterfall_says_its_signs_in_words() -> None:
    page_answer = engine_answer.ask(
        from_catalogue(GEMMA), choice_of("vllm", tensor_parallel_size=2), architecture_bytes(from_catalogue(GEMMA), 131_072), None
    )
    assert isinstance(page_answer, engine_answer.Answer)
    bars = waterfall.figure("vLLM", page_answer.plain.total_bytes, page_answer.reasons)["data"][0]
    assert bars["measure"][0] == "absolute"
    assert bars["measure"][-1] == "total"
    assert all(text[0] in "+−" for text in bars["text"][1:-1])
    assert bars["text"][-1] == fmt.size(page_answer.cache.total_bytes)


def test_parts_that_are_no_layer_are_drawn_too() -> None:
    found = engine_answer.ask(from_catalogue(GEMMA), choice_of("vllm"), architecture_bytes(from_catalogue(GEMMA), 4_096), None)
    assert isinstance(found, engine_answer.Answer)
    names = {trace["legendgroup"] for trace in charts.layers(found.cache)["data"]}
    assert names == {"full", "sliding", "padding"}
