"""The engine's answer beside the architecture's: its bytes, the rule behind them, and the difference step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from planner import explain_reasons
from planner.cache import CacheBytes
from planner.engines import vllm
from planner.engines.base import allocated
from planner.engines.explain import Reason, difference
from planner.engines.vllm_setup import prepare
from planner.errors import PlannerError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from ui import charts, messages, reason, transformers_words, waterfall, words
from ui import format as fmt
from ui.answer import by_config, gpu_tile, requests_text, size_tile
from ui.engine_input import Choice
from ui.i18n import t
from ui.inputs import Workload, over_limit


@dataclass(frozen=True)
class Answer:
    """What an engine allocates, and the reasons that lead there from the architecture's bytes."""

    choice: Choice
    cache: CacheBytes
    plain: CacheBytes
    reasons: tuple[Reason, ...]

    @property
    def difference_bytes(self) -> int:
        return self.cache.total_bytes - self.plain.total_bytes


def ask(model: Model, choice: Choice, plain: CacheBytes, gpu: Gpu | None) -> Answer | PlannerError | None:
    """The engine's answer for the workload of `plain`; what it refuses, or what is wrong with its settings; None for none."""
    if choice.problem is not None:
        return choice.problem
    if choice.settings is None:
        return None
    tokens, requests, encoder = plain.tokens, plain.requests, plain.encoder_tokens
    try:
        cache = allocated(model, choice.engine, choice.settings, tokens, requests, gpu, encoder)
        packed = choice.engine.name == "transformers" and cache.rule is not None
        reasons = () if packed else difference(model, choice.engine, choice.settings, tokens, requests, encoder, gpu)
    except PlannerError as problem:
        return problem
    return Answer(choice, cache, plain, reasons)


def at_lengths(model: Model, answer: Answer, gpu: Gpu | None) -> Callable[[int], int]:
    """The engine's bytes at any number of tokens, for the curve. vLLM's layout is made once, being most of the work."""
    plain, choice = answer.plain, answer.choice
    if isinstance(choice.settings, vllm.Settings):
        setup = prepare(model, choice.settings, gpu or find_gpu(vllm.DEFAULT_GPU))
        return lambda tokens: vllm.setup_bytes(setup, tokens, plain.requests, plain.encoder_tokens).total_bytes
    return lambda tokens: allocated(
        model, choice.engine, choice.settings, tokens, plain.requests, gpu, plain.encoder_tokens
    ).total_bytes


def problem(found: PlannerError, choice: Choice) -> None:
    """One message that says why there is no answer of this engine, and that the architecture's stands."""
    messages.engine_error(found, choice.label)


def headline(model: Model, answer: Answer, workload: Workload, shell: str) -> None:
    """The engine's bytes first, beside them the architecture's, a request's, and the GPU's share. shell: what prints them."""
    cache, plain, choice = answer.cache, answer.plain, answer.choice
    tiles = st.grid(4, min_column_width=150)
    where = "rank" if choice.ranks > 1 else "total"
    number, tokens = requests_text(plain.requests), f"{plain.tokens:,}"
    source, sure = reason.engine_source(choice.engine.name), "documented" if choice.option == "tgi" else "exact"
    what = t(f"engine.{where}.help", exact=fmt.exact(cache.total_bytes), requests=number, tokens=tokens, ranks=choice.ranks)
    whole = explain_reasons.engine_total(cache, plain, answer.reasons)
    why = reason.Reason(what, whole, sure, source, shell, "kv_cache_bytes")
    size_tile(tiles, "engine", t(f"engine.{where}", engine=choice.label), cache.total_bytes, why)
    what = t("engine.architecture.help", exact=fmt.exact(plain.total_bytes), dtype=model.dtype)
    own = by_config(model, what, explain_reasons.total(model, plain), shell, "architecture_bytes")
    size_tile(tiles, "architecture", t("engine.architecture"), plain.total_bytes, own)
    each = cache.bytes_per_request
    what = t("engine.request.help", exact=fmt.exact(each), tokens=tokens)
    why = reason.Reason(what, explain_reasons.per_request(cache), sure, source, shell, "bytes_per_request")
    size_tile(tiles, "request", t("answer.request"), each, why)
    gpu_tile(tiles, model, cache, workload.gpu, shell, choice.ranks)
    over_limit(model, workload.tokens)
    if cache.rule:
        st.caption(f":material/rule: {t('engine.rule', engine=choice.label, rule=messages.plain(words.told(cache.rule)))}")
    for text in cache.warnings:
        st.info(messages.plain(messages.sentence(words.told(text))), icon=":material/info:")


def why(model: Model, answer: Answer) -> None:
    """The difference to the architecture as a chart and as a list, both adding up to it exactly."""
    st.header(t("why.title", engine=answer.choice.label), anchor=False)
    change, own = answer.difference_bytes, fmt.size(answer.plain.total_bytes)
    fields = {"engine": answer.choice.label, "total": fmt.size(answer.cache.total_bytes), "own": own}
    if not change and not answer.reasons:
        st.markdown(t("why.same", **fields))
    else:
        key = "why.more" if change > 0 else "why.less" if change < 0 else "why.even"
        st.markdown(t(key, **fields, difference=fmt.size(abs(change)), exact=fmt.exact(abs(change))))
    if answer.reasons:
        figure = waterfall.figure(answer.choice.label, answer.plain.total_bytes, answer.reasons)
        texts = [words.reason(reason) for reason in answer.reasons]
        charts.show(figure, "why_chart", t("why.alt", **fields, reasons="; ".join(texts)))
        st.markdown("\n".join(f"- {messages.plain(text)}" for text in texts))
    if answer.choice.option == "transformers":
        st.markdown(" ".join(transformers_words.reasons(model, answer.cache, answer.choice.settings)))
