"""The engines on the Plan page: every engine's figure is the library's; what cannot be is one message with the rest standing."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from model_configs import catalogue
from planner import cli
from planner.cache import architecture_bytes
from planner.engines import ENGINES
from planner.engines.base import allocated
from planner.engines.explain import TEXTS
from planner.engines.waste import shared_prefix_saving, waste
from planner.errors import PlannerError
from planner.hardware import gpu
from ui import charts, engine_answer, engine_dtypes, engine_fields, i18n, side_by_side, waterfall
from ui import command as shell
from ui import format as fmt
from ui.engine_fields import LABELS, OPTIONS
from ui.inputs import Workload
from ui.model_input import from_catalogue

from .conftest import OpenPage
from .test_plan_page import config, faults, pasted, texts, total

ROOT = Path(__file__).resolve().parents[2]
B200 = gpu("b200")
CHOICES = OPTIONS[1:]
MODELS = (
    "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "openai/whisper-large-v3", "deepseek-ai/DeepSeek-V4-Flash",
)  # fmt: skip
GEMMA = "google/gemma-3-27b-it"


def asked(option: str, model: str, tokens: int = 4_000, requests: int = 3, encoder: int = 0, **settings: object) -> int | str:
    """What the library says, asked directly: bytes, or the words of its refusal."""
    own = {"front_end": "ollama"} if option == "ollama" else {}
    known = engine_fields.engine_of(option)
    try:
        cache = allocated(from_catalogue(model), known, known.Settings(**own, **settings), tokens, requests, B200, encoder)
    except PlannerError as refused:
        return refused.message
    return cache.total_bytes


def bytes_of(option: str, model: str, tokens: int, requests: int, **settings: object) -> int:
    found = asked(option, model, tokens, requests, **settings)  # type: ignore[arg-type]
    assert isinstance(found, int), found
    return found


def has_encoder(model: str) -> int:
    return 1_500 if "whisper" in model else 0


def command(page: AppTest) -> str:
    return next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner"))


def ran(line: str) -> int:
    words = [sys.executable, *shlex.split(line)[1:], "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return int(json.loads(done.stdout)["kv_cache_bytes"])


def side_table(page: AppTest) -> dict[str, dict[str, str]]:
    rows = next(table.value for table in page.table if "Engine" in table.value.columns).to_dict("records")
    return {row["Engine"]: row for row in rows}


# The answer


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


# Settings


@pytest.mark.parametrize("option", CHOICES)
def test_every_setting_in_sight_is_one_of_the_engines(option: str) -> None:
    every = engine_fields.fields(option)
    assert set(engine_fields.IN_SIGHT[option].values()) <= set(every)
    assert all(f"field.{role}" in i18n.texts() for role in engine_fields.IN_SIGHT[option])


@pytest.mark.parametrize("option", CHOICES)
def test_every_version_on_offer_works(open_page: OpenPage, option: str) -> None:
    page = open_page(engine=option, model="meta-llama/Llama-3.1-8B")
    for version in engine_fields.versions(option):
        page.selectbox(key=engine_fields.key(option, "version")).set_value(version).run()
        assert faults(page) == [], version
        assert page.metric[0].label == LABELS[option]


def test_a_version_changes_the_rules(open_page: OpenPage) -> None:
    """vLLM 0.8 gives every layer its own blocks and knows no window."""
    page = open_page(model=GEMMA, engine="vllm")
    now = total(page)
    page.selectbox(key="vllm.version").set_value("0.8.0").run()
    assert total(page) == "15.50 GiB" != now
    assert page.metric[0].delta == fmt.exact(bytes_of("vllm", GEMMA, 32_768, 1, version="0.8.0"))


@pytest.mark.parametrize(("option", "version"), [("vllm", "nine"), ("sglang", "0.0.1"), ("ollama", "0.20.0"), ("llama.cpp", "x")])
def test_a_version_that_is_none_is_one_message(open_page: OpenPage, option: str, version: str) -> None:
    page = open_page(engine=option, **{f"{option}.version": version})
    (message,) = faults(page)
    assert "architecture's figure below still stands" in message
    assert total(page) == "10.00 GiB"


@pytest.mark.parametrize(
    ("option", "name", "value", "says"),
    [
        ("vllm", "max_model_len", 0, "at least 1"),
        ("vllm", "tensor_parallel_size", 3, "3"),
        ("vllm", "block_size", 7, "7"),
        ("tgi", "num_shard", 16, "16 shards"),
        ("llama.cpp", "n_seq_max", 300, "256"),
    ],
)
def test_a_setting_that_cannot_be_is_one_message(
    open_page: OpenPage, option: str, name: str, value: int, says: str
) -> None:
    page = open_page(engine=option, requests=2)
    page.number_input(key=f"{option}.{name}").set_value(value).run()
    (message,) = faults(page)
    assert says in message.replace("\\", "")
    assert "still stands" in message
    assert total(page) == "20.00 GiB"
    page.number_input(key=f"{option}.{name}").set_value(None if name != "num_shard" else 1).run()
    if name != "tensor_parallel_size":
        assert faults(page) == []


def test_settings_come_from_the_link_and_what_cannot_is_said(open_page: OpenPage) -> None:
    good = {"vllm.tensor_parallel_size": 2, "vllm.kv_cache_dtype": "fp8", "vllm.enable_prefix_caching": "off"}
    page = open_page(engine="vllm", **good)
    assert faults(page) == []
    assert total(page) == "2.50 GiB"
    bad = {"vllm.tensor_parallel_size": "many", "engine": "vllm"}
    (message,) = faults(open_page(**bad))
    assert "tensor" in message
    (message,) = faults(open_page(engine="ghost"))
    assert "ghost" in message
    (message,) = faults(open_page(engine="vllm", kv="int2"))
    assert "int2" in message
    assert total(open_page(engine="vllm", kv="fp8")) == "5.00 GiB"


def test_llama_cpps_default_type_is_no_choice_for_others(open_page: OpenPage) -> None:
    page = open_page(engine="llama.cpp")
    page.selectbox(key="engine").set_value("vllm").run()
    assert page.selectbox(key="vllm.kv_cache_dtype").value == "auto"


def test_an_unset_switch_is_the_engines_default(open_page: OpenPage) -> None:
    page = open_page(engine="vllm")
    assert page.segmented_control(key="vllm.enable_prefix_caching").value is None
    page.segmented_control(key="vllm.enable_prefix_caching").set_value("off").run()
    assert "--set enable_prefix_caching=false" in command(page)
    assert "keeps no common prefix once" in texts(page)


def test_the_kv_dtype_moves_from_engine_to_engine(open_page: OpenPage) -> None:
    page = open_page(kv="fp8")
    for option, key, word in (
        ("vllm", "vllm.kv_cache_dtype", "fp8"), ("sglang", "sglang.kv_cache_dtype", "fp8_e4m3"),
        ("tgi", "tgi.kv_cache_dtype", "fp8_e4m3fn"), ("architecture", "kv", "fp8"),
    ):  # fmt: skip
        page.selectbox(key="engine").set_value(option).run()
        assert page.selectbox(key=key).value == word
        assert total(page) == "5.00 GiB"
    page.selectbox(key="engine").set_value("vllm").run()
    page.number_input(key="vllm.tensor_parallel_size").set_value(4).run()
    page.selectbox(key="engine").set_value("tensorrt-llm").run()
    assert page.number_input(key="tensorrt-llm.tensor_parallel_size").value == 4


@pytest.mark.parametrize("option", CHOICES)
def test_a_word_means_settings_that_mean_the_word(option: str) -> None:
    for word in ("bfloat16", "float16", "float32", "fp8", "int8", "int4", "int2"):
        values = engine_dtypes.settings_for(option, word)
        if values is None or (option == "tgi" and word != "fp8"):  # 16 bits are TGI's default
            continue
        if word == "float16" and "cache_type_k" in values:  # and f16 is llama.cpp's
            continue
        settings = engine_fields.engine_of(option).Settings(**values)
        assert engine_dtypes.word_of(option, settings.model_dump()) == word


# All engines side by side


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("word", ["auto", "fp8"])
def test_the_table_has_the_librarys_figures(open_page: OpenPage, model: str, word: str) -> None:
    page = open_page(model=model, kv=word, tokens=4_000, requests=3)
    table = side_table(page)
    assert list(table) == ["architecture", *LABELS.values()]
    column = next(name for name in table["architecture"] if name.startswith("KV cache"))
    scale = {"GiB": 2**30, "MiB": 2**20}[column[10:13]]
    plain = architecture_bytes(
        from_catalogue(model), 4_000, 3, kv_cache_dtype=None if word == "auto" else word, encoder_tokens=has_encoder(model)
    ).total_bytes
    for option in CHOICES:
        row = table[LABELS[option]]
        values = engine_dtypes.settings_for(option, word)
        wanted = asked(option, model, encoder=has_encoder(model), **(values or {}))
        if isinstance(wanted, str):
            assert row[column] == "–"
            assert wanted[5:40] in row["Against the architecture"].replace("\\", "")
            continue
        assert row[column] == f"{wanted / scale:,.2f}"
        change = fmt.size(abs(wanted - plain)) if wanted != plain else "the same"
        assert change in row["Against the architecture"]
        assert ("default KV dtype" in row["Against the architecture"]) == (values is None)


def test_two_pasted_models_are_not_taken_for_each_other(open_page: OpenPage) -> None:
    """Both are called the same; the table is kept by content."""
    page = pasted(open_page(tokens=1_024), config())
    first = side_table(page)["vLLM"]
    page.text_area(key="paste").set_value(config(num_key_value_heads=4)).run()
    assert side_table(page)["vLLM"] != first


def test_a_model_read_with_a_token_is_kept_by_its_content_only() -> None:
    """What is kept for all sessions is named by commit or content, never by anything a person typed."""
    key = side_by_side.identity(from_catalogue(GEMMA))
    assert GEMMA in key
    assert "hf_" not in key


# Paging


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


# The command line


LINES = {
    "vllm": {"model": GEMMA, "tokens": 131_072, "vllm.tensor_parallel_size": 2, "vllm.kv_cache_dtype": "fp8"},
    "vllm on another card": {"model": "google/gemma-2-9b-it", "engine": "vllm", "gpu": "l4", "requests": 2, "tokens": 8_000},
    "vllm of another time": {"engine": "vllm", "vllm.version": "0.11.0", "vllm.block_size": 32, "model": GEMMA},
    "sglang": {"sglang.page_size": 64, "sglang.context_length": 8_192, "sglang.disable_radix_cache": "true", "tokens": 1_000},
    "tensorrt-llm": {"tensorrt-llm.kv_cache_dtype": "fp8", "tensorrt-llm.tensor_parallel_size": 2, "tokens": 1_000},
    "tgi": {"tgi.num_shard": 2, "tgi.attention": "paged", "tokens": 1_000, "tgi.version": "3.0.0"},
    "llama.cpp": {"llama.cpp.cache_type_k": "q8_0", "llama.cpp.cache_type_v": "q8_0", "requests": 3, "tokens": 1_000},
    "two types": {"engine": "llama.cpp", "llama.cpp.cache_type_k": "q8_0", "llama.cpp.flash_attn": "on", "model": GEMMA},
    "ollama": {"model": "openai/gpt-oss-120b", "requests": 2},
    "transformers": {"cache": "quantized", "transformers.backend": "hqq", "transformers.nbits": 8},
    "encoder": {"engine": "vllm", "model": "openai/whisper-large-v3", "tokens": 448},
}


@pytest.mark.parametrize("name", LINES)
def test_the_line_gives_the_pages_figure(open_page: OpenPage, name: str) -> None:
    link = LINES[name]
    page = open_page(**{"engine": name, **link})
    assert faults(page) == []
    assert fmt.exact(ran(command(page))) == page.metric[0].delta


@pytest.mark.parametrize("card", ["l4", "a100", "b200"])
def test_vllms_line_gives_the_figure_on_each_card(card: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Block sizes and batches follow the GPU's memory and generation, in the shell as on the page."""
    compared = 0
    for entry in catalogue.entries()[::5]:
        model, load = from_catalogue(entry.id), Workload(20_000, 2, None, gpu(card), card)
        choice = _choice("vllm")
        plain = architecture_bytes(model, 20_000, 2)
        found = engine_answer.ask(model, choice, plain, load.gpu)
        if not isinstance(found, engine_answer.Answer):
            continue
        cli.main([*shlex.split(shell.line(model, entry.id, load, 0, choice))[3:], "--json"])
        assert json.loads(capsys.readouterr().out)["kv_cache_bytes"] == found.cache.total_bytes, entry.id
        compared += 1
    assert compared >= 25


# The figures


def test_every_reason_has_a_name_on_its_bar() -> None:
    assert {f"reason.{code}" for code in TEXTS} <= set(i18n.texts())


def test_the_waterfall_says_its_signs_in_words() -> None:
    page_answer = engine_answer.ask(
        from_catalogue(GEMMA), _choice("vllm", tensor_parallel_size=2), architecture_bytes(from_catalogue(GEMMA), 131_072), None
    )
    assert isinstance(page_answer, engine_answer.Answer)
    bars = waterfall.figure("vLLM", page_answer.plain.total_bytes, page_answer.reasons)["data"][0]
    assert bars["measure"][0] == "absolute"
    assert bars["measure"][-1] == "total"
    assert all(text[0] in "+−" for text in bars["text"][1:-1])
    assert bars["text"][-1] == fmt.size(page_answer.cache.total_bytes)


def _choice(option: str, **settings: object) -> engine_answer.Choice:
    return engine_answer.Choice(option, engine_fields.engine_of(option).Settings(**settings))


def test_parts_that_are_no_layer_are_drawn_too() -> None:
    found = engine_answer.ask(from_catalogue(GEMMA), _choice("vllm"), architecture_bytes(from_catalogue(GEMMA), 4_096), None)
    assert isinstance(found, engine_answer.Answer)
    names = {trace["legendgroup"] for trace in charts.layers(found.cache)["data"]}
    assert names == {"full", "sliding", "padding"}
