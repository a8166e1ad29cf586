"""A running vLLM: /metrics (vllm:cache_config_info), /v1/models, /version, and /server_info where it is switched on.

Source: CacheConfig.metrics_info of vLLM, vllm/config/cache.py; its labels are that class's fields at the version.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.engines import vllm
from planner.engines.base import Pool
from planner.errors import shown
from planner.hardware import Gpu
from planner.model import Model
from planner.units import format_bytes
from validation.logs.log import Check, CheckLine, check_of
from validation.server_http import Client
from validation.server_told import AMPLE, Told, by_budget, compared, whole, word

NAME: Final = "vllm"
_INFO: Final = re.compile(r"^(?:ray_)?vllm[:_]cache_config_info\{(.*)\}\s", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: Labels that are settings, by how their text is read; "None" is a label that was not set.
_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "cache_dtype": ("kv_cache_dtype", str),
    "gpu_memory_utilization": ("gpu_memory_utilization", float),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", int),
    "num_gpu_blocks_override": ("num_gpu_blocks_override", int),
    "enable_prefix_caching": ("enable_prefix_caching", "True".__eq__),
    "mamba_cache_dtype": ("mamba_cache_dtype", str),
    "mamba_ssm_cache_dtype": ("mamba_ssm_cache_dtype", str),
    "kv_cache_dtype_skip_layers": ("kv_cache_dtype_skip_layers", re.compile(r"['\"]([^'\"]*)['\"]").findall),
}
#: Settings that the labels of cache_config_info do not hold, where /server_info or vllm:vllm_config_info tells them.
_PARALLEL: Final = ("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size")
_WINDOWS: Final = ("sliding", "sliding_mla", "chunked")
_BATCHES: Final = (2048, 8192, 16384)  # the defaults of max_num_batched_tokens, by GPU memory
_FIGURES: Final = ("num_gpu_blocks", "kv_cache_size_tokens")


def read(client: Client) -> Told | None:
    """What the server says; None where it is no vLLM."""
    metrics = client.get("/metrics").text()
    version = word(client.get("/version").fields().get("version"))
    rows = [dict(_LABEL.findall(text)) for text in _INFO.findall(metrics)]
    if not rows and not (version and "vllm:" in metrics):
        return None
    served = _model(client.need("/v1/models").fields())
    labels = _smallest(rows)
    settings: dict[str, Any] = {}
    for label, (name, form) in _SETTINGS.items():
        if labels.get(label, "None") not in ("None", ""):
            with contextlib.suppress(ValueError):
                settings[name] = form(labels[label])
    if labels.get("user_specified_block_size") == "True":
        settings["block_size"] = whole(labels.get("block_size"))
    settings |= _parallel(metrics + client.get("/server_info").text())
    untold = version is None or version.startswith("0.1.dev")  # a build without its tags
    if not untold:
        settings["version"] = version
    if length := whole(served.get("max_model_len")):
        settings["max_model_len"] = length
    figures: dict[str, float] = {name: count for name in _FIGURES if (count := whole(labels.get(name))) is not None}
    with contextlib.suppress(ValueError):
        figures["kv_cache_max_concurrency"] = float(labels.get("kv_cache_max_concurrency", ""))
    notes = [f"the release is not told ({shown(version)}); the rules of the newest are taken"] if untold else []
    if len(rows) > 1:
        notes.append(f"{len(rows)} engines share the requests (data parallel); the smallest pool is compared")
    return Told(
        NAME, version, word(served.get("id")), word(served.get("root")), settings=settings, figures=figures,
        other={"labels": labels}, notes=tuple(notes),
    )  # fmt: skip


def _model(models: Mapping[str, Any]) -> Mapping[str, Any]:
    """The base model among those served; adapters name it as their parent."""
    rows = models.get("data")
    found = [row for row in rows if isinstance(row, dict) and not row.get("parent")] if isinstance(rows, list) else []
    return found[0] if found else {}


def _smallest(rows: list[dict[str, str]]) -> dict[str, str]:
    return min(rows, key=lambda row: whole(row.get("num_gpu_blocks")) or 0, default={})


def _parallel(text: str) -> dict[str, int]:
    found = {}
    for name in _PARALLEL:
        match = re.search(rf'(?:parallel_config_|[\s,({{"]){name}["\']?\s*[=:]\s*["\']?(\d{{1,6}})\b', text)
        if match:
            found[name] = int(match[1])
    return found


def explain(told: Told, model: Model, settings: vllm.Settings, gpu: Gpu | None) -> Check:
    """Blocks, tokens, concurrency and the longest request beside ours; what the blocks take in bytes.

    tokens and concurrency follow from num_gpu_blocks by vLLM's own rules at its version; num_gpu_blocks from
    kv_cache_memory_bytes where that is set, else from the planner's budget of the GPU.
    """
    missing: list[str] = []
    notes = list(told.notes)
    blocks = whole(told.figures.get("num_gpu_blocks"))
    if blocks is None:
        missing.append("num_gpu_blocks: this vLLM does not print it at /metrics; its start-up log does")
        return check_of((), missing, rules=notes)
    settings, block_line = _block_size(told, model, settings, gpu, notes)
    settings, settled = _batch(told, model, settings, gpu, notes)
    pool = vllm.pool(model, settings.model_copy(update={"num_gpu_blocks_override": blocks}), AMPLE, gpu)
    lines = [block_line, *(_capacity(told, pool) if settled else ()), _blocks(told, model, settings, gpu, blocks, pool, missing)]
    if wanted := [name for name in _PARALLEL[:2] if name not in settings.model_fields_set]:
        missing.append(f"--set {'=N, --set '.join(wanted)}=N: how the model is spread over GPUs; 1 is taken")
    if not settled:
        missing.append("--gpu, or --set max_num_batched_tokens=N: windows keep the tokens in flight, which depend on it")
    size = blocks * pool.bytes_per_block
    notes.append(
        f"{blocks:,} blocks x {pool.bytes_per_block:,} bytes = {format_bytes(size)} of cache on each GPU; a request of"
        f" {pool.max_model_len:,} tokens takes {pool.blocks_per_request:,} blocks, so {pool.max_concurrency:,.2f} run at once"
        f" and the log's size is {pool.tokens:,} tokens"
    )
    runs = (text for text in pool.warnings if "will not start" not in text)  # it did, with a flag that is not told
    return check_of(lines, missing, rules=(*notes, *runs))


def _block_size(
    told: Told, model: Model, settings: vllm.Settings, gpu: Gpu | None, notes: list[str]
) -> tuple[vllm.Settings, CheckLine | None]:
    """The size of a block that the engine chose beside ours, and settings that have it.

    Before the engine told its API server, the label had the size before a hybrid's was aligned to its states; without a
    GPU, a size that another card's kernels would choose is taken as it is.
    """
    labels = told.other["labels"]
    effective = whole(labels.get("effective_attention_block_size"))
    printed = effective or whole(labels.get("block_size"))
    found = vllm.pool(model, settings, 0, gpu)
    ours = found.details.get("block_size")
    if printed is None or ours is None:
        return settings, None
    if effective:
        ours *= settings.decode_context_parallel_size
    if printed == ours:
        return settings, compared("block_size", printed, ours, "tokens of a block, as the attention backend and states need it")
    if any(group.kind == "mamba" for group in found.groups) and printed < ours and not effective:
        notes.append(f"block_size {printed} is the size before it was aligned to the states' blocks; {ours} is what is used")
        return settings, None
    if gpu is None and settings.block_size is None:
        notes.append(f"block_size {printed} is taken from the server; the kernels of an H100 would choose {ours}, so say --gpu")
        return settings.model_copy(update={"block_size": printed}), None
    why = "as it was asked for" if settings.block_size else "the backend that vLLM chose needs another size than ours"
    return settings, compared("block_size", printed, ours, f"tokens of a block: {why}")


def _batch(
    told: Told, model: Model, settings: vllm.Settings, gpu: Gpu | None, notes: list[str]
) -> tuple[vllm.Settings, bool]:
    """Settings with the batch whose tokens in flight windows keep, and whether it is known.

    Its default goes by the GPU. Without one it is that of the defaults which alone gives the printed concurrency.
    """
    fixed = settings.model_copy(update={"num_gpu_blocks_override": whole(told.figures["num_gpu_blocks"])})
    windows = any(group.kind in _WINDOWS for group in vllm.pool(model, settings, 0, gpu).groups)
    if gpu is not None or settings.max_num_batched_tokens or not windows:
        return settings, True
    printed = told.figures.get("kv_cache_max_concurrency", 0.0)
    fitting = []
    for size in _BATCHES:
        pool = vllm.pool(model, fixed.model_copy(update={"max_num_batched_tokens": size}), AMPLE)
        fitting += [size] if math.isclose(pool.max_concurrency, printed, rel_tol=1e-9) else []
    if len(fitting) != 1:
        return settings, False
    notes.append(f"max_num_batched_tokens {fitting[0]:,} is taken: of the defaults it alone gives the printed concurrency")
    return settings.model_copy(update={"max_num_batched_tokens": fitting[0]}), True


def _capacity(told: Told, pool: Pool) -> list[CheckLine]:
    lines = []
    request = f"one request of {pool.max_model_len:,} tokens takes {pool.blocks_per_request:,} blocks"
    printed = told.figures.get("kv_cache_max_concurrency")
    if printed is not None:
        equal = math.isclose(printed, pool.max_concurrency, rel_tol=1e-9)
        rule = f"{pool.num_blocks:,} blocks / {pool.blocks_per_request:,}: {request}"
        lines.append(compared("max_concurrency", printed, pool.max_concurrency, rule, equal))
    printed = told.figures.get("kv_cache_size_tokens")
    if printed is not None:
        lines.append(compared("gpu_kv_cache_tokens", printed, pool.tokens, "floor(max_concurrency x max_model_len)"))
    length = told.settings.get("max_model_len")
    if length is not None:
        longest = int(pool.details["estimated_max_model_len"])
        rule = f"{request} of {pool.num_blocks:,}; ours is the longest, up to it, that fits"
        lines.append(compared("max_model_len", length, longest, rule))
    return lines


def _blocks(
    told: Told, model: Model, settings: vllm.Settings, gpu: Gpu | None, blocks: int, pool: Pool, missing: list[str]
) -> CheckLine | None:
    if settings.num_gpu_blocks_override:
        rule = "num_gpu_blocks_override replaces what the memory gives"
        return compared("num_gpu_blocks", blocks, settings.num_gpu_blocks_override, rule)
    given = settings.kv_cache_memory_bytes
    if given:
        ours = min((given // each for each in pool.bytes_per_block_by_stage if each), default=0)
        rule = f"floor(kv_cache_memory_bytes {given:,} / {pool.bytes_per_block:,} bytes of a block)"
        return compared("num_gpu_blocks", blocks, ours, rule)
    return by_budget(told, model, settings, gpu, "num_gpu_blocks", blocks, missing)
