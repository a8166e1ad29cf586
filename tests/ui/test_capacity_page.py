"""The Capacity page: its verdict is the shell's, an advice that is applied comes true, and what cannot be is one message."""

from __future__ import annotations

import pytest

from planner.capacity import plan
from planner.latency_efficiency import Range
from planner.plan_report import plan_data, plan_text
from planner.workload import Workload
from ui import capacity_apply, capacity_charts, capacity_command, capacity_map, capacity_others, capacity_parts, capacity_time
from ui.capacity_inputs import Asked, named
from ui.model_input import from_catalogue

from .conftest import OpenPage
from .reading import DEEPSEEK, GEMMA, LLAMA, NEXT, WHISPER, pressed, printed, shell, terms, verdict
from .test_plan_page import config, faults, pasted, texts

# The verdict


def test_the_default_page_says_what_the_shell_says(open_capacity: OpenPage) -> None:
    page = open_capacity()
    own = plan(from_catalogue(LLAMA), "vllm", None, "h100-sxm", 1, Workload(7_168, 1_024, 16))
    assert verdict(page) == plan_text(plan_data(own)).splitlines()[0]
    assert verdict(page).startswith("Starts. 16 requests of 8,192 tokens; ")
    assert faults(page) == []
    assert [page.metric[i].value for i in (0, 1)] == [f"{own.max_requests:,}", f"{own.max_context:,}"]
    assert "vllm serve meta-llama/Llama-3.1-8B" in [code.value for code in page.code]


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"model": GEMMA, "node": "2xh100", "server": "sglang"},
        {"model": GEMMA, "node": "4090", "server": "llama.cpp", "gguf": "Q4_K_M", "llama.cpp.n_ctx": 65536, "load": 2},
        {"model": DEEPSEEK, "node": "8xh200", "price": 3},
        {"model": DEEPSEEK, "node": "h100", "gpus": 16, "vllm.pipeline_parallel_size": 2, "load": 8},
        {"model": NEXT, "gpus": 2, "fill": "true", "load": 1, "vllm.max_model_len": 32768},
        {"model": WHISPER, "node": "t4", "prompt": 4, "output": 400, "load": 4},
        {"model": "openai/gpt-oss-120b", "load": 4},
        {"model": LLAMA, "server": "tensorrt-llm", "vllm.kv_cache_dtype": "fp8"},
        {"model": LLAMA, "server": "tgi", "node": "l4", "load": 1, "prompt": 100, "output": 20},
        {"model": LLAMA, "server": "transformers", "node": "g5.xlarge", "load": 1},
        {"model": LLAMA, "server": "ollama", "node": "2x4090+1x3090", "load": 2},
        {"model": LLAMA, "server": "llama.cpp", "node": "24 GiB", "llama.cpp.front_end": "library", "load": 1},
    ],
    ids=lambda link: " ".join(str(value) for value in link.values()),
)  # fmt: skip
def test_every_engine_and_model_agrees_with_the_shell(open_capacity: OpenPage, link: dict[str, object]) -> None:
    page = open_capacity(**link)
    said = printed(shell(page))
    assert verdict(page) == said.splitlines()[0]
    assert len(page.metric) >= 4
    assert not [fault for fault in faults(page) if "could not be drawn" in fault]
    codes = [str(code.value) for code in page.code if "\n  = " not in str(code.value)]  # arithmetic is none
    launch = [code for code in codes if not code.startswith("python -m planner")]
    assert all(line in said for line in launch[0].splitlines())


def test_the_terms_are_the_librarys_and_add_up(open_capacity: OpenPage) -> None:
    page = open_capacity()
    own = plan(from_catalogue(LLAMA), "vllm", None, "h100-sxm", 1, Workload(7_168, 1_024, 16))
    assert terms(page) == [(term.bytes, term.confidence) for term in own.terms]
    assert sum(count for _, count in capacity_charts.parts(own)) == own.terms[0].bytes


def test_a_custom_config_is_planned_too(open_capacity: OpenPage) -> None:
    page = pasted(open_capacity(), config(max_position_embeddings=131_072))
    assert verdict(page).startswith("Starts")
    assert "config.json" in shell(page)


def test_all_requests_as_long_as_the_engine_allows(open_capacity: OpenPage) -> None:
    page = open_capacity(load=2)
    page.toggle(key="fill").set_value(True).run()
    assert "2 requests of 131,072 tokens" in verdict(page)
    assert page.number_input(key="prompt").disabled
    assert any("say how long prompts and answers are" in str(info.value) for info in page.info)


# Advice


def test_what_does_not_fit_fits_when_an_advice_is_applied(open_capacity: OpenPage) -> None:
    page = open_capacity(load=200)
    assert verdict(page).startswith("Starts, and does not hold 200 requests")
    page = pressed(page, "fewer_requests")
    assert verdict(page).startswith("Starts. ")
    assert page.number_input(key="load").value < 200


@pytest.mark.parametrize(
    ("link", "code", "key"),
    [
        ({"load": 100}, "kv_dtype", "vllm.kv_cache_dtype"),
        ({"model": "Qwen/Qwen2.5-72B"}, "more_gpus", "gpus"),
        ({"model": DEEPSEEK, "gpus": 8}, "other_gpu", "node"),
        ({"model": LLAMA, "node": "L4", "load": 1, "fill": "true"}, "shorter_context", "vllm.max_model_len"),
        ({"model": GEMMA, "node": "GeForce RTX 4090", "server": "ollama", "load": 1, "ollama.n_ctx": 8192}, "weights", "gguf"),
        ({"gpus": 4}, "fewer_gpus", "gpus"),
        ({}, "more_requests", "load"),
    ],
)
def test_each_kind_of_advice_comes_true(open_capacity: OpenPage, link: dict[str, object], code: str, key: str) -> None:
    page = open_capacity(**link)
    before = page.session_state.get(key)
    page = pressed(page, code)
    assert verdict(page).startswith("Starts. ")
    assert page.session_state[key] != before
    assert verdict(page) == printed(shell(page)).splitlines()[0]


def test_a_change_that_no_input_says_has_no_button() -> None:
    model = from_catalogue(LLAMA)
    found = plan(model, "vllm", None, "h100-sxm", 8, Workload(7_168, 1_024, 16))
    node, argument = named("8xh100")
    asked = Asked(model, LLAMA, "vllm", found.settings, node, argument, 1, Workload(7_168, 1_024, 16))

    def told(**change: object) -> dict[str, object] | None:
        return capacity_apply.values(dict(change), 8, asked, found)

    split = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 8}
    assert told(settings={"num_shard": 1}) is None
    assert told(settings=split) == {
        "vllm.tensor_parallel_size": 1, "vllm.pipeline_parallel_size": 1, "vllm.data_parallel_size": 8,
    }  # fmt: skip
    assert told(settings={**split, "tensor_parallel_size": 4, "data_parallel_size": 2}) == {
        "vllm.tensor_parallel_size": 4, "vllm.pipeline_parallel_size": 1, "vllm.data_parallel_size": 2,
    }  # fmt: skip
    assert told(settings={"no_such_setting": 1}) is None
    assert told(settings={"kv_cache_dtype": "no such dtype"}) is None
    assert told(something={}) is None
    assert told(workload={"prompt_tokens": 3}) is None
    assert told(engine="sglang") == {"server": "sglang", "sglang.context_length": found.context}


# What cannot be


def test_heads_that_do_not_divide_are_refused_with_the_splits_that_do(open_capacity: OpenPage) -> None:
    page = open_capacity(**{"vllm.tensor_parallel_size": 3, "gpus": 3})
    assert len(faults(page)) == 1
    assert "do not divide" in faults(page)[0]
    assert any("DP 3" in str(row) for row in page.table[0].value.to_dict("records"))
    assert page.number_input(key="gpus").value == 3


@pytest.mark.parametrize("text", ["banana", "0xh100", "p5.999xlarge", "5000xh100", "<b>x</b>", "../../etc/passwd", "[a](b)"])
def test_an_unknown_gpu_or_machine_is_one_message(open_capacity: OpenPage, text: str) -> None:
    page = open_capacity(node=text)
    assert len(faults(page)) == 1
    assert page.number_input(key="load").value == 16
    assert page.selectbox(key="node").set_value("H100 80GB SXM5").run().metric


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"vllm.tensor_parallel_size": 8, "gpus": 4}, "GPUs are not what"),
        ({"prompt": 0, "output": 0}, "at least one token"),
        ({"prompt": 100_000_000, "gpus": 2}, "do not go into a context"),
        ({"model": "mistralai/Mamba-Codestral-7B-v0.1", "server": "sglang", "fill": "true"}, "states no context limit"),
        ({"node": "4090+h100"}, "one kind"),
        ({"server": "sglang", "model": WHISPER, "prompt": 10, "output": 10}, ""),
    ],
)
def test_what_is_refused_is_one_message(open_capacity: OpenPage, link: dict[str, object], words: str) -> None:
    page = open_capacity(**link)
    assert len(faults(page)) == 1
    assert words in faults(page)[0].replace("\\", "")
    assert page.number_input(key="load").value == 16
    assert "architecture's figure" not in faults(page)[0]
    assert not page.metric


def test_a_gpu_of_unknown_speed_has_everything_but_times(open_capacity: OpenPage) -> None:
    page = open_capacity(node="96GiB")
    assert verdict(page).startswith("Starts. ")
    assert len(page.metric) == 4
    assert sum("No estimate" in str(info.value) for info in page.info) == 1


def test_a_failing_part_leaves_the_others(open_capacity: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(capacity_time, "plan_times", broken)
    page = open_capacity()
    assert verdict(page).startswith("Starts. ")
    assert len(page.error) == 1
    assert "secret" not in texts(page) + str(page.error[0].value)
    assert shell(page)


def test_the_advice_which_takes_longest_is_worked_out_last(open_capacity: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    order = list[str]()
    parts = ((capacity_map, "show"), (capacity_command, "show"), (capacity_others, "show"), (capacity_parts, "advice"))
    for module, name in parts:
        monkeypatch.setattr(module, name, lambda *_, said=f"{module.__name__}.{name}": order.append(said))
    open_capacity()
    assert len(order) == 4
    assert order[-1] == "ui.capacity_parts.advice"


# Links


def test_a_link_opens_what_was_shared(open_capacity: OpenPage) -> None:
    page = open_capacity(model=GEMMA, node="h200", load=8, prompt=1000, output=24, price=2.5)
    assert "8 requests of 1,024 tokens" in verdict(page)
    assert "2.50" in texts(page)


@pytest.mark.parametrize(
    ("name", "value"),
    [("load", "many"), ("gpus", "0"), ("gpus", "1e999"), ("prompt", "-5"), ("server", "nope"), ("gguf", "Q99"), ("price", "nan")],
)
def test_a_link_with_a_bad_value_says_so_and_stands(open_capacity: OpenPage, name: str, value: str) -> None:
    link: dict[str, object] = {name: value, **({"server": "llama.cpp"} if name == "gguf" else {})}
    page = open_capacity(model=LLAMA, **link)
    assert not page.exception
    assert page.metric


def test_each_page_has_a_default_model_that_its_link_leaves_out(open_capacity: OpenPage) -> None:
    page = open_capacity()
    assert page.selectbox(key="model").value == LLAMA
    assert "model" not in page.query_params
    page.selectbox(key="model").set_value("Qwen/Qwen2.5-72B").run()
    assert page.query_params["model"] == "Qwen/Qwen2.5-72B"
    assert open_capacity(model="Qwen/Qwen2.5-72B").selectbox(key="model").value == "Qwen/Qwen2.5-72B"


def test_the_same_question_is_planned_once(open_capacity: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_capacity(load=17)

    def again(*_: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr("ui.capacity_ask.plan", again)
    page.number_input(key="price").set_value(2.0).run()
    assert "17 requests" in verdict(page)


def test_ranges_have_two_digits_that_count() -> None:
    assert capacity_time.seconds(Range(0.198, 0.277)) == "200 to 280 ms"
    assert capacity_time.seconds(Range(1.23, 4.56)) == "1.2 to 4.6 s"
    assert capacity_time.span(Range(0.0414, 0.0414)) == "0.04"
