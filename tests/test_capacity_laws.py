"""Do the figures of every plan agree with each other, and does one more never fit?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import planner
from planner import GIB, EngineRefusal
from planner.capacity import max_context, max_requests, plan, requests_by_context
from planner.capacity_plan import Plan
from planner.plan_report import plan_data, plan_text, verdict_line
from planner.workload import Workload
from tests.deployments import CASE, CASES, LONG, Case, length_of, read


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
    model = read("meta-llama/Llama-3.2-11B-Vision-Instruct")
    one = plan(model, "sglang", {"context_length": 8_192}, workload=work, advice=False)
    assert requests_by_context(one, [8_192]) == ((8_192, one.max_requests),)
    text = plan(model, "sglang", {"context_length": 8_192}, workload=Workload(8_000, 192, 4), advice=False)
    assert (one.max_requests or 0) < (text.max_requests or 0)


def test_the_longest_is_solved_for_minus_one() -> None:
    case = Case("meta-llama/Llama-3.1-8B", "l4")
    solved = case.plan(settings={"max_model_len": -1})
    assert solved.fits
    assert solved.context == max_context(case.described(), "vllm", None, "l4")
    assert not case.plan(settings={"max_model_len": solved.context + 1}).fits


def test_solved_figures_agree_with_the_plan() -> None:
    case = CASES[1]
    one = case.plan(Workload(requests=5))
    model = case.described()
    assert max_requests(model, "vllm", LONG, "a100-80gb", 4) == one.max_requests
    assert max_context(model, "vllm", LONG, "a100-80gb", 4, 5) == one.max_context


def test_the_public_face() -> None:
    settings = planner.engine("vllm").Settings(max_model_len=8192)
    one = planner.plan(
        read("meta-llama/Llama-3.1-8B"), engine="vllm", settings=settings, gpu="l4", gpus=1, workload=planner.Workload(8000)
    )
    assert isinstance(one, planner.Plan)
    assert (one.verdict, one.advice[0].code) == ("fits", "more_requests")
    assert verdict_line(plan_data(one)).startswith("Starts. 1 request of 8,000 tokens; ")
