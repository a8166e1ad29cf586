"""What few deployments have, on the Capacity page: each input moves the answer by known arithmetic, and the shell agrees."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import cli, hardware
from planner.capacity import plan
from planner.errors import InputError
from planner.units import GIB
from planner.workload import Workload
from ui import inputs
from ui.i18n import texts as catalogue
from ui.model_input import from_catalogue

from .conftest import OpenPage
from .reading import DEEPSEEK, GEMMA, LLAMA, WHISPER, data, printed, verdict
from .test_capacity_engines import engines, table
from .test_languages import CHINESE, HAN, opened
from .test_plan_page import faults, texts

QWEN_VL = "Qwen/Qwen2.5-VL-7B-Instruct"
#: A question with everything at once.
ALL = {
    "model": QWEN_VL, "image": "1024x768x2", "video": "32x1280x720", "loras": 4, "lora_rank": 32, "lora_modules": "q_proj,v_proj",
    "gpus": 2, "vllm.kv_offloading_size": 64, "apart": "true", "prefill_node": "H200 141GB SXM5", "prefill_gpus": 1,
    "decode_gpus": 4, "decode_tp": 2, "transfer": "50GB",
}  # fmt: skip


def shell(page: AppTest) -> str:
    """The line of the shell that the page shows, which each figure's reason has too, with where to look in its JSON."""
    lines = [str(code.value) for code in page.code if str(code.value).startswith("python -m planner plan")]
    return next(line for line in lines if "--json" not in line)


def bar(page: AppTest) -> dict[str, int]:
    """Bytes of each use of the memory by its name, as the page's bar was sent to the browser."""
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    traces = next(spec["data"] for spec in specs if spec["data"][0].get("orientation") == "h")
    return {re.sub(r" [\d,.]+ [KMGT]?i?B$", "", trace["name"]): round(trace["x"][0] * GIB) for trace in traces}


def agrees(page: AppTest) -> dict[str, Any]:
    """The shell's answer to the line of the page, which has the page's verdict and uses of memory."""
    line = shell(page)
    assert verdict(page) == printed(line).splitlines()[0]
    found = data(line)
    assert bar(page) == {term["name"]: term["bytes"] for term in found["terms"][1:] if term["bytes"] > 0}
    return found


def metric(page: AppTest, label: str) -> str:
    return next(str(one.value) for one in page.metric if one.label == label)


# LoRA

#: Llama-3.1-8B has 32 layers of q 4,096 to 4,096, k and v 4,096 to 1,024; an adapter of rank r adds r x (in + out) to each.
Q, KV = 4096 + 4096, 4096 + 1024


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        # vLLM and SGLang keep q, k and v as one layer, so that an adapter on two of them takes room for all three.
        ("vllm", 4 * 2 * 64 * 32 * (Q + 2 * KV)), ("sglang", 4 * 2 * 64 * 32 * (Q + 2 * KV)),
        ("tgi", 4 * 2 * 64 * 32 * (Q + KV)), ("llama.cpp", 4 * 2 * 64 * 32 * (Q + KV)),
    ],
)  # fmt: skip
def test_adapters_take_their_parameters(open_capacity: OpenPage, server: str, expected: int) -> None:
    page = open_capacity(server=server, loras=4, lora_rank=64, lora_modules="q_proj, v_proj")
    assert bar(page)["lora adapters"] == expected
    assert agrees(page)["headroom_bytes"] < data(shell(open_capacity(server=server)))["headroom_bytes"]
    assert "--loras 4 --lora-rank 64 --lora-modules q_proj,v_proj" in shell(page)
    assert "--given" not in shell(page)
    assert f"{64 * 32 * (Q + KV):,} parameters" in texts(page)


def test_adapters_are_the_librarys_own_settings(open_capacity: OpenPage) -> None:
    page = open_capacity(server="tensorrt-llm", loras=8, node="l4", load=1)
    settings = {"max_loras": 8, "max_lora_rank": 16}
    own = plan(from_catalogue(LLAMA), "tensorrt-llm", settings, "l4", 1, Workload(7_168, 1_024, 1), advice=False)
    assert agrees(page)["headroom_bytes"] == own.headroom_bytes


def test_ones_own_figure_of_adapters_wins(open_capacity: OpenPage) -> None:
    page = open_capacity(server="tgi", loras=4, **{"given.lora_adapters": 2})
    assert bar(page)["lora adapters"] == 2 * GIB
    agrees(page)


def test_another_engine_is_not_advised_without_the_adapters() -> None:
    """Its slots are settings of its own, which the change would leave out."""
    work = Workload(30_000, 1_024, 2)
    for settings, advised in (({}, True), ({"enable_lora": True, "max_lora_rank": 16}, False)):
        found = plan(from_catalogue("openai/gpt-oss-20b"), "sglang", settings, "l4", 1, work).advice
        assert ("engine" in {one.code for one in found}) is advised


# Images, video and audio


@pytest.mark.parametrize(
    ("link", "tokens"),
    [
        ({"model": GEMMA, "image": "1024x768x3"}, 3 * (256 + 4)),
        # 1024 x 768 in multiples of 28 is 1036 x 756: 37 x 27 patches of 28, and a mark on both sides.
        ({"model": QWEN_VL, "image": "1024x768"}, 37 * 27 + 2),
        # 640 x 480 is 644 x 476, 23 x 17 patches, in 16 pairs of frames.
        ({"model": QWEN_VL, "video": "32x640x480"}, 16 * 23 * 17 + 2),
    ],
)
def test_sizes_become_tokens_of_each_prompt(open_capacity: OpenPage, link: dict[str, Any], tokens: int) -> None:
    page = open_capacity(**link, node="h200", load=2, images=100)
    assert f"2 requests of {7_168 + 1_024 + 100 + tokens:,} tokens" in verdict(page)
    assert f"add {tokens:,} tokens to each prompt" in texts(page)
    found = agrees(page)
    assert found["media"]["prompt_tokens"] == tokens
    assert found["workload"]["image_tokens"] == tokens + 100
    own = plan(from_catalogue(link["model"]), "vllm", None, "h200", 1, Workload(7_168, 1_024, 2, image_tokens=100 + tokens))
    assert found["headroom_bytes"] == own.headroom_bytes


def test_an_audio_says_the_encoders_positions(open_capacity: OpenPage) -> None:
    """A window of 30 s is 1,500 positions, which take the place of the input for them."""
    page = open_capacity(model=WHISPER, audio="30s", prompt=4, output=300, node="t4", load=4)
    assert "encoder" not in {box.key for box in page.number_input}
    own = plan(from_catalogue(WHISPER), "vllm", None, "t4", 1, Workload(4, 300, 4, encoder_tokens=1_500), advice=False)
    found = agrees(page)
    assert found["kv_need_bytes"] == own.need_bytes
    assert "--encoder-tokens" not in shell(page)


def test_a_model_of_text_alone_says_so(open_capacity: OpenPage) -> None:
    page = open_capacity()
    assert "takes text alone" in texts(page)
    assert all(page.text_input(key=kind).disabled for kind in ("image", "video", "audio"))
    assert not open_capacity(model=QWEN_VL).text_input(key="image").disabled


# Host memory


def test_what_host_memory_holds_is_listed(open_capacity: OpenPage) -> None:
    """64 GiB of blocks of 16 tokens, 131,072 bytes a token on both ranks together."""
    page = open_capacity(gpus=2, **{"vllm.kv_offloading_size": 64})
    blocks = 64 * GIB // (16 * 131_072)
    row = table(page, "Keeps")[0]
    assert row["Setting"] == "`--kv-offloading-size`"
    assert (row["Size"], row["Keeps"]) == ("64.00 GiB", f"{blocks * 16:,} tokens ({blocks * 16 // 8_192:,} requests)")
    tier = agrees(page)["host"]["tiers"][0]
    assert (tier["tokens"], tier["requests"]) == (blocks * 16, blocks * 16 // 8_192)


@pytest.mark.parametrize(
    ("link", "settings"),
    [
        ({"vllm.cpu_offload_gb": 8}, ["--cpu-offload-gb"]), ({"loras": 4}, ["--max-cpu-loras"]), ({}, []),
        ({"server": "sglang", "sglang.enable_hierarchical_cache": "true"}, ["--hicache-ratio"]),
        ({"server": "tensorrt-llm", "tensorrt-llm.host_cache_size": 10**10}, ["kv_cache_config.host_cache_size"]),
        ({"server": "llama.cpp", "load": 4}, ["cache_ram"]), ({"server": "tgi"}, []),
    ],
)  # fmt: skip
def test_each_engines_tiers_are_reachable(open_capacity: OpenPage, link: dict[str, Any], settings: list[str]) -> None:
    page = open_capacity(**link)
    found = agrees(page)["host"]
    assert sum(tier["bytes"] > 0 for tier in found["tiers"]) == len(settings)
    listed = table(page, "Keeps") if settings else []
    assert [row["Setting"].strip("`") for row in listed] == settings


# Two pools


def apart(page: AppTest) -> str:
    return next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner disaggregate"))


def asked_shell(line: str) -> tuple[str, dict[str, Any]]:
    """What the shell prints for a line with two pools, as text and as data."""
    found = []
    for more in ([], ["--json"]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert cli.main([*shlex.split(line)[3:], *more]) in (0, 1)
        found.append(out.getvalue())
    return found[0], json.loads(found[1])


@pytest.mark.parametrize(
    "link",
    [
        {"gpus": 2, "decode_gpus": 4},
        {"server": "sglang", "prefill_node": "H200 141GB SXM5", "prefill_gpus": 2, "transfer": "nvlink"},
        {"server": "tensorrt-llm", "load": 200, "tensorrt-llm.tokens_per_block": 64},
        {"gpus": 4, "vllm.tensor_parallel_size": 2, "prefill_tp": 1, "vllm.kv_cache_dtype": "fp8", "vllm.block_size": 32},
        {"model": DEEPSEEK, "node": "8xh200", "transfer": "50GB", "vllm.max_model_len": 16384},
        {"gpus": 4, "vllm.pipeline_parallel_size": 2, "loras": 2, "lora_modules": "q_proj,o_proj"},
        {"vary": "log-normal", "prompt": 800, "prompt_p95": 4000, "output": 300, "output_p95": 900, "gpus": 2},
    ],
    ids=["two and four", "sglang", "tensorrt-llm", "ranks", "machine", "stages", "varying"],
)
def test_two_pools_are_the_shells(open_capacity: OpenPage, link: dict[str, Any]) -> None:
    page = open_capacity(apart="true", **link)
    text, found = asked_shell(apart(page))
    boxes = [re.sub(r"\\(.)", r"\1", str(box.value)) for box in (*page.success, *page.error)]
    for place, name in ((0, "Prefill"), (-1, "Decode")):
        said = next(line.removeprefix(f"{name}  ") for line in text.splitlines() if line.startswith(f"{name}  "))
        assert said in boxes, place
    assert found["fits"] == (not [box for box in page.error if "**" not in str(box.value)])
    for role in ("prefill", "decode"):
        assert found[role]["command"] in [str(code.value) for code in page.code]


def test_only_the_prompts_cache_moves(open_capacity: OpenPage) -> None:
    """Llama-3.1-8B keeps 131,072 bytes a token; 400 Gb/s are 50 GB/s."""
    page = open_capacity(apart="true", gpus=2)
    assert metric(page, "Moved for each request") == f"{7_168 * 131_072 / 2**20:,.0f} MiB"
    found = asked_shell(apart(page))[1]
    assert found["moved"]["bytes"] == 7_168 * 131_072
    assert found["link_bytes_per_s"] == 50e9


def test_pools_without_lengths_ask_for_them(open_capacity: OpenPage) -> None:
    page = open_capacity(apart="true", fill="true", load=1)
    assert any("Say how long prompts and answers are" in str(info.value) for info in page.info)
    assert not faults(page)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"prefill_node": "banana"}, "banana"), ({"transfer": "fast"}, "ink is 'fast'"),
        ({"server": "tgi"}, "no prefill and decode"),
        ({"gpus": 6, "prefill_tp": 3, "decode_tp": 2}, "divide"),
    ],
)  # fmt: skip
def test_pools_that_cannot_be_are_one_message(open_capacity: OpenPage, link: dict[str, Any], words: str) -> None:
    page = open_capacity(model="Qwen/Qwen2.5-7B" if "prefill_tp" in link else LLAMA, apart="true", **link)
    told = [fault for fault in faults(page) if not fault.startswith("**")]
    assert len(told) == 1
    assert words in told[0].replace("\\", "")
    assert verdict(page)


# Parts of a GPU


PARTS = [("h100:40GiB", "h100-sxm:40GiB", 40 * GIB), ("a100-80gb:3g.40gb", "a100-80gb-sxm:3g.40gb", None)]


@pytest.mark.parametrize(("text", "argument", "size"), PARTS)
def test_a_part_of_a_card_is_taken_by_its_words(open_capacity: OpenPage, text: str, argument: str, size: int | None) -> None:
    """As it is typed, and by the display name that the input then shows and the link carries."""
    for node in (text, inputs.gpu_name(text)):
        page = open_capacity(load=1, node=node)
        assert f"--gpu {argument} " in shell(page)
        assert size in (None, agrees(page)["terms"][0]["bytes"])


def test_a_card_is_found_by_the_name_that_it_has() -> None:
    part = hardware.gpu("h100:40GiB")
    assert hardware.gpu(part.name) == part
    with pytest.raises(InputError, match="no part of the memory"):
        hardware.gpu("400GiB of a H100 80GB SXM5")


def test_other_processes_are_counted(open_capacity: OpenPage) -> None:
    page = open_capacity(server="sglang", **{"given.other_processes": 10})
    assert bar(page)["other processes"] == 10 * GIB
    agrees(page)


# What cannot be


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"image": "1024x768"}, "takes text alone"), ({"model": GEMMA, "image": "banana"}, "WIDTHxHEIGHT"),
        ({"model": GEMMA, "audio": "30s"}, "o rule for audio in Gemma 3"),
        ({"model": WHISPER, "audio": "30sx9999"}, "a count: 30sx4"),
        ({"model": GEMMA, "image": " ".join(["9x9"] * 40)}, "40 sizes of one kind; at most 32"),
        ({"loras": 4, "lora_rank": 24}, "max_lora_rank 24 is none of"),
        ({"loras": 4, "lora_modules": "nope"}, "no module of this model"),
        ({"server": "tgi", "loras": 4, "lora_modules": "nope"}, "no module of this model"),
        ({"server": "sglang", "loras": 4, "lora_modules": "<b>x</b>"}, "no module of this model"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_message(open_capacity: OpenPage, link: dict[str, Any], words: str) -> None:
    page = open_capacity(**link)
    assert len(faults(page)) == 1
    assert words in faults(page)[0].replace("\\", "")
    assert not page.metric


# Links and languages


def test_a_link_says_all_of_it(open_capacity: OpenPage) -> None:
    page = open_capacity(**ALL)
    assert not page.warning
    boxes = [*page.text_input, *page.number_input, *page.selectbox, *page.toggle]
    state = {str(box.key): box.value for box in boxes}
    for name, value in ALL.items():
        assert state[name] == {"true": True}.get(str(value), value), name
    agrees(page)
    assert "--prefill-gpu h200-sxm --decode-gpu h100-sxm --decode-gpus 4 --decode-tp 2 --link 50GB" in apart(page)


@pytest.mark.parametrize("code", CHINESE)
def test_each_language_has_all_of_it(code: str) -> None:
    app = opened(code, "capacity", **{name: str(value) for name, value in ALL.items()})
    assert not app.exception
    assert not app.error
    spoken = catalogue(code)
    headers = [str(one.value) for one in (*app.header, *app.subheader)]
    for key in ("capacity.apart.title", "capacity.engines.title", "capacity.apart.prefill"):
        assert spoken[key] in headers
    assert any(HAN.search(column) for one in app.table for column in one.value.columns)
    assert spoken["capacity.engines.yours"].format(engine="vLLM") in engines(app)
