"""The Plan page: known answers, live changes, and one message for each bad input with the rest of the page standing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import model_configs
from model_configs import catalogue
from planner import explain, hardware
from planner.cache import architecture_bytes
from ui import model_input

from .conftest import OpenPage

ROOT = Path(__file__).resolve().parents[2]
QWEN = "Qwen/Qwen2.5-72B"


def total(page: AppTest) -> str:
    return str(page.metric[0].value)


def texts(page: AppTest) -> str:
    """Everything that the page says, as one text."""
    parts = [element.value for kind in ("markdown", "caption", "code", "header") for element in getattr(page, kind)]
    return "\n".join(str(part) for part in parts)


def faults(page: AppTest) -> list[str]:
    """The messages about something wrong."""
    assert not page.exception, page.exception[0].stack_trace
    return [str(element.value) for kind in ("error", "warning") for element in getattr(page, kind)]


def pasted(page: AppTest, text: str) -> AppTest:
    return page.text_area(key="paste").set_value(text).run()


def config(**changes: object) -> str:
    words = {
        "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
        "hidden_size": 512, "vocab_size": 1000, "intermediate_size": 1024, "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    return json.dumps({**words, **changes})


# Known answers


def test_the_default_is_qwen_72b_at_32k_and_its_known_answer(open_page: OpenPage) -> None:
    page = open_page()
    assert faults(page) == []
    assert [metric.value for metric in page.metric][:3] == ["10.00 GiB", "10.00 GiB", "320 KiB"]
    assert page.metric[0].delta == "10,737,418,240 bytes"
    assert "8 heads x 32,768 positions x (128 + 128) x 2 B = 134,217,728 B a layer\nx 80 layers" in texts(page)


def test_the_common_formula_is_shown_to_say_80_gib(open_page: OpenPage) -> None:
    rows = open_page().table[-1].value.to_dict("records")
    sizes = {row["Variant"]: row["KV cache (GiB)"] for row in rows}
    assert sizes["2 × layers × hidden × tokens × bytes"] == "80.00"
    assert sizes == {**sizes, "Multi-head (MHA)": "80.00", "This model": "10.00", "Multi-query (MQA)": "1.25"}


def test_mqa_of_a_64_head_model_is_one_64th_of_mha(open_page: OpenPage) -> None:
    rows = {row["Variant"]: row for row in open_page().table[-1].value.to_dict("records")}
    mha, mqa = rows["Multi-head (MHA)"], rows["Multi-query (MQA)"]
    assert mha["KV heads"] == "64"
    assert float(mha["KV cache (GiB)"]) == 64 * float(mqa["KV cache (GiB)"])


@pytest.mark.parametrize(("dtype", "size"), [("fp8", "5.00 GiB"), ("int8", "5.31 GiB"), ("float32", "20.00 GiB")])
def test_the_kv_dtype_changes_the_answer_at_once(open_page: OpenPage, dtype: str, size: str) -> None:
    page = open_page()
    page.selectbox(key="kv").set_value(dtype).run()
    assert total(page) == size
    assert faults(page) == []


def test_twice_the_context_is_twice_the_bytes_and_half_the_requests(open_page: OpenPage) -> None:
    page = open_page()
    assert "room for **4 requests**" in texts(page)
    page.number_input(key="tokens").set_value(65_536).run()
    assert total(page) == "20.00 GiB"
    assert "room for **2 requests**" in texts(page)


def test_a_sliding_window_stops_growing(open_page: OpenPage) -> None:
    before, after = (open_page(model="google/gemma-3-27b-it", tokens=n) for n in (16_384, 65_536))
    window = "16 heads x 1,023 positions x (128 + 128) x 2 B = 8,380,416 B a layer"
    assert window in texts(before)
    assert window in texts(after)


def test_the_share_of_the_gpu(open_page: OpenPage) -> None:
    page = open_page(gpu="H200 141GB SXM5")
    model = model_configs.read(f"catalogue:{QWEN}")
    assert model.weight_bytes is not None
    needed, usable = model.weight_bytes + architecture_bytes(model, 32_768).total_bytes, hardware.gpu("h200").usable_bytes
    assert page.metric[3].value == f"{100 * needed / usable:.1f} %"
    assert "Does not fit on one GPU" in texts(page)
    assert f"{(needed - usable) / 2**30:.2f} GiB short" in texts(page)
    assert faults(page) == []  # not to fit is a verdict, not a fault


def test_a_gpu_may_be_an_amount_of_memory(open_page: OpenPage) -> None:
    page = open_page(gpu="400 GiB")
    assert "of 400 GiB" in texts(page)
    assert faults(page) == []


def test_the_command_line_says_the_same(open_page: OpenPage) -> None:
    page = open_page(kv="int8", requests=3)
    line = next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner"))
    ran = subprocess.run([sys.executable, *line.split()[1:], "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"{json.loads(ran.stdout)['kv_cache_bytes']:,} bytes" == page.metric[0].delta


# transformers' cache implementations; a link with `cache` alone means transformers


def test_static_keeps_one_position_more_in_each_sliding_layer(open_page: OpenPage) -> None:
    page = open_page(model="google/gemma-3-27b-it", cache="static")
    assert page.selectbox(key="engine").value == "transformers"
    assert "416 KiB more** than the architecture's" in texts(page)  # 52 layers x 16 heads x 256 x 2 B
    assert "one position more" in texts(page)


def test_a_quantized_cache_of_a_plain_model(open_page: OpenPage) -> None:
    page = open_page(cache="quantized")
    assert faults(page) == []
    assert "less** than the architecture's 10.00 GiB" in texts(page)


@pytest.mark.parametrize(
    ("backend", "size"), [("quanto", "2.84 GiB"), ("hqq", "2.84 GiB"), ("fp8", "5.00 GiB")]
)
def test_each_backend_of_the_quantized_cache(open_page: OpenPage, backend: str, size: str) -> None:
    page = open_page(cache="quantized")
    page.selectbox(key="transformers.backend").set_value(backend).run()
    assert f"**{size}**" in texts(page)
    assert total(page) == size
    assert faults(page) == []


def test_a_kv_dtype_moves_to_transformers_as_its_quantized_cache(open_page: OpenPage) -> None:
    page = open_page(kv="fp8")
    page.selectbox(key="engine").set_value("transformers").run()
    assert page.selectbox(key="cache").value == "quantized"
    assert page.selectbox(key="transformers.backend").value == "fp8"
    assert total(page) == "5.00 GiB"


def test_a_refusal_is_one_message_and_the_answer_stands(open_page: OpenPage) -> None:
    page = open_page(model="google/gemma-3-27b-it", cache="quantized")
    (message,) = faults(page)
    assert "only where every layer is full attention" in message
    assert total(page) == "2.91 GiB"


# Every kind of model


def kinds() -> list[str]:
    """One catalogue model for each kind of layer."""
    first: dict[str, str] = {}
    for entry in catalogue.entries():
        for kind in model_input.from_catalogue(entry.id).kinds:
            first.setdefault(kind, entry.id)
    return sorted(set(first.values()))


def test_there_is_a_model_of_every_kind() -> None:
    found = {part for entry in catalogue.entries() for k in model_input.from_catalogue(entry.id).kinds for part in k.split("+")}
    assert found == set(explain.KINDS)


def test_every_catalogue_model_renders(open_page: OpenPage) -> None:
    page = open_page()
    for entry in catalogue.entries():
        page.selectbox(key="model").set_value(entry.id).run()
        told = [text for text in faults(page) if "more than the" not in text]  # beyond the model's own limit
        assert told == [], entry.id
        model = model_input.from_catalogue(entry.id)
        encoder = 1_500 if any("cross" in kind for kind in model.kinds) else 0
        count = architecture_bytes(model, 32_768, encoder_tokens=encoder).total_bytes
        assert page.metric[0].delta == f"{count:,} byte{'' if count == 1 else 's'}", entry.id


@pytest.mark.parametrize("model", kinds())
def test_every_kind_at_other_settings(open_page: OpenPage, model: str) -> None:
    page = open_page(model=model, tokens=1, requests=7, kv="int4", cache="static", gpu="L4")
    assert not page.exception
    assert len(page.metric) == 4


def test_encoder_positions_are_asked_for_where_they_count(open_page: OpenPage) -> None:
    page = open_page(model="openai/whisper-large-v3", tokens=448)
    before = total(page)
    page.number_input(key="encoder").set_value(3_000).run()
    assert total(page) != before
    assert "3,000 positions" in texts(page)


# Bad input: one message, no exception, the rest stands


BAD_CONFIGS = {
    "not json": ("{", "is not JSON"),
    "a list": ("[1, 2]", "not an object"),
    "nan": ('{"model_type": "llama", "num_hidden_layers": NaN}', "NaN"),
    "deep nesting": ("[" * 100_000, "nested too deeply"),
    "unknown": ('{"model_type": "made_up", "num_hidden_layers": 2}', "made_up"),
    "no type": ("{}", "model_type"),
    "negative": (config(num_hidden_layers=-1), "num_hidden_layers"),
    "absurd depth": (config(num_hidden_layers=10**9), "10000"),
    "text for a number": (config(num_key_value_heads="many"), "num_key_value_heads"),
    "markdown": (json.dumps({"model_type": "![x](http://host/p.png) :material/home: $x$ <b>"}), "host"),
}


@pytest.mark.parametrize(("text", "says"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_config_is_one_message(open_page: OpenPage, text: str, says: str) -> None:
    page = pasted(open_page(), text)
    (message,) = faults(page)
    assert says in message.replace("\\", "").replace(",", "")
    assert "![" not in message
    assert page.number_input(key="tokens").value == 32_768
    assert page.selectbox(key="gpu").value


def test_a_good_config_is_read(open_page: OpenPage) -> None:
    page = pasted(open_page(), config())
    assert faults(page) == ["32,768 tokens are more than the 4,096 positions that the model's config states. The figures"
                            " below are what such a cache would take; the model may not work at that length."]  # fmt: skip
    assert page.metric[0].delta == f"{4 * 2 * 32_768 * 128 * 2:,} bytes"
    page.button(key="at_limit").click().run()
    assert faults(page) == []
    assert page.number_input(key="tokens").value == 4_096


def test_a_config_may_be_uploaded(open_page: OpenPage) -> None:
    page = open_page(tokens=1_024)
    page.file_uploader(key="upload").upload("config.json", b"\xef\xbb\xbf" + config().encode()).run()
    assert faults(page) == []
    assert page.metric[0].delta == f"{4 * 2 * 1_024 * 128 * 2:,} bytes"


def test_a_path_of_the_server_is_not_read(open_page: OpenPage) -> None:
    page = pasted(open_page(), str(ROOT / "pyproject.toml"))
    (message,) = faults(page)
    assert "is not JSON" in message


def test_plain_attention_is_the_persons_own_labelled_choice(open_page: OpenPage) -> None:
    page = pasted(open_page(), config(model_type="made_up"))
    assert len(faults(page)) == 1
    assert not page.metric
    page.checkbox[0].check().run()
    warnings = faults(page)
    assert any("plain attention" in text for text in warnings)
    assert not page.error
    assert page.metric[0].delta == f"{4 * 2 * 32_768 * 128 * 2:,} bytes"


def test_absurd_numbers_are_bounded(open_page: OpenPage) -> None:
    page = open_page()
    page.number_input(key="tokens").set_value(10**15).run()
    assert not page.exception
    assert len(page.error) <= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", "-1"), ("tokens", "many"), ("tokens", "nan"), ("tokens", "1e999"), ("requests", "0"), ("kv", "FP8"),
        ("cache", "paged"),
    ],
)  # fmt: skip
def test_a_bad_link_is_one_warning_and_the_default(open_page: OpenPage, name: str, value: str) -> None:
    page = open_page(**{name: value})
    (message,) = faults(page)
    assert name in message
    assert total(page) == "10.00 GiB"


def test_an_unknown_gpu_is_one_message_and_the_answer_stands(open_page: OpenPage) -> None:
    page = open_page(gpu="banana")
    (message,) = faults(page)
    assert "banana" in message
    assert total(page) == "10.00 GiB"


def test_a_link_may_use_another_name_of_a_model(open_page: OpenPage) -> None:
    entry, alias = next((entry, entry.aliases[0]) for entry in catalogue.entries() if entry.aliases)
    page = open_page(model=alias, tokens=1)
    assert faults(page) == []
    assert page.selectbox(key="model").value == entry.id


# The page as a program


def test_the_method_page_explains_every_kind(open_page: OpenPage) -> None:
    page = open_page()
    page.switch_page("ui/method.py").run()
    assert faults(page) == []
    headings = " ".join(str(element.value) for element in page.header)
    assert all(f"`{kind}`" in headings for kind in set(explain.KINDS) - {"shared", "none"})


def test_torch_and_transformers_never_load_in_the_page() -> None:
    program = (
        "import sys; from streamlit.testing.v1 import AppTest\n"
        "page = AppTest.from_file('app.py', default_timeout=60).run()\n"
        "page.switch_page('ui/method.py').run()\n"
        "assert not page.exception\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
