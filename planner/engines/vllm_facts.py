"""What vLLM reads in a config beside the layers: its text part, its length limit, its dtype, and the traits of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.engines.vllm_settings import Settings
from planner.engines.vllm_tables import traits_of
from planner.errors import ConfigError, shown
from planner.layers import Cross, Full, Latent, Layer, LayerCache, State
from planner.model import Model

_PARTS = ("text_config", "llm_config", "language_config")
_LENGTH_WORDS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions", "max_sequence_length",
    "max_seq_length", "seq_len",
)  # fmt: skip
#: Rope types whose factor does not stretch the length that the config states.
_UNSTRETCHED = {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope", "default", "proportional"}
#: A file without any of the words: vLLM's own default, which it also logs.
_DEFAULT_LENGTH = 2048
_POOLING = ("ForSequenceClassification", "RewardModel", "ForTokenClassification", "ForSequenceEmbedding")


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config that describes the decoder, the whole where there is none."""
    for name in _PARTS:
        if isinstance(config.get(name), Mapping) and config[name]:
            part: Mapping[str, Any] = config[name]
            return part
    thinker = config.get("thinker_config")
    return text_part(thinker) if isinstance(thinker, Mapping) and thinker else config


@dataclass(frozen=True)
class Facts:
    """A model as vLLM's classes see it. `layers` is vLLM's view; `pooling`: it embeds or scores and does not generate."""

    model: Model
    layers: tuple[Layer, ...]
    text: Mapping[str, Any] = field(repr=False)
    text_type: str | None
    traits: Mapping[str, Any]
    pooling: bool
    dtype: str
    native_length: int

    @property
    def caches(self) -> tuple[LayerCache, ...]:
        return tuple(cache for layer in self.layers for cache in layer.caches)

    @property
    def has_state(self) -> bool:
        return any(isinstance(cache, State) for cache in self.caches)

    @property
    def has_attention(self) -> bool:
        return any(not isinstance(cache, State) for cache in self.caches)

    @property
    def encoder_decoder(self) -> bool:
        return any(isinstance(cache, Cross) for cache in self.caches)

    @property
    def largest_head(self) -> int:
        """The widest head of a key, which kernels are chosen for."""
        return max((c.k_dim for c in self.caches if isinstance(c, Full)), default=0)

    @property
    def latent(self) -> bool:
        return any(isinstance(cache, Latent) for cache in self.caches)


def facts_of(model: Model, settings: Settings) -> Facts:
    """Everything that the rules need to know of a model under these settings."""
    config = model.config
    text = text_part(config)
    text_type = text.get("model_type") if isinstance(text.get("model_type"), str) else None
    traits: dict[str, Any] = {}
    for row in traits_of(model.model_type, text_type):
        if all(text.get(word, config.get(word)) == value for word, value in row.get("when", {}).items()):
            traits.update({key: value for key, value in row.items() if key not in ("types", "not", "when")})
    if settings.language_model_only:
        traits.pop("mm_prefix", None)
    layers = model.layers_for("vllm")
    if traits.get("no_cache"):
        layers = tuple(Layer() for _ in layers)
    pooling = _pools(model, settings, layers)
    return Facts(
        model, layers, text, text_type, traits, pooling, _dtype(model, settings, pooling), native_length(model, text)
    )


def _pools(model: Model, settings: Settings, layers: tuple[Layer, ...]) -> bool:
    if settings.runner != "auto":
        return settings.runner == "pooling"
    name = model.architecture or ""
    if any(name.endswith(ending) for ending in _POOLING):
        return True
    return not any(layer.caches for layer in layers) or (
        name.endswith("Model") and not name.endswith("LMHeadModel") and name not in _GENERATING_MODELS
    )


#: Class names that end in "Model" and that vLLM maps to a generating class.
_GENERATING_MODELS = {"ChatGLMModel", "LlavaLlamaModel"}


def _dtype(model: Model, settings: Settings, pooling: bool) -> str:
    """The dtype that the model runs in: float32 checkpoints run in 16 bits."""
    spelled = {"half": "float16", "float": "float32"}.get(settings.dtype, settings.dtype)
    if spelled != "auto":
        return spelled
    if model.dtype == "float32":
        return "float16" if pooling and not model.model_type.startswith(("gemma2", "gemma3", "glm4")) else "bfloat16"
    return model.dtype


def native_length(model: Model, text: Mapping[str, Any]) -> int:
    """The most positions that vLLM lets a request have, from the config.

    length = min over the words that state one, x the rope factor for rope types that stretch it; `model_max_length`
    overrides; longrope models have their original length. 2,048 where nothing says.

    Source: vLLM 0.33.0, config/model.py; held to 419 of 420 configs.
    """
    config = model.config
    found = [value for word in _LENGTH_WORDS if (value := _whole(text.get(word)))]
    length = min(found) if found else model.max_context
    override = _whole(text.get("model_max_length"))
    if override:
        return override
    if length is None:
        return _DEFAULT_LENGTH
    rope = text.get("rope_scaling") or text.get("rope_parameters") or config.get("rope_scaling")
    kind, factor = _rope(rope)
    if kind in ("longrope", "su"):
        word = "original_max_position_embeddings"
        return _whole(text.get(word)) or _whole(rope.get(word) if rope else None) or length
    if factor is None or kind in _UNSTRETCHED or model.model_type.startswith("gemma3"):
        return length
    return int(length * factor)


def _rope(rope: Any) -> tuple[str | None, float | None]:
    if not isinstance(rope, Mapping):
        return None, None
    kind, factor = rope.get("rope_type", rope.get("type")), rope.get("factor")
    if factor is not None and (isinstance(factor, bool) or not isinstance(factor, int | float) or factor <= 0):
        raise ConfigError(f"the rope factor is {shown(factor)}; it must be a number above 0", field="rope_scaling")
    return kind, factor


def _whole(value: Any) -> int | None:
    """The value, if it is a whole number above 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def vllm_attention_heads(facts: Facts) -> int:
    """All query heads of the decoder, which tensor parallelism must divide."""
    for word in ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads", "num_heads"):
        count = _whole(facts.text.get(word))
        if count:
            return count
    return facts.model.attention_heads
