"""The simulation of requests of varying length, held to closed forms where there are any."""

from __future__ import annotations

import functools

import pytest

import model_configs
from planner.capacity import Plan, plan
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.simulate import simulate
from planner.workload import Workload
from planner.workload_lengths import Lengths

BUDGET = {"kv": 20 * 1024**3}
PAGED = ("vllm", "sglang", "tensorrt-llm", "tgi")


@functools.cache
def llama() -> Model:
    return model_configs.read("catalogue:meta-llama/Llama-3.1-8B")


def planned(engine: str, work: Workload) -> Plan:
    return plan(llama(), engine, {"max_model_len": 32768}, "h100-sxm", 1, work, BUDGET, advice=False)


@pytest.mark.parametrize("engine", PAGED)
def test_one_step_of_fixed_length_is_the_closed_form(engine: str) -> None:
    """With one length and one step every moment is alike: floor(usable blocks / blocks), always."""
    work = Workload(1000, 0, 4)
    found = simulate(planned(engine, work), draws=50)
    assert {count for _, count in found.curve} == {planned(engine, work).max_requests}
    assert found.preempted == 0
    assert found.occupancy == 1000


@pytest.mark.parametrize("engine", PAGED)
def test_fixed_lengths_lie_between_worst_and_average(engine: str) -> None:
    """Requests at random steps hold more than all at their longest would let in, and the mean is the occupancy's."""
    work = Workload(1000, 500, 4)
    one = planned(engine, work)
    found = simulate(one, draws=300)
    assert one.max_requests is not None
    assert found.curve[-1][1] >= one.max_requests
    if found.reserves_whole:
        assert {count for _, count in found.curve} == {one.max_requests}
    else:
        assert found.occupancy == pytest.approx(work.mean_occupancy, rel=0.01)
        assert found.mean * found.occupancy == pytest.approx(one.max_requests * 1500, rel=0.03)


@pytest.mark.parametrize("engine", PAGED)
@pytest.mark.parametrize("scale", [1, 8])
def test_the_plan_for_95_percent_is_what_the_simulation_finds(engine: str, scale: int) -> None:
    """A plan's most requests of varying lengths overflow in about 5% of other random moments."""
    work = Workload(Lengths.lognormal(400 * scale, 1500 * scale), Lengths.lognormal(100 * scale, 400 * scale), 2)
    one = planned(engine, work)
    found = simulate(one, one.max_requests, draws=3000)
    assert 0.01 <= found.preempted <= 0.08
    assert found.curve[2][1] == pytest.approx(one.max_requests, rel=0.05)


def test_a_seed_gives_the_same_again_and_another_one_does_not() -> None:
    one = planned("vllm", Workload(Lengths.lognormal(800, 4000), 200, 50))
    first, again, other = simulate(one, seed=3), simulate(one, seed=3), simulate(one, seed=4)
    assert first == again
    assert first != other
    assert first.curve[0][1] == pytest.approx(other.curve[0][1], rel=0.1)


def test_more_requests_are_preempted_more_often() -> None:
    one = planned("vllm", Workload(Lengths.lognormal(800, 4000), 200, 50))
    shares = [simulate(one, count).preempted for count in (10, 60, 90, 120, 400)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_a_common_prefix_lets_more_in() -> None:
    lengths = Lengths.percentiles({0: 1000, 100: 3000})
    alone, shared = (
        simulate(planned("vllm", Workload(lengths, 100, 4, shared_prefix_tokens=common)), draws=100).mean for common in (0, 900)
    )
    assert shared > alone * 1.5


def test_what_is_not_simulated() -> None:
    with pytest.raises(InputError, match="lengths"):
        simulate(planned("vllm", Workload(requests=2)))
    slots = plan(llama(), "llama.cpp", None, "h100-sxm", 1, Workload(1000, 100, 4), BUDGET, advice=False)
    with pytest.raises(EngineRefusal, match="when it starts"):
        simulate(slots)


def test_progress_is_told() -> None:
    seen: list[float] = []
    simulate(planned("vllm", Workload(1000, 10, 4)), draws=250, progress=seen.append)
    assert seen[0] == 0.0
    assert seen[-1] == 1.0
