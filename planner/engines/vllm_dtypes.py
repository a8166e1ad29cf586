"""Which format vLLM stores keys and values in, and what one token of one head takes in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.engines.vllm_facts import Facts
from planner.engines.vllm_settings import Settings
from planner.engines.vllm_tables import table
from planner.errors import EngineRefusal, InputError, shown
from planner.texts import tell
from planner.units import ceil_div, round_up

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class KvFormat:
    """A row of vllm_dtypes.yaml under a model's own dtype."""

    name: str
    kv_class: str
    model_bytes: int
    row: Mapping[str, Any]

    def head_token_bytes(self, k_dim: int, v_dim: int) -> int:
        """Bytes of one token of one KV head: (k_dim + v_dim) x bits / 8, and the scales that the format adds.

        nvfp4: half a byte and 1/16 byte of scale an element. per token and head: + 8 bytes, two float32 scales.
        turboquant: packed keys and values with their norms, rounded up to an even number.

        Source: vLLM 0.33.0, triton_attn, flashinfer and turboquant_attn; held to its specs.
        """
        row = self.row
        if "mla" in row:
            raise EngineRefusal(f"{self.name} is a format of latent (MLA) caches, not of keys and values", engine="vllm")
        if "key" in row:
            parts = ((k_dim, row["key"]), (v_dim, row["value"]))
            return round_up(sum(ceil_div(width * part["bits"], 8) + part.get("plus", 0) for width, part in parts), 2)
        if row["bits"] == "model":
            return (k_dim + v_dim) * self.model_bytes
        total = 0
        for width in (k_dim, v_dim):
            total += ceil_div(width * row["bits"], 8)
            total += ceil_div(width, row["block_scale"]) if "block_scale" in row else 0
        return total + int(row.get("plus", 0))

    def alignment_bytes(self, k_dim: int, v_dim: int) -> int:
        """What block alignment takes a token of one head for: turboquant counts as one byte an element there."""
        return k_dim + v_dim if self.kv_class == "turboquant" else self.head_token_bytes(k_dim, v_dim)

    def latent_token_bytes(self, width: int) -> int:
        """Bytes of one token of a latent cache: width x bytes an element, or the packed format's own size."""
        if "mla" in self.row:
            return int(self.row["mla"])
        return width * self.model_bytes if self.row["bits"] == "model" else width * int(self.row["bits"]) // 8


def kv_format(name: str, model_dtype: str) -> KvFormat:
    """The format called `name`. InputError naming the known ones; EngineRefusal for one of another platform."""
    formats = table("dtypes")["formats"]
    if name in table("dtypes")["elsewhere"]:
        raise EngineRefusal(f"vLLM has no NVIDIA attention backend for kv_cache_dtype {name}", engine="vllm", kv_cache_dtype=name)
    if name not in formats:
        raise InputError(f"{shown(name)} is not a KV dtype of vLLM; it is one of {', '.join(formats)}", field="kv_cache_dtype")
    return KvFormat(name, formats[name]["class"], _BYTES[model_dtype], formats[name])


@dataclass(frozen=True)
class Resolved:
    """The format that `--kv-cache-dtype` becomes for ordinary layers and for latent ones, and why."""

    attention: KvFormat
    latent: KvFormat
    plain: KvFormat
    why: str


def resolve(facts: Facts, settings: Settings, generation: str) -> Resolved:
    """What kv_cache_dtype means for this model on this generation of GPU.

    "auto" is the model's dtype, unless the checkpoint carries a KV scheme (ModelOpt: for every layer; compressed-tensors: for
    ordinary attention only) or the model class has a default on this generation.

    Source: vLLM 0.33.0, utils/torch_utils.py, attention.py and models/config.py.
    """
    plain = kv_format("auto", facts.dtype)
    asked = settings.kv_cache_dtype
    own = kv_format(asked, facts.dtype)
    if facts.traits.get("ignores_kv_dtype"):
        return Resolved(plain, plain, plain, tell("rule.vllm.ignored"))
    if asked != "auto":
        return Resolved(own, own, plain, tell("rule.vllm.asked"))
    scheme, where = modelopt_scheme(facts.model.config)
    if scheme:
        found = kv_format(scheme, facts.dtype)
        return Resolved(found, found, plain, tell("rule.vllm.modelopt", where=where))
    default = facts.traits.get("auto_on", {}).get(generation)
    if default:
        found = kv_format(default, facts.dtype)
        return Resolved(found, found, plain, tell("rule.vllm.class", generation=generation))
    if compressed_tensors_scheme(facts):
        return Resolved(kv_format("fp8", facts.dtype), plain, plain, tell("rule.vllm.compressed"))
    return Resolved(plain, plain, plain, tell("rule.vllm.own"))


def modelopt_scheme(config: Mapping[str, Any]) -> tuple[str | None, str]:
    """The KV format that a ModelOpt checkpoint asks for, from quantization_config or else hf_quant_config, and where."""
    quantization = config.get("quantization_config")
    where = "quantization_config"
    if not isinstance(quantization, Mapping):
        quantization, where = config.get("hf_quant_config"), "hf_quant_config.json"
        if not isinstance(quantization, Mapping):
            return None, ""
        producer = quantization.get("producer")
        inner = quantization.get("quantization")
        named = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
        if not named or not isinstance(inner, Mapping):
            return None, ""
        quantization = inner
    elif not str(quantization.get("quant_method", "")).lower().startswith("modelopt"):
        return None, ""
    scheme = quantization.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("type") == "float":
        if scheme.get("num_bits") == 8 and not scheme.get("dynamic"):
            return "fp8_e4m3", f"{where}, kv_cache_scheme"
        if scheme.get("num_bits") == 4:
            return "nvfp4", f"{where}, kv_cache_scheme"
        return None, ""
    nested = quantization.get("quantization")
    algorithm = quantization.get("kv_cache_quant_algo")
    if algorithm is None and isinstance(nested, Mapping):
        algorithm = nested.get("kv_cache_quant_algo")
    name = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4"}.get(str(algorithm).upper())
    return name, f"{where}, kv_cache_quant_algo"


def compressed_tensors_scheme(facts: Facts) -> bool:
    """Whether a compressed-tensors checkpoint quantizes keys and values; its text part may say so too."""
    for part in (facts.model.config, facts.text):
        found = part.get("quantization_config") or part.get("compression_config")
        if isinstance(found, Mapping) and found.get("quant_method") == "compressed-tensors":
            return found.get("kv_cache_scheme") is not None
    return False
