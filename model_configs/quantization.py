"""How many bytes a checkpoint stores a weight tensor in: its dtype, or the format of its `quantization_config`.

Every quantised format in use is the same arithmetic with other numbers. A linear layer of out x in weights takes

    bytes = ceil(out x in x bits / 8) + ceil(out / rows) x ceil(in / columns) x scale bits / 8 + in x column + tensor

bits: stored bits a weight. rows x columns: the block that shares one scale (and zero point): a group of inputs of one
row, a 128 x 128 block, a row, or the whole matrix. column: bytes for each input (GPTQ's g_idx). tensor: bytes that a
matrix has once (global and activation scales). Embeddings, norms, routers, biases and excluded modules keep the dtype.

Source: the layers of transformers 5.24's quantizers, compressed-tensors and ModelOpt checkpoints; totals checked
against sizes of published checkpoints (tests/golden/parameters.yaml).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from model_configs.parameters_table import CANNOT, Part
from planner.units import ceil_div

_DTYPE_BYTES = {
    "float64": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1, "uint8": 1,
}  # fmt: skip
_ALL = 2**62
#: Two modules that the class calls by one name and this table by another, for lists of modules that are not converted.
_ALIASES = {
    "self_attn": ("self_attn", "linear_attn", "attn", "mamba", "mixer"),
    "mlp": ("mlp", "block_sparse_moe", "feed_forward", "ffn", "mixer"),
    "shared_experts": ("shared_experts", "shared_expert"),
    "experts": ("experts", "experts.0"),
    "gate_proj": ("gate_proj", "w1"),
    "up_proj": ("up_proj", "w3"),
    "down_proj": ("down_proj", "w2"),
    "vision_tower": ("vision_tower", "visual", "vision_model", "vision_encoder"),
    "audio_tower": ("audio_tower", "audio_encoder"),
    "multi_modal_projector": ("multi_modal_projector", "mm_projector", "connector", "aligner"),
}
#: Lists name each of many thousand experts; the first of a layer stands for all of them.
_LATER_EXPERT = re.compile(r"\.experts\.[1-9]")
#: What the class allocates and no checkpoint holds: weights of LongCat's experts that compute nothing.
_UNSTORED = ".zero_experts"
#: What may stand before a decoder's module names, for regular expressions that are anchored.
_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "")
_OUTER = re.compile(r"^(?:(?:model|language_model|backbone|transformer)\.)+")


@dataclass(frozen=True)
class Format:
    """How one linear layer's weights are stored; the module's formula explains the fields."""

    name: str
    bits: int
    rows: int = 1
    columns: int = _ALL
    scale_bits: int | Fraction = 16
    column_bytes: int = 0
    tensor_bytes: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= 16 and self.rows >= 1 and self.columns >= 1):
            raise ValueError(f"{self.name} is not a storage format")

    def bytes(self, out: int, into: int) -> int:
        scales = ceil_div(out, self.rows) * ceil_div(into, self.columns) * self.scale_bits
        return ceil_div(out * into * self.bits, 8) + -int(-scales // 8) + into * self.column_bytes + self.tensor_bytes


def _group(bits: int, size: Any, scale_bits: int | Fraction, name: str, **more: int) -> Format:
    """One scale for `size` inputs of a row; without a size, or with -1, for the whole row."""
    columns = size if isinstance(size, int) and size > 0 else _ALL
    label = f"{name} {bits}-bit" + (f", groups of {columns}" if columns != _ALL else ", a scale a row")
    return Format(label, bits, 1, columns, scale_bits, **more)


NVFP4 = Format("nvfp4: 4-bit, groups of 16 with an fp8 scale", 4, 1, 16, 8, tensor_bytes=8)
MXFP4 = Format("mxfp4: 4-bit, groups of 32 with an e8m0 scale", 4, 1, 32, 8)
MXFP8 = Format("mxfp8: 8-bit, groups of 32 with an e8m0 scale", 8, 1, 32, 8)
FP8_TENSOR = Format("fp8, a scale a matrix", 8, _ALL, _ALL, 32, tensor_bytes=4)
FP8_ROW = Format("fp8, a scale a row", 8, 1, _ALL, 32)


def _fp8(config: Mapping[str, Any]) -> Format:
    block = config.get("weight_block_size")
    if block:
        return Format(f"fp8, {block[0]} x {block[1]} blocks", 8, block[0], block[1], 32)
    return FP8_TENSOR


def _integers(config: Mapping[str, Any]) -> Format:
    """AWQ and GPTQ: int32-packed weights, fp16 scales, packed zero points; GPTQ also one int32 group index an input."""
    bits, method = int(config.get("bits") or config.get("w_bit") or 4), config["quant_method"]
    size = config.get("group_size", config.get("q_group_size", 128))
    return _group(bits, size, 16 + bits, method, column_bytes=4 if method.startswith("gptq") else 0)


def _bitsandbytes(config: Mapping[str, Any]) -> Format:
    if config.get("load_in_8bit") or config.get("_load_in_8bit"):
        return Format("bitsandbytes 8-bit, a scale a row", 8, 1, _ALL, 32)
    # Double quantisation stores the scales of 64 weights in 8 bits, with one float32 for 256 of those.
    scale = Fraction(8) + Fraction(32, 256) if config.get("bnb_4bit_use_double_quant") else 32
    return _group(4, 64, scale, "bitsandbytes " + str(config.get("bnb_4bit_quant_type") or "fp4"))


def _scheme(weights: Mapping[str, Any], form: str) -> Format:
    """One weight scheme of compressed-tensors, which ModelOpt's config_groups follow."""
    bits, size = int(weights.get("num_bits") or 8), weights.get("group_size")
    if weights.get("type") == "float" and bits == 4:
        return MXFP4 if size == 32 or form.startswith("mxfp4") else NVFP4
    if weights.get("type") == "float" and size == 32:
        return MXFP8
    strategy, name = weights.get("strategy") or ("group" if size else "tensor"), f"{weights.get('type') or 'int'}"
    if strategy == "block":
        rows, columns = weights.get("block_structure") or (128, 128)
        return Format(f"{name} {bits}-bit, {rows} x {columns} blocks", bits, rows, columns, 16)
    zero = 0 if weights.get("symmetric", True) else bits
    if strategy == "tensor":
        return Format(f"{name} {bits}-bit, a scale a matrix", bits, _ALL, _ALL, 32, tensor_bytes=4)
    return _group(bits, size if strategy in ("group", "tensor_group") else None, 16 + zero, name)


_ALGORITHMS = {
    "NVFP4": NVFP4, "NVFP4_AWQ": NVFP4, "W4A16_NVFP4": NVFP4, "MXFP4": MXFP4, "W4A8_MXFP4_FP8": MXFP4, "MXFP8": MXFP8,
    "FP8": FP8_TENSOR, "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROW, "FP8_PB_WO": _fp8({"weight_block_size": (128, 128)}),
    "FP8_PB_REAL": _fp8({"weight_block_size": (128, 128)}), "W4A8_AWQ": _group(4, 128, 16, "int"),
    "W4A16_AWQ": _group(4, 128, 16, "int"), "INT4_AWQ": _group(4, 128, 16, "int"), "W8A8_SQ_PER_CHANNEL": FP8_ROW,
}  # fmt: skip


def _hqq(config: Mapping[str, Any]) -> Format:
    params = (config.get("quant_config") or {}).get("weight_quant_params") or {}
    return _group(int(params.get("nbits") or 4), params.get("group_size") or 64, 32, "hqq")


def _quanto(config: Mapping[str, Any]) -> Format:
    bits = {"int4": 4, "int2": 2}.get(str(config.get("weights")), 8)
    return _group(bits, None if bits == 8 else 128, 32, "quanto")


_METHODS: dict[str, Callable[[Mapping[str, Any]], Format]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda config: FP8_ROW,
    "awq": _integers,
    "gptq": _integers,
    "gptqmodel": _integers,
    "auto-round": _integers,
    "intel/auto-round": _integers,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": lambda config: MXFP4,
    "eetq": lambda config: _group(8, None, 16, "eetq"),
    "hqq": _hqq,
    "quanto": _quanto,
    "bitnet": lambda config: Format("ternary, 2-bit", 2, _ALL, _ALL, 16),
}


#: Where quantisers list the modules that they leave as they are.
_SKIP = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")


class Modules:
    """A list of module names or patterns, as quantisers write them: paths, `*` wildcards, or `re:` expressions."""

    def __init__(self, patterns: Sequence[Any]) -> None:
        texts = [p for p in patterns if isinstance(p, str)]
        wild = [_OUTER.sub("", p) for p in texts if "*" in p and not p.startswith("re:")]
        self._plain = {_OUTER.sub("", p) for p in texts if "*" not in p and not p.startswith("re:")}
        self._wild = _any([fnmatch.translate(p) for p in wild] + [fnmatch.translate(p + ".*") for p in wild])
        self._regex = _any([p[3:] for p in texts if p.startswith("re:")])

    def __contains__(self, name: object) -> bool:
        return any(self._has(spelling) for spelling in _spellings(str(name)))

    def _has(self, name: str) -> bool:
        steps = name.split(".")
        paths = (".".join(steps[a:b]) for a in range(len(steps)) for b in range(a + 1, len(steps) + 1))
        if any(path in self._plain for path in paths) or (self._wild and self._wild.match(name)):
            return True
        return bool(self._regex and any(self._regex.match(outer + name) for outer in _PREFIXES))


def _any(expressions: list[str]) -> re.Pattern[str] | None:
    good = []
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error:
            continue
        good.append(f"(?:{expression})")
    return re.compile("|".join(good)) if good else None


def _spellings(name: str) -> Iterator[str]:
    for steps in product(*(_ALIASES.get(step, (step,)) for step in name.split("."))):
        yield ".".join(steps)


@dataclass(frozen=True)
class Storage:
    """What each tensor of a checkpoint is stored in. `known` is False for a method that this file does not have."""

    dtype_bytes: int
    rules: tuple[tuple[Modules | None, Format], ...] = ()
    skip: Modules | None = None
    label: str = ""
    known: bool = True
    only_experts: bool = False
    only_decoder: bool = False

    def format(self, part: Part) -> Format | None:
        """The quantised format of a tensor, or None where it keeps the checkpoint's dtype."""
        if not self.rules or len(part.shape) != 2 or part.name.startswith("lm_head"):
            return None
        if self.only_experts and ".experts." not in part.name:
            return None
        if self.only_decoder and part.name.startswith(("vision_tower", "audio_tower", "multi_modal_projector")):
            return None
        if self.skip is not None and part.name in self.skip:
            return None
        return next((form for modules, form in self.rules if modules is None or part.name in modules), None)

    def bytes(self, part: Part) -> int:
        """Bytes of `part.times` tensors with their scales and biases."""
        if part.name.endswith(_UNSTORED):
            return 0
        form = self.format(part)
        if form is None:
            return part.params * self.dtype_bytes
        return part.times * (form.bytes(*part.shape) + part.bias * self.dtype_bytes)


def storage(root: Mapping[str, Any], text: Mapping[str, Any]) -> Storage:
    """How the checkpoint behind a config stores its weights. `root` is the file, `text` its decoder's part."""
    parts = (root, text)
    said = next((c[k] for c in parts for k in ("dtype", "torch_dtype") if isinstance(c.get(k), str)), "bfloat16")
    dtype_bytes = _DTYPE_BYTES.get(said.removeprefix("torch."), 2)
    found = (c.get(k) for k in ("quantization_config", "compression_config", "hf_quant_config") for c in parts)
    config = next((value for value in found if isinstance(value, Mapping) and value), None)
    if config is None:
        return Storage(dtype_bytes, label=said.removeprefix("torch."))
    inner = config.get("quantization")
    config = inner if isinstance(inner, Mapping) else config
    method = str(config.get("quant_method") or ("modelopt" if config.get("quant_algo") else "")).lower()
    skip = [name for key in _SKIP if isinstance(config.get(key), list) for name in config[key]]
    try:
        rules = tuple(_rules(config, method, str(text.get("expert_dtype"))))
    except CANNOT:
        rules = ()
    if not rules:
        return Storage(dtype_bytes, label=f"{method or 'unnamed'} quantisation, counted unquantised", known=False)
    label = "; ".join(dict.fromkeys(form.name for _, form in rules))
    return Storage(
        dtype_bytes, rules, Modules(skip) if skip else None, label,
        only_experts=method == "mxfp4", only_decoder=_METHODS.get(method) is _integers,
    )  # fmt: skip


def _rules(config: Mapping[str, Any], method: str, experts: str) -> Iterator[tuple[Modules | None, Format]]:
    """Which modules have which format, first match first; None means every linear layer."""
    by_algorithm: dict[str, list[str]] = {}
    for name, layer in (config.get("quantized_layers") or {}).items():
        if not _LATER_EXPERT.search(name):
            by_algorithm.setdefault(layer.get("quant_algo"), []).append(name)
    for algorithm, names in by_algorithm.items():
        if algorithm in _ALGORITHMS:
            yield Modules(names), _ALGORITHMS[algorithm]
    if experts == "fp4" and not by_algorithm and not config.get("config_groups"):
        # DeepSeek-V4: fp4 experts in a checkpoint whose quantization_config speaks of the other layers.
        yield Modules(["experts"]), MXFP4
    if config.get("config_groups"):
        for group in config["config_groups"].values():
            targets = group.get("targets") or ["Linear"]
            every = any(target in ("Linear", "FusedMoE") for target in targets)
            form = _scheme(group["weights"], str(group.get("format") or config.get("format") or ""))
            yield None if every else Modules(targets), form
    elif config.get("quant_algo") in _ALGORITHMS:
        yield None, _ALGORITHMS[config["quant_algo"]]
    elif method in _METHODS and not config.get("quant_algo"):
        yield None, _METHODS[method](config)
