"""Plans: the laws that every one of them obeys, on the deployments that the planner has to be right about."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import model_configs
import planner
from planner import GIB, EngineRefusal, InputError
from planner.capacity import (
    compare_gpus,
    fewest_gpus,
    max_context,
    max_requests,
    plan,
    rank_kv_dtypes,
    rank_splits,
    requests_by_context,
)
from planner.capacity_demand import Demand
from planner.capacity_plan import Plan
from planner.capacity_pools import allocation
from planner.capacity_weights import as_gguf
from planner.engines import engine
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.plan_report import plan_data, plan_text, verdict_line
from planner.workload import Workload
from planner.workload_lengths import Lengths


@dataclass(frozen=True)
class Case:
    """A deployment by its words. weights: what its weights are stored as, if not as in the checkpoint."""

    model: str
    gpu: str
    gpus: int = 1
    engine: str = "vllm"
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None

    @property
    def name(self) -> str:
        return f"{self.model.split('/')[1]} on {self.gpus} x {self.gpu}"

    def described(self) -> Model:
        return _read(self.model, self.weights)

    def plan(self, workload: Workload | None = None, **words: Any) -> Plan:
        settings = {**self.settings, **words.pop("settings", {})}
        return plan(self.described(), self.engine, settings, self.gpu, self.gpus, workload, **{"advice": False, **words})


@functools.cache
def _read(name: str, weights: str | None = None) -> Model:
    model = model_configs.read(f"catalogue:{name}")
    return as_gguf(model, weights) if weights else model


LONG = {"max_model_len": 32768}
CASES = (
    Case("meta-llama/Llama-3.1-8B", "l4", settings={"max_model_len": 8192}),
    Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 4, settings=LONG),
    Case("openai/gpt-oss-120b", "h100-sxm", settings=LONG),
    Case("deepseek-ai/DeepSeek-V3", "h200", 8, settings=LONG),
    Case("deepseek-ai/DeepSeek-V3", "h100-sxm", 16, settings={**LONG, "pipeline_parallel_size": 2}),
    Case("google/gemma-3-27b-it", "4090", engine="llama.cpp", settings={"front_end": "server"}, weights="Q4_K_M"),
    Case("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", 2, settings=LONG),
    Case("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h100-sxm", 4, settings=LONG),
    Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192}),
    Case("openai/whisper-large-v3", "t4"),
)
CASE = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
#: Each engine on a model that it runs, with a budget that the figures are worked out for.
PAGED = ("vllm", "sglang", "tensorrt-llm", "tgi")
KV = {"kv": 16 * GIB}


def length_of(case: Case) -> int:
    return 4096 if case.engine == "llama.cpp" else min(case.settings.get("max_model_len", 448), 4096)


@CASE
def test_a_plan_says_everything(case: Case) -> None:
    """The verdict is the sign of the headroom, the headroom is what the terms leave, and it goes through JSON."""
    one = case.plan(Workload(length_of(case)))
    assert one.fits == (one.headroom_bytes >= 0)
    assert one.headroom_bytes == one.kv_bytes - one.need_bytes
    assert one.headroom_low <= one.headroom_bytes <= one.headroom_high
    assert one.gpus == case.gpus == one.tensor_parallel_size * one.pipeline_parallel_size * one.replicas
    assert one.terms[0].name == "device"
    assert [term.name for term in one.terms[-2:]] == ["kv cache", "free"]
    assert one.terms[0].bytes == sum(term.bytes for term in one.terms[1:])
    for share in one.per_gpu:
        assert share.memory_bytes == share.weight_bytes + share.cache_bytes + share.other_bytes + share.free_bytes
    assert all(term.confidence in ("exact", "documented", "measured", "estimated", "given") and term.source for term in one.terms)
    data = plan_data(one)
    assert json.loads(json.dumps(data)) == data
    assert data["schema_version"] == 1
    assert plan_text(data).startswith(("Starts", "Does not start"))
    assert one.command


@CASE
def test_the_most_requests_fit_and_one_more_does_not(case: Case) -> None:
    length = length_of(case)
    most = case.plan(Workload(length)).max_requests
    assert most is not None
    if most:
        assert case.plan(Workload(length, 0, most)).fits
    more = case.plan(Workload(length, 0, most + 1))
    assert not more.fits
    assert more.max_requests == most


@CASE
def test_the_longest_context_fits_and_one_more_does_not(case: Case) -> None:
    model = case.described()
    settings = {key: value for key, value in case.settings.items() if key != "max_model_len"}
    longest = max_context(model, case.engine, settings, case.gpu, case.gpus)

    def at(length: int) -> Plan:
        word = {"n_ctx": length} if case.engine == "llama.cpp" else {"max_model_len": length}
        return replace(case, settings=settings).plan(settings=word)

    if longest:
        assert at(longest).fits
    if model.max_context is not None and longest >= model.max_context:
        if case.engine == "vllm":
            with pytest.raises(EngineRefusal, match="beyond"):
                at(longest + 1)
    else:
        assert not at(longest + 1).fits


@CASE
def test_more_memory_never_fits_less(case: Case) -> None:
    work = Workload(length_of(case), 0, 2)
    found = [case.plan(work, given={"kv": size * GIB // 2}) for size in (0, 1, 3, 8, 20, 60)]
    most = [one.max_requests or 0 for one in found]
    assert most == sorted(most)
    assert [one.max_context for one in found] == sorted(one.max_context for one in found)
    assert [one.fits for one in found] == sorted(one.fits for one in found)
    assert len({one.need_bytes for one in found}) == 1


@CASE
def test_what_is_needed_is_the_least_that_holds(case: Case) -> None:
    """One byte less than need_bytes does not hold, by the plan's own verdict."""
    work = Workload(length_of(case), 0, 3)
    need = case.plan(work).need_bytes
    assert case.plan(work, given={"kv": need}).fits
    assert not case.plan(work, given={"kv": need - 1}).fits


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("length", [1, 500, 4096, 8192])
def test_need_is_the_engines_own_pool_read_backwards(name: str, length: int) -> None:
    """The engine's pool, given need_bytes, lets just these requests run at once; given a byte less, not all of them."""
    model, known = _read("meta-llama/Llama-3.1-8B"), engine(name)
    settings = known.Settings(**{{"vllm": "max_model_len", "sglang": "context_length", "tensorrt-llm": "max_seq_len",
                                  "tgi": "max_total_tokens"}[name]: length})  # fmt: skip
    alloc = allocation(name, model, settings, find_gpu("h100-sxm"))
    for requests in (1, 2, 7):
        need = alloc.need(Demand(length, requests))
        # vLLM prints requests over all blocks, of which it never gives the null block out.
        null = _null(name, model, settings)
        pool = known.pool(model, settings, need - null, "h100-sxm")  # type: ignore[attr-defined]
        less = known.pool(model, settings, need - null - 1, "h100-sxm")  # type: ignore[attr-defined]
        assert int(pool.max_concurrency) == requests
        assert int(less.max_concurrency) == requests - 1


def _null(name: str, model: Model, settings: Any) -> int:
    if name != "vllm":
        return 0
    return int(engine(name).pool(model, settings, GIB, "h100-sxm").bytes_per_block)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["google/gemma-3-27b-it", "openai/gpt-oss-120b", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
@pytest.mark.parametrize("tokens", [100, 5000, 32768])
def test_hybrid_blocks_are_the_engines(name: str, tokens: int) -> None:
    """In vLLM n requests need n times the blocks of its cache_bytes and the null block, windows and states included."""
    model, vllm = _read(name), engine("vllm")
    settings = vllm.Settings(max_model_len=tokens, max_num_seqs=4)
    alloc = allocation("vllm", model, settings, find_gpu("h100-sxm"))
    pool = vllm.pool(model, settings, 10 * GIB, "h100-sxm")  # type: ignore[attr-defined]
    held = vllm.cache_bytes(model, settings, tokens, 5).total_bytes
    assert alloc.need(Demand(tokens, 5)) == held + pool.bytes_per_block


def test_a_common_prefix_is_stored_once_in_whole_blocks() -> None:
    """4 requests of 1,000 tokens with 500 in common: 31 blocks of 16 once and 32 each, and the null block."""
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 1000})
    block = 16 * 131072
    assert case.plan(Workload(1000, 0, 4, shared_prefix_tokens=500)).need_bytes == (31 + 4 * 32 + 1) * block
    assert case.plan(Workload(1000, 0, 4)).need_bytes == (4 * 63 + 1) * block
    varying = Lengths.lognormal(800, 900, 1000)
    longest = Workload(varying, 0, 4, shared_prefix_tokens=500, occupancy="worst")
    assert case.plan(longest).need_bytes == (31 + 4 * 32 + 1) * block
    off = case.plan(Workload(1000, 0, 4, shared_prefix_tokens=500), settings={"enable_prefix_caching": False})
    assert off.need_bytes == (4 * 63 + 1) * block
    assert any("counted for every request" in note for note in off.notes)


@pytest.mark.parametrize("name", PAGED)
def test_a_prefix_never_needs_more(name: str) -> None:
    model = _read("meta-llama/Llama-3.1-8B")
    works = [Workload(3000, 500, 6, shared_prefix_tokens=common) for common in (0, 15, 16, 999, 3000)]
    needs = [plan(model, name, {"max_model_len": 4096}, "h100-sxm", 1, work, KV, advice=False).need_bytes for work in works]
    assert needs == sorted(needs, reverse=True)
    assert needs[-1] < needs[0]


def test_beams_share_their_prompt() -> None:
    """2 requests of 4 beams: 62 blocks of each prompt's 1,000 tokens once, and each beam's own rest."""
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 2000})
    block = 16 * 131072
    assert case.plan(Workload(1000, 200, 2, beams=4)).need_bytes == (2 * (62 + 4 * (75 - 62)) + 1) * block


def test_beams_of_unknown_prompts_share_nothing() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 2000})
    assert case.plan(Workload(requests=2, beams=4)).need_bytes == (2 * 4 * 125 + 1) * 16 * 131072


def test_encoder_rows_lie_in_front_of_the_text_in_sglang() -> None:
    """Llama-3.2-Vision: 6,404 image positions take a row each of the pool, beside the text's."""
    model = _read("meta-llama/Llama-3.2-11B-Vision-Instruct")
    works = [Workload(1000, 0, 40, encoder_tokens=tokens) for tokens in (0, 6404)]
    needs = [plan(model, "sglang", {"context_length": 16384}, "h100-sxm", 1, work, advice=False).need_bytes for work in works]
    row = 40 * 8 * (128 + 128) * 2
    assert needs[1] - needs[0] == 40 * 6404 * row


def test_encoder_positions_count_where_the_engine_counts_them() -> None:
    model = _read("openai/whisper-large-v3")
    needs = [
        plan(model, "transformers", None, "t4", 1, Workload(448, 0, 2, encoder_tokens=tokens), advice=False).need_bytes
        for tokens in (0, 1500)
    ]
    assert needs[1] - needs[0] == 2 * 1500 * 32 * 2 * 1280 * 2


def test_the_split_is_tensor_parallel_where_that_is_legal() -> None:
    one = Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 4, settings=LONG).plan()
    assert (one.tensor_parallel_size, one.pipeline_parallel_size, one.replicas) == (4, 1, 1)
    assert "--tensor-parallel-size 4" in one.command
    assert not any("not possible" in note for note in one.notes)


def test_another_split_where_heads_do_not_divide() -> None:
    """64 heads cannot be shared out among 3 GPUs: pipeline stages are taken, and a note says why."""
    one = Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 3, settings=LONG).plan()
    assert (one.tensor_parallel_size, one.pipeline_parallel_size, one.replicas) == (1, 3, 1)
    assert any("heads" in note and "not possible" in note for note in one.notes)
    with pytest.raises(EngineRefusal, match="heads"):
        Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", 3, settings={**LONG, "tensor_parallel_size": 3}).plan()


@pytest.mark.parametrize("gpus", [6, 8])
def test_the_split_does_not_change_with_the_requests(gpus: int) -> None:
    """Falcon-H1-34B's 20 heads do not divide by 8 or 6: whatever split is taken, its own most requests are its most."""
    case = Case("tiiuae/Falcon-H1-34B-Instruct", "h100-sxm", gpus, settings={"max_model_len": 8192})
    one = case.plan(Workload(8000))
    more = case.plan(Workload(8000, 0, (one.max_requests or 0) + 1))
    assert one.fits
    assert not more.fits
    assert (one.tensor_parallel_size, one.replicas) == (more.tensor_parallel_size, more.replicas)


def test_replicas_multiply_the_requests() -> None:
    single = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings=LONG).plan()
    three = Case("meta-llama/Llama-3.1-8B", "h100-sxm", 3, settings={**LONG, "tensor_parallel_size": 1}).plan()
    assert (three.replicas, three.settings.data_parallel_size) == (3, 3)
    assert single.max_requests is not None
    assert three.max_requests == 3 * single.max_requests
    servers = plan(_read("meta-llama/Llama-3.1-8B"), "tgi", {"num_shard": 1}, "h100-sxm", 2, advice=False)
    assert servers.replicas == 2
    assert any("2 servers" in note for note in servers.notes)


def test_every_split_is_ranked() -> None:
    """8 GPUs split in 10 ways; those that fit come first, by requests; a refused one says why."""
    options = rank_splits(_read("Qwen/Qwen2.5-72B-Instruct"), "vllm", LONG, "a100-80gb", 8)
    assert len(options) == 10
    fits = [option.fits for option in options]
    assert fits == sorted(fits, reverse=True)
    most = [option.plan.max_requests or 0 for option in options if option.plan and option.fits]
    assert most == sorted(most, reverse=True)
    refused = rank_splits(_read("meta-llama/Llama-3.1-8B"), "tgi", None, "h100-sxm", 16)
    assert any(option.plan is None and "does not repeat KV heads" in (option.refusal or "") for option in refused)


def test_fewest_gpus() -> None:
    """135 GiB of weights: two cards of 80 GB hold them with a little room, which 64 requests do not go into."""
    model = _read("Qwen/Qwen2.5-72B-Instruct")
    found = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "a100-80gb")
    assert found.plan is not None
    assert (found.plan.gpus, found.name) == (2, "2 x A100 80GB SXM4, TP 2")
    more = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "a100-80gb", Workload(requests=64))
    assert more.plan is not None
    assert more.plan.gpus > found.plan.gpus
    assert not Case("Qwen/Qwen2.5-72B-Instruct", "a100-80gb", settings={"max_model_len": 4096}).plan().fits
    none = fewest_gpus(model, "vllm", {"max_model_len": 4096}, "t4", counts=(1, 2))
    assert none.plan is None
    assert none.refusal


@pytest.mark.parametrize("case", CASES[:3], ids=[case.name for case in CASES[:3]])
def test_the_curve_goes_through_the_plans_point(case: Case) -> None:
    one = case.plan()
    points = requests_by_context(one)
    assert dict(points)[one.context] == one.max_requests
    most = [count or 0 for _, count in points]
    assert most == sorted(most, reverse=True)
    assert len(points) > 8


def test_the_curve_counts_the_encoders_positions() -> None:
    work = Workload(8_000, 192, 4, encoder_tokens=6_404)
    model = _read("meta-llama/Llama-3.2-11B-Vision-Instruct")
    one = plan(model, "sglang", {"context_length": 8_192}, workload=work, advice=False)
    assert requests_by_context(one, [8_192]) == ((8_192, one.max_requests),)
    text = plan(model, "sglang", {"context_length": 8_192}, workload=Workload(8_000, 192, 4), advice=False)
    assert (one.max_requests or 0) < (text.max_requests or 0)


def test_narrower_storage_holds_more() -> None:
    options = rank_kv_dtypes(_read("meta-llama/Llama-3.1-8B"), "vllm", LONG, "h100-sxm")
    most = {option.name: option.plan.max_requests for option in options if option.plan}
    assert most["fp8"] >= 2 * most["auto"]  # type: ignore[operator]
    cards = compare_gpus(_read("meta-llama/Llama-3.1-8B"), "vllm", {"max_model_len": 8192}, ("t4", "l4", "h100-sxm", "nosuch"))
    assert [option.fits for option in cards] == [False, True, True, False]
    assert "nosuch" in (cards[-1].refusal or "")


def test_what_no_engine_allows() -> None:
    llama = _read("meta-llama/Llama-3.1-8B")
    for name in PAGED:
        with pytest.raises(EngineRefusal, match="beyond the 131,072"):
            plan(llama, name, {"max_model_len": 200_000}, "h100-sxm")
    with pytest.raises(EngineRefusal, match="KV heads"):
        plan(llama, "tgi", {"num_shard": 16}, "h100-sxm")
    with pytest.raises(EngineRefusal, match="one kind"):
        plan(llama, "vllm", None, "2x4090+1x3090")
    with pytest.raises(EngineRefusal, match="nvfp4"):
        plan(llama, "tensorrt-llm", {"kv_cache_dtype": "nvfp4"}, "a100-80gb")
    with pytest.raises(EngineRefusal, match="fp8 cache has no attention kernels"):
        plan(llama, "vllm", {"kv_cache_dtype": "fp8", "max_model_len": 8192}, "mi210")
    assert plan(llama, "vllm", {"kv_cache_dtype": "fp8", "max_model_len": 8192}, "a100-80gb", advice=False).fits


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"engine": "nosuch"}, "engine"), ({"gpu": "nosuch"}, "gpu"), ({"gpus": 0}, "gpus"), ({"gpus": True}, "gpus"),
        ({"settings": {"max_model_len": 8192, "nosuch": 1}}, "nosuch"), ({"given": {"nosuch": 1}}, "given"),
        ({"workload": 7}, "workload"), ({"settings": {"tensor_parallel_size": 4}, "gpus": 6}, "gpus"),
        ({"settings": {"max_model_len": 1000}, "workload": Workload(900, 200)}, "workload"),
        ({"settings": {"max_num_seqs": 4}, "workload": Workload(100, 0, 5)}, "max_num_seqs"),
    ],
)  # fmt: skip
def test_bad_input(words: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        plan(_read("meta-llama/Llama-3.1-8B"), **words)
    assert error.value.fields["field"] == field


def test_a_setting_that_bounds_requests_bounds_the_plan() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={"max_model_len": 1000, "max_num_seqs": 10})
    assert case.plan().max_requests == 10
    raised = Case("meta-llama/Llama-3.1-8B", "l4", settings={"max_model_len": 8192}).plan(Workload(1, 0, 300))
    assert raised.settings.max_num_seqs == 300
    assert "--max-num-seqs 300" in raised.command
    assert any("max_num_seqs" in note for note in raised.notes)


def test_an_override_of_blocks_is_obeyed() -> None:
    """100 blocks are 413 fewer than one request of 8,192 tokens and the null block need, however much memory there is."""
    settings = {"max_model_len": 8192, "num_gpu_blocks_override": 100}
    one = Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings=settings).plan()
    assert (one.fits, one.headroom_bytes) == (False, -(512 + 1 - 100) * 16 * 131072)
    assert any("num_gpu_blocks_override" in text for text in one.warnings)
    assert Case("meta-llama/Llama-3.1-8B", "h100-sxm", settings={**settings, "num_gpu_blocks_override": 513}).plan().fits


def test_ollama_takes_its_context_by_memory() -> None:
    """On a card of 24 GB Ollama takes 32,768 tokens by itself."""
    one = plan(as_gguf(_read("meta-llama/Llama-3.1-8B"), "Q4_K_M"), "llama.cpp", {"front_end": "ollama"}, "4090", advice=False)
    assert (one.context, one.fits) == (32768, True)
    assert "OLLAMA_CONTEXT_LENGTH=32768" in one.command


def test_states_ask_for_a_seat_each() -> None:
    """vLLM starts with no more requests than blocks where states are kept: the command says a number that is legal."""
    one = Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192}).plan()
    assert one.pool is not None
    assert one.settings.max_num_seqs <= one.pool.num_blocks
    assert not any("will not start" in text for text in one.warnings)
    asked = Case("tiiuae/Falcon-H1-7B-Instruct", "a10g", settings={"max_model_len": 8192, "max_num_seqs": 4000}).plan()
    assert not asked.fits


def test_the_longest_is_solved_for_minus_one() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "l4")
    solved = case.plan(settings={"max_model_len": -1})
    assert solved.fits
    assert solved.context == max_context(case.described(), "vllm", None, "l4")
    assert not case.plan(settings={"max_model_len": solved.context + 1}).fits


def test_layers_over_cards_of_two_kinds() -> None:
    """Gemma-3-27B in bf16 over two 4090s and a 3090: each card holds whole layers and its own share, and no layer is lost."""
    model = _read("google/gemma-3-27b-it")
    one = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "2x4090+1x3090", advice=False)
    assert [share.gpu for share in one.per_gpu] == ["GeForce RTX 4090", "GeForce RTX 4090", "GeForce RTX 3090"]
    whole = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "h200", advice=False)
    assert sum(share.cache_bytes for share in one.per_gpu) == whole.need_bytes
    assert model.weight_bytes is not None
    assert sum(share.weight_bytes for share in one.per_gpu) >= model.weight_bytes
    assert one.headroom_bytes == min(share.free_bytes for share in one.per_gpu)
    equal = plan(model, "llama.cpp", {"n_ctx": 8192, "front_end": "server"}, "4090", 4, advice=False)
    assert len(equal.per_gpu) == 4
    assert equal.fits


def test_a_named_node_and_an_amount_of_memory() -> None:
    eight = plan(_read("Qwen/Qwen2.5-72B-Instruct"), "vllm", LONG, "8xh100", advice=False)
    assert (eight.gpus, eight.gpu.id) == (8, "h100-sxm")
    for name in PAGED:
        assert plan(_read("meta-llama/Llama-3.1-8B"), name, {"max_model_len": 8192}, "48GiB", advice=False).gpu.id == "custom"


def test_solved_figures_agree_with_the_plan() -> None:
    case = CASES[1]
    one = case.plan(Workload(requests=5))
    model = case.described()
    assert max_requests(model, "vllm", LONG, "a100-80gb", 4) == one.max_requests
    assert max_context(model, "vllm", LONG, "a100-80gb", 4, 5) == one.max_context


def test_the_public_face() -> None:
    settings = planner.engine("vllm").Settings(max_model_len=8192)
    one = planner.plan(
        _read("meta-llama/Llama-3.1-8B"), engine="vllm", settings=settings, gpu="l4", gpus=1, workload=planner.Workload(8000)
    )
    assert isinstance(one, planner.Plan)
    assert (one.verdict, one.advice[0].code) == ("fits", "more_requests")
    assert verdict_line(plan_data(one)).startswith("Starts. 1 request of 8,000 tokens; ")


def test_gguf_storage_is_near_the_published_file() -> None:
    """Gemma-3-27B's Q4_K_M files are listed at 16.5 GB; the estimate is above that, by less than 5%."""
    model = as_gguf(_read("google/gemma-3-27b-it"), "q4_k_m")
    assert model.weights is not None
    text = sum(item.bytes for item in model.weights.items if item.name in ("embeddings", "layers"))
    assert 16.5e9 < text < 16.5e9 * 1.05
    assert model.weights_confidence == "estimated"
    with pytest.raises(InputError, match="GGUF"):
        as_gguf(model, "Q9")
