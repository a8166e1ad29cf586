"""What do an engine's settings do on the Plan page, set by hand, by a link or by a change of engine?"""

from __future__ import annotations

import pytest

from ui import engine_dtypes, engine_fields, i18n
from ui import format as fmt
from ui.engine_fields import LABELS

from .asked import CHOICES, GEMMA, bytes_of, command
from .conftest import OpenPage
from .test_plan_page import faults, texts, total


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
