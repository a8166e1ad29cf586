"""Time on the Learn page: the two phases, the first token, a warm cache, and what the cache saves; all by the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from planner.cache import architecture_bytes
from planner.hardware import Gpu
from planner.latency import Latency, Savings, latency
from planner.latency_efficiency import Range
from planner.model import Model
from ui import charts, learn_measured
from ui import format as fmt
from ui.capacity_time import seconds
from ui.i18n import t
from ui.learn_inputs import key, number

IN_LINK = tuple(map(key, ("warm.prompt", "warm.known", "work.prompt", "work.answer")))
_PROMPTS = tuple(1 << power for power in range(7, 17))
_ANSWERS = tuple(1 << power for power in range(4, 14))
#: Blocks that a warm prefix is counted in, vLLM's default.
_BLOCK = 16


def estimate(model: Model, gpu: Gpu, prompt: int, answer: int) -> Latency:
    """One request on as few GPUs of this kind as hold the weights, because time on a GPU that cannot hold them means nothing."""
    ranks = 1
    while model.weight_bytes and ranks < 8 and model.weight_bytes > 0.85 * gpu.usable_bytes * ranks:
        ranks *= 2
    return latency(model, gpu, prompt_tokens=prompt, output_tokens=answer, tensor_parallel_size=ranks)


def _gpus(found: Latency, gpu: Gpu) -> str:
    ranks = found.tensor_parallel_size
    return gpu.name if ranks == 1 else f"{ranks} × {gpu.name}"


def phases(model: Model, gpu: Gpu) -> None:
    found = estimate(model, gpu, 4096, 256)
    low, high = found.crossover_concurrency
    if low is None:
        crossover = t("learn.phases.never")
    else:
        crossover = t("learn.phases.crossover", low=f"{low:,}", high=f"{high:,}" if high is not None else "∞")
    st.info(t(
        "learn.phases.figure", model=model.name, gpu=_gpus(found, gpu), prompt=4096, ttft=seconds(found.ttft_s),
        tpot=seconds(found.time_per_output_token_s), weights=fmt.size(found.weight_bytes.high),
        kv=fmt.size(found.kv_bytes.high), crossover=crossover,
    ), icon=":material/speed:")  # fmt: skip


def first(model: Model, gpu: Gpu) -> None:
    prompts = [tokens for tokens in _PROMPTS if tokens <= (model.max_context or _PROMPTS[-1])] or [64]
    times = [estimate(model, gpu, tokens, 1).ttft_s for tokens in prompts]
    alt = t(
        "learn.first.alt", model=model.name, gpu=gpu.name, short=seconds(times[0]), short_tokens=f"{prompts[0]:,}",
        long=seconds(times[-1]), long_tokens=f"{prompts[-1]:,}",
    )  # fmt: skip
    lines = [(t("learn.first.band"), "#0072B2", prompts, times)]
    charts.show(bands(lines, t("learn.first.axis"), t("learn.first.seconds")), "learn_first", alt)


@st.fragment
def warm(model: Model, gpu: Gpu) -> None:
    left, right = st.columns(2)
    prompt = number(left, "warm.prompt", 1, 1_000_000, 8192, step=256)
    known = number(right, "warm.known", 0, 1_000_000, 6144, step=256)
    rest = prompt - min(known, prompt - 1) // _BLOCK * _BLOCK
    cold = estimate(model, gpu, prompt, 1)
    st.info(
        t("learn.warm.figure", cold=prompt, cold_time=seconds(cold.ttft_s), warm=rest, block=_BLOCK, share=rest / prompt),
        icon=":material/mode_heat:",
    )


@st.fragment
def work(model: Model, gpu: Gpu) -> None:
    left, right = st.columns(2)
    prompt = number(left, "work.prompt", 1, 100_000, 512, step=128)
    answer = number(right, "work.answer", 1, 100_000, 1024, step=128)
    saved = estimate(model, gpu, prompt, answer).savings
    st.info(t(
        "learn.work.figure", without=saved.without_projected_tokens, with_=saved.with_projected_tokens, flops=saved.flops_ratio,
        with_time=seconds(saved.with_s), without_time=seconds(saved.without_s), low=saved.time_ratio.low,
        high=saved.time_ratio.high,
    ), icon=":material/bolt:")  # fmt: skip
    _table(saved, architecture_bytes(model, prompt + answer - 1).total_bytes, answer)
    each = [estimate(model, gpu, prompt, tokens).savings for tokens in _ANSWERS]
    lines = [
        (t("learn.steps.without"), "#D55E00", _ANSWERS, [one.without_s for one in each]),
        (t("learn.steps.with"), "#0072B2", _ANSWERS, [one.with_s for one in each]),
    ]
    alt = t(
        "learn.work.alt", tokens=_ANSWERS[-1], with_time=seconds(each[-1].with_s), without_time=seconds(each[-1].without_s)
    )
    charts.show(bands(lines, t("learn.work.axis"), t("learn.work.seconds")), "learn_work", alt)
    st.markdown(t("learn.work.five"))
    learn_measured.saved()
    st.markdown(t("learn.work.same"))


def _table(saved: Savings, kept_bytes: int, answer: int) -> None:
    """Projections, arithmetic, memory, time and throughput of one answer, without a cache and with one."""
    lines = [
        ("tokens", f"{saved.without_projected_tokens:,}", f"{saved.with_projected_tokens:,}"),
        ("flops", *(_tera(flops.high) for flops in (saved.without_flops, saved.with_flops))),
        ("memory", fmt.size(0), fmt.size(kept_bytes)),
        ("time", seconds(saved.without_s), seconds(saved.with_s)),
        ("rate", *(t("capacity.range", low=f"{answer / time.high:,.3g}", high=f"{answer / time.low:,.3g}")
                   for time in (saved.without_s, saved.with_s))),
    ]  # fmt: skip
    without, with_ = t("learn.steps.without"), t("learn.steps.with")
    rows = [{t("learn.work.what"): t(f"learn.work.row.{name}"), without: one, with_: two} for name, one, two in lines]
    st.table(rows, border="horizontal", hide_index=True, alt=t("learn.work.table.alt"))


def bands(lines: Sequence[tuple[str, str, Sequence[int], Sequence[Range]]], across: str, up: str) -> dict[str, Any]:
    """Ranges over token counts, both axes logarithmic: a filled band with its two ends drawn, solid below and dashed above."""
    data: list[dict[str, Any]] = []
    for name, colour, tokens, times in lines:
        texts = [f"{count:,}: {seconds(time)}" for count, time in zip(tokens, times, strict=True)]
        common = {
            "type": "scatter", "mode": "lines", "x": list(tokens), "hovertext": texts, "hoverinfo": "text+name", "name": name,
        }  # fmt: skip
        data.append({**common, "y": [time.low for time in times], "line": {"color": colour, "width": 2}, "showlegend": True})
        data.append({
            **common, "y": [time.high for time in times], "line": {"color": colour, "width": 2, "dash": "dash"},
            "fill": "tonexty", "fillcolor": f"rgba({','.join(str(int(colour[i:i + 2], 16)) for i in (1, 3, 5))},0.18)",
            "showlegend": False,
        })  # fmt: skip
    ticks = list(lines[0][2])
    return {
        "data": data,
        "layout": {
            "height": 340, "margin": charts.WIDE_MARGIN, "legend": charts.LEGEND, "hovermode": "closest",
            "xaxis": {"type": "log", "title": {"text": across}, "tickmode": "array", "tickvals": ticks,
                      "ticktext": [fmt.tokens(tick) for tick in ticks], "fixedrange": True},
            "yaxis": {"type": "log", "title": {"text": up}, "fixedrange": True, "automargin": True, "tickformat": "~g",
                      "dtick": 1},
        },
    }  # fmt: skip


def _tera(flops: float) -> str:
    """A count of operations in 10^12, with three digits of small ones."""
    return f"{flops / 1e12:,.0f} TFLOP" if flops >= 1e14 else f"{flops / 1e12:,.3g} TFLOP"
