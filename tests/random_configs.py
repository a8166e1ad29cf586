"""Random but valid configs of many families, in any dtype, and the figures of one that the laws are about.

The configs are made up; each is one that its family could have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import model_configs
from planner import EngineRefusal, Model, architecture_bytes, engine

settings.register_profile(
    "laws", derandomize=True, database=None, deadline=None, max_examples=80, suppress_health_check=list(HealthCheck)
)
LAWS = settings.get_profile("laws")
TRANSFORMERS = engine("transformers")

Config = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

WIDTHS = st.sampled_from([8, 16, 64, 80, 128, 192, 256])
DEPTHS = st.integers(1, 12)
WINDOWS = st.integers(1, 700)
TOKENS = st.integers(0, 3000)
REQUESTS = st.integers(1, 9)
DTYPES = st.sampled_from(["bfloat16", "float16", "float32"])


def attention(draw: Draw) -> Config:
    """Depth, heads and widths that fit each other: KV heads divide heads, and hidden is heads x width."""
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 4, 7]))
    width = draw(WIDTHS)
    return {
        "num_hidden_layers": draw(DEPTHS), "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": width,
        "hidden_size": heads * width, "torch_dtype": draw(DTYPES),
    }  # fmt: skip


@st.composite
def plain(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["llama", "qwen3", "gemma", "glm4_moe", "granite", "olmo2", "mixtral", "phi"]))
    return {"model_type": model_type, **attention(draw)}


@st.composite
def multi_head(draw: Draw) -> Config:
    """All query heads cached, in the words of GPT-2, Falcon, MPT, Bloom and OPT."""
    heads, width, depth = draw(st.integers(1, 12)), draw(WIDTHS), draw(DEPTHS)
    sizes = {"num_hidden_layers": depth, "num_attention_heads": heads, "hidden_size": heads * width}
    return {
        "torch_dtype": draw(DTYPES),
        **draw(st.sampled_from([
            {"model_type": "gpt2", "n_layer": depth, "n_head": heads, "n_embd": heads * width},
            {"model_type": "mpt", "n_layers": depth, "n_heads": heads, "d_model": heads * width},
            {"model_type": "bloom", "n_layer": depth, "n_head": heads, "n_embed": heads * width},
            {"model_type": "opt", **sizes},
            {"model_type": "falcon", "multi_query": False, **sizes},
        ])),
    }  # fmt: skip


@st.composite
def sliding(draw: Draw) -> Config:
    """Every layer slides."""
    model_type = draw(st.sampled_from(["mistral", "phi3", "starcoder2", "mixtral", "llama"]))
    return {"model_type": model_type, **attention(draw), "sliding_window": draw(WINDOWS)}


@st.composite
def patterned(draw: Draw) -> Config:
    """Some layers slide and some are full, by the class's own pattern or by a list of layer words."""
    model_type = draw(
        st.sampled_from(["gemma2", "gemma3_text", "gpt_oss", "olmo3", "cwm", "flint", "exaone4", "afmoe"])
    )
    config = {"model_type": model_type, **attention(draw), "sliding_window": draw(WINDOWS)}
    if draw(st.booleans()):
        words = st.sampled_from(["full_attention", "sliding_attention"])
        depth = config["num_hidden_layers"]
        config["layer_types"] = draw(st.lists(words, min_size=depth, max_size=depth))
    return config


@st.composite
def chunked(draw: Draw) -> Config:
    config = {"model_type": "llama4_text", **attention(draw), "attention_chunk_size": draw(WINDOWS)}
    depth = config["num_hidden_layers"]
    return {**config, "no_rope_layers": draw(st.lists(st.integers(0, 1), min_size=depth, max_size=depth))}


@st.composite
def unequal_widths(draw: Draw) -> Config:
    config = attention(draw)
    kv_heads, width = config["num_key_value_heads"], config["head_dim"]
    return {
        "model_type": "mimo_v2_flash", **config, "num_attention_heads": 4 * kv_heads, "hidden_size": 4 * kv_heads * width,
        "v_head_dim": draw(WIDTHS), "sliding_window_size": draw(WINDOWS),
    }  # fmt: skip


@st.composite
def latent(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "kimi_k2"]))
    return {"model_type": model_type, **attention(draw), "kv_lora_rank": draw(WIDTHS), "qk_rope_head_dim": draw(WIDTHS)}


@st.composite
def indexed(draw: Draw) -> Config:
    model_type = draw(st.sampled_from(["deepseek_v32", "glm_moe_dsa", "hy_v4"]))
    return {
        "model_type": model_type, **attention(draw), "kv_lora_rank": draw(WIDTHS), "qk_rope_head_dim": draw(WIDTHS),
        "index_head_dim": draw(WIDTHS),
    }  # fmt: skip


@st.composite
def compressed(draw: Draw) -> Config:
    config = {
        "model_type": "deepseek_v4",
        **attention(draw),
        "sliding_window": draw(WINDOWS),
        "index_head_dim": draw(WIDTHS),
    }
    depth = config["num_hidden_layers"]
    return {**config, "compress_ratios": draw(st.lists(st.sampled_from([0, 4, 128]), min_size=depth, max_size=depth))}


@st.composite
def recurrent(draw: Draw) -> Config:
    """State in every layer, nothing that grows."""
    depth, hidden = draw(DEPTHS), draw(st.sampled_from([64, 128, 256]))
    return {
        "torch_dtype": draw(DTYPES), "num_hidden_layers": depth, "hidden_size": hidden,
        **draw(st.sampled_from([
            {"model_type": "mamba", "state_size": 16, "expand": 2, "conv_kernel": 4, "intermediate_size": 2 * hidden},
            {"model_type": "falcon_mamba", "state_size": 8, "expand": 2, "conv_kernel": 3, "intermediate_size": 2 * hidden},
            {"model_type": "mamba2", "num_heads": 4, "head_dim": hidden // 2, "n_groups": 1, "state_size": 32, "expand": 2},
            {"model_type": "rwkv"},
        ])),
    }  # fmt: skip


@st.composite
def hybrid(draw: Draw) -> Config:
    """Attention in some layers, states in the others, or both in one."""
    config = attention(draw)
    return {
        **config, "num_hidden_layers": draw(st.integers(4, 12)),
        **draw(st.sampled_from([
            {"model_type": "jamba", "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4},
            {"model_type": "qwen3_next", "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
             "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "full_attention_interval": 2},
            {"model_type": "lfm2", "conv_L_cache": 3, "full_attn_idxs": [0]},
            {"model_type": "falcon_h1", "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16},
            {"model_type": "minimax"},
            {"model_type": "kimi_linear", "kv_lora_rank": 64, "qk_rope_head_dim": 16,
             "linear_attn_config": {"full_attn_layers": [1], "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4}},
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*E", "mamba_num_heads": 4, "mamba_head_dim": 8},
            {"model_type": "lara_mini", "sliding_window": 40},
        ])),
    }  # fmt: skip


@st.composite
def encoder_decoder(draw: Draw) -> Config:
    heads, width, depth = draw(st.integers(1, 12)), draw(WIDTHS), draw(DEPTHS)
    return {
        "torch_dtype": draw(DTYPES),
        **draw(st.sampled_from([
            {"model_type": "whisper", "decoder_layers": depth, "decoder_attention_heads": heads, "d_model": heads * width},
            {"model_type": "bart", "decoder_layers": depth, "decoder_attention_heads": heads, "d_model": heads * width},
            {"model_type": "t5", "num_layers": depth, "num_heads": heads, "d_kv": width},
        ])),
    }  # fmt: skip


@st.composite
def shared_tail(draw: Draw) -> Config:
    """The last layers read an earlier layer's cache (Gemma 3n, Gemma 4); both kinds come before the tail."""
    model_type = draw(st.sampled_from(["gemma3n_text", "gemma4_text"]))
    return {
        "model_type": model_type, **attention(draw), "num_hidden_layers": draw(st.integers(12, 18)),
        "num_kv_shared_layers": draw(st.integers(0, 5)), "sliding_window": draw(WINDOWS),
    }  # fmt: skip


ALL_FULL = st.one_of(plain(), multi_head(), latent(), indexed())
ANY = st.one_of(
    plain(), multi_head(), sliding(), patterned(), chunked(), unequal_widths(), latent(), indexed(), compressed(), recurrent(),
    hybrid(), encoder_decoder(), shared_tail(),
)  # fmt: skip
WITHOUT_COMPRESSED = ANY.filter(lambda config: config["model_type"] != "deepseek_v4")
KV_DTYPES = st.sampled_from([None, "float32", "bfloat16", "fp8", "int8", "int4", "int2"])


def read(config: Config) -> Model:
    return model_configs.read(config)


def total(model: Model, tokens: int, requests: int = 1, **options: Any) -> int:
    return architecture_bytes(model, tokens, requests, **options).total_bytes


def run(
    model: Model, tokens: int, requests: int = 1, encoder: int = 0, prompt: int | None = None, **options: Any
) -> Any:
    """The cache of real generation, or None where transformers refuses."""
    try:
        return TRANSFORMERS.cache_bytes(model, TRANSFORMERS.Settings(**options), tokens, requests, encoder, prompt)
    except EngineRefusal:
        return None
