"""A vLLM log beside the planner: the pool by vLLM's own rules, the budget's equations, estimates with their ranges, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.accelerators import Gpu
from planner.engines.vllm_tables import unread
from planner.errors import PlannerError
from planner.model import Model
from validation.logs.log import Check, CheckLine, Log, check_of
from validation.logs.vllm_advice import advice
from validation.logs.vllm_alone import alone_lines, alone_texts, likely_models
from validation.logs.vllm_differ import differences
from validation.logs.vllm_estimates import estimates
from validation.logs.vllm_gpu import card_of
from validation.logs.vllm_infer import Fit, fit
from validation.logs.vllm_memory import budget_lines, budget_texts, ranks_of
from validation.logs.vllm_pool import pool_bytes
from validation.logs.vllm_release import Release
from validation.logs.vllm_texts import pool_texts, refusal_texts, setting

#: Settings that a person is asked for where they were inferred.
_FLAGS = {
    "version": "--set version=X.Y.Z: vLLM's release", "gpu": "--gpu: the accelerator",
    "tensor_parallel_size": "--set tensor_parallel_size=N: how many GPUs share each layer",
    "kv_cache_dtype": "--set kv_cache_dtype=WORD: the cache's format",
    "speculative_config": "--set speculative_config={...}: what drafts tokens, and how many",
    "max_num_batched_tokens": "--set max_num_batched_tokens=N: the tokens of a batch, which windows keep on top",
    "enable_prefix_caching": "--set enable_prefix_caching=true|false: it keeps more states",
    "block_size": "--set block_size=N: the tokens of a block",
    "decode_context_parallel_size": "--set decode_context_parallel_size=N: the ranks that share the positions",
    "pipeline_parallel_size": "--set pipeline_parallel_size=N: the stages that layers are split into",
}  # fmt: skip


def explain_log(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    """Every figure of the start that can be compared, with its rule; what the log shows; what is missing; what to change."""
    whole = log
    log = replace(log, printed={name: log.printed[name] for name in log.printed if name in log.other["own"]})
    card = card_of(log, gpu)
    lines: list[CheckLine] = list(budget_lines(log))
    rules = [*log.warnings, *_release_texts(log.other["release"])]
    missing: list[str] = []
    tips: list[str] = []
    if model is None:
        lines += alone_lines(log)
        rules += [*alone_texts(log), *refusal_texts(log, None, None), *budget_texts(log)]
        missing.append(_model_missing(log))
        return check_of(lines, missing, tips, rules)
    source = pool_bytes(log.printed, ranks_of(log), log.other["available_printed_by"])
    found = fit(log, model, card, source)
    if isinstance(found, PlannerError) and card is not None and isinstance(again := fit(log, model, None, source), Fit):
        rules.append(f"{found.message}: the layout of an H100 is taken")
        found, card = again, None
    if isinstance(found, PlannerError):
        rules.append(f"the planner cannot lay out {model.name} as the log says: {found.message}")
        lines += alone_lines(log)
        return check_of(lines, missing, tips, [*rules, *alone_texts(log), *refusal_texts(log, None, model), *budget_texts(log)])
    lines = [*found.lines, *lines]
    rules.append(f"compared as {model.source}")
    rules += [*pool_texts(log, found, source), *refusal_texts(log, found, model), *budget_texts(log)]
    if not found.agrees:
        rules += differences(log, found, source)
        missing += _unsaid(log, found)
    else:
        missing += [_FLAGS[name] + "; inferred here, say it to be sure" for name in found.changes if name in _FLAGS]
    terms = estimates(replace(log, printed=whole.printed), model, found.setup.settings, card)
    lines += terms.lines
    missing += terms.missing
    rules += terms.rules
    if not lines:
        missing.append("a longer part of the log: nothing in it can be compared")
    tips += advice(log, model, found, card)
    rules += [f"KV format: {why}"] if (why := found.setup.resolved.why) else []
    return check_of(lines, missing, tips, rules)


def _release_texts(release: Release) -> Iterator[str]:
    if release.version is None:
        low, high = release.since or "the first", f"before {release.until}" if release.until else "on"
        yield f"vLLM's release is not printed; by {release.source or 'nothing in it'} it is from {low} {high}"
    elif release.source != "printed":
        yield f"vLLM {release.version}, told by {release.source}"
    if release.version and (note := unread(release.candidates[0])):
        yield note


def _model_missing(log: Log) -> str:
    named = f"{log.model!r} is not in the catalogue" if log.model else "the log does not name it"
    likely = likely_models(log)
    hint = f"; the bytes of a token fit {', '.join(likely)}" if likely else ""
    return f"--model: the model that is served; {named}{hint}"


def _unsaid(log: Log, found: Fit) -> Iterator[str]:
    """Settings that the log does not say, and what was taken for them."""
    for name, text in _FLAGS.items():
        if name not in log.settings and name not in ("version", "gpu", "speculative_config") and name not in found.changes:
            value = getattr(found.setup, name, None) or getattr(found.setup.settings, name)
            if value is not None and name != "enable_prefix_caching":
                yield f"{text}; {setting(name, value)} is taken"
