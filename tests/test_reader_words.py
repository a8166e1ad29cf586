"""Is a value that its word cannot have refused by that word's name, whatever the word and the value's type?"""

from __future__ import annotations

from typing import Any

import pytest

from planner import ConfigError
from tests.configs import LLAMA, named, refusal

WRONG_SIZES = [
    "8", "x", True, 1.5, -1, 0, float("nan"), float("inf"), float("-inf"), 2**80, [8], [], {}, {"a": 1},
]  # fmt: skip
SIZE_WORDS = ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim"]


@pytest.mark.parametrize("value", WRONG_SIZES, ids=lambda v: f"{type(v).__name__}-{v!r:.12}")
@pytest.mark.parametrize("key", SIZE_WORDS)
def test_wrong_size_is_refused_by_name(key: str, value: Any) -> None:
    """A size that no model can have is a ConfigError with the word in it, whatever its type."""
    config = {**LLAMA, key: value}
    error = refusal(config)
    assert isinstance(error, ConfigError)
    assert key in named(error)


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size"])
def test_missing_size_of_a_class_without_defaults_is_refused_by_name(key: str) -> None:
    """A model whose code is on the Hub has no class defaults, so a missing size is an error that names it."""
    config = {name: value for name, value in LLAMA.items() if name != key}
    error = refusal({**config, "model_type": "internlm2"})
    assert isinstance(error, ConfigError)
    assert key in named(error)


#: (base config, word, wrong value): each is a size, a flag or a list that an honest reader can only refuse.
WRONG_WORDS: list[tuple[dict[str, Any], str, Any]] = [
    # flags that are not flags: "false" is a string, and a string is true
    *(({"model_type": model_type}, flag, "false") for model_type, flag in [
        ("falcon", "multi_query"), ("falcon", "new_decoder_architecture"), ("gpt_bigcode", "multi_query"),
        ("qwen2", "use_sliding_window"), ("qwen3_moe", "use_sliding_window"), ("smollm3", "use_sliding_window"),
        ("deepseek_v3", "use_mla"),
    ]),
    ({"model_type": "gemma4_text", "num_global_key_value_heads": 1}, "attention_k_eq_v", "false"),
    ({"model_type": "hunyuan", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "cla_share_factor": 4},
     "use_cla", "false"),
    ({"model_type": "chatglm", "num_layers": 2, "num_attention_heads": 8, "hidden_size": 64, "multi_query_group_num": 1},
     "multi_query_attention", "false"),
    # windows
    *((LLAMA, "sliding_window", value) for value in (-1, True, "4", 1.5, [4], {})),
    *((LLAMA, "attention_chunk_size", value) for value in (-1, True, "4", 1.5, [4])),
    ({"model_type": "mimo_v2_flash"}, "sliding_window_size", -5),
    # lists of layer words
    *((LLAMA, "layer_types", value) for value in (
        ["full_attention"], [], "full_attention", 4, {}, [1, 2, 3, 4], [None] * 4, [["full_attention"]] * 4,
        ["sliding_attention"] * 4,
    )),
    *(({"model_type": "nemotron_h"}, "hybrid_override_pattern", value) for value in ("MX*", "", "|", 5, ["M"])),
    ({"model_type": "nemotron_h"}, "layers_block_type", []),
    *(({"model_type": "reformer"}, "attn_layers", value) for value in ([], ["full_attention"], "lsh", [1])),
    ({"model_type": "recurrent_gemma"}, "block_types", []),
    ({"model_type": "recurrent_gemma"}, "block_types", [["attention"]]),
    ({"model_type": "recurrent_gemma"}, "block_types", ["brandnew"]),
    # patterns and periods
    *(({"model_type": "gemma3_text"}, "sliding_window_pattern", value) for value in ("x", "8", -6, True, [6], 1.5)),
    *(({"model_type": "jamba"}, "attn_layer_offset", value) for value in (-1, 8, 100_000, "x", [1])),
    *(({"model_type": "jamba"}, "attn_layer_period", value) for value in (-1, "x", True, [8])),
    *(({"model_type": "bailing_hybrid"}, "layer_group_size", value) for value in ("x", -6, True)),
    *(({"model_type": "llama4_text", "num_hidden_layers": 4}, "no_rope_layers", value) for value in (
        ["0"] * 4, [[0]] * 4, [0], "0000", [None] * 4)),
    *(({"model_type": "glm_moe_dsa", "num_hidden_layers": 4}, "indexer_types", value) for value in (
        ["x"] * 4, [0] * 4, ["full"], "full")),
    *(({"model_type": "glm_moe_dsa", "num_hidden_layers": 4}, "index_topk_pattern", value) for value in ("FXSF", "F", "")),
    *(({"model_type": "deepseek_v4", "num_hidden_layers": 4}, "compress_ratios", value) for value in (
        [4], [4, 4, 4, 7], [[4]] * 4, ["4"] * 4, "4444")),
    *(({"model_type": "deepseek_v4"}, "compress_rates", value) for value in (4, [4], "x", {"compressed_sparse_attention": 0})),
    # lists of layer numbers: an entry that is no layer would be a layer without its cache
    *(({"model_type": "lfm2", "num_hidden_layers": 4}, "full_attn_idxs", value) for value in (["x"], [99], [-1], [None], 2)),
    *(({"model_type": "bamba", "num_hidden_layers": 4}, "attn_layer_indices", value) for value in (["x"], [99], [[1]], 2)),
    *(({"model_type": "kimi_linear", "num_hidden_layers": 4}, "linear_attn_config",
       {"full_attn_layers": value, "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4})
      for value in (["x"], [0], [99], 4)),
    *(({"model_type": "mllama"}, "text_config", {"num_hidden_layers": 4, "cross_attention_layers": value})
      for value in (["x"], [99], 3)),
    *(({"model_type": "mistral_large4_text", "num_hidden_layers": 4}, "kv_source_layers", value) for value in (
        [0], ["x"] * 4, [9] * 4, [3, 3, 3, 3], 2)),
    # sizes of states, latents and widths that no general check sees
    *(({"model_type": "mamba2"}, "head_dim", value) for value in WRONG_SIZES if value != "8"),
    *(({"model_type": "nemotron_h"}, "mamba_head_dim", value) for value in [*WRONG_SIZES, None]),
    *(({"model_type": "falcon_h1"}, "mamba_d_ssm", value) for value in WRONG_SIZES if value not in (0, [], {})),
    *(({"model_type": "bamba"}, "mamba_n_heads", value) for value in [*WRONG_SIZES, 100_000, 7]),
    *(({"model_type": "zamba2"}, "n_mamba_heads", value) for value in (100_000, 7)),
    *(({"model_type": "mimo_v2_flash"}, "v_head_dim", value) for value in WRONG_SIZES),
    *(({"model_type": "xlstm"}, "qk_dim_factor", value) for value in (-1, "x", [1], {"a": 1}, float("nan"), float("inf"))),
    *(({"model_type": "deepseek_v3"}, key, value) for key in ("kv_lora_rank", "qk_rope_head_dim")
      for value in (-1, "8", True, 1.5, [8], float("nan"))),
    *(({"model_type": "deepseek_v3"}, "qk_nope_head_dim", value) for value in ("8", [8], {"a": 1}, -1, 1.5)),
    ({"model_type": "dots3_note_text"}, "swa_qk_nope_head_dim", 100_000),
    *(({"model_type": "dory"}, "n_recurrent_layers", value) for value in ("x", [1], 1.5, -1, 99)),
    *(({"model_type": "inkling2_loop_text"}, "loop_num_passes", value) for value in ("x", [1], 1.5, -1, 2**70, {})),
    *(({"model_type": "inkling2_loop_text"}, "loop_layer_index_end", value) for value in ("x", 1.5, -1, 99)),
    *(({"model_type": model_type}, key, 100_000) for model_type, key in [
        ("dory", "n_recurrent_loops"), ("hrm_text", "H_cycles"), ("hrm_text", "L_cycles"),
        ("inkling2_loop_text", "loop_num_passes"), ("llama", "num_hidden_layers"), ("longcat_flash", "num_layers"),
    ]),
    # heads
    *(({"model_type": "openelm", "num_transformer_layers": 2, "model_dim": 64, "head_dim": 8, "num_query_heads": [2, 2]},
       "num_kv_heads", value) for value in ([1], ["1", "1"], [0, 1], [1.5, 1], [[1], [1]], 2, None)),
    *(({"model_type": "nemotron-nas", "num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 64}, "block_configs",
       value) for value in (
        None, [], {}, "x", [1], [None], [{}], [{"attention": 1}], [{"attention": {}}], [{"attention": {"n_heads_in_group": 0}}],
        [{"attention": {"n_heads_in_group": "2"}}], [{"attention": {"n_heads_in_group": 8}}],
        [{"attention": {"n_heads_in_group": True}}], [{"attention": {"n_heads_in_group": 3}}],
        [{"attention": {"n_heads_in_group": 2, "window_length": -1}}],
        [{"attention": {"n_heads_in_group": 2, "window_length": "x"}}])),
    *(({"model_type": "dbrx"}, "attn_config", {"kv_n_heads": value}) for value in (0, -1, "8", 1.5, [8])),
    # words inside a word: what holds them must be a mapping
    *(({"model_type": "dbrx"}, "attn_config", value) for value in ("x", 5, [1], True)),
    *(({"model_type": "kimi_linear", "num_hidden_layers": 4}, "linear_attn_config", value) for value in ("x", 5, [1])),
    *(({"model_type": "minimax_m3_vl_text"}, "sparse_attention_config", value) for value in ("x", 5, [1])),
    # shared tails
    *(({"model_type": "gemma3n_text"}, "num_kv_shared_layers", value) for value in (35, 34, 36, -1, True, "15", [15], 1.5)),
    *(({"model_type": "gemma4_text"}, "num_kv_shared_layers", value) for value in (30, 31, 25)),
    *(({"model_type": "gemma4_text"}, "per_layer_config", value) for value in (
        [1], 5, "x", {"x": {}}, {"0": 5}, {"0": {"head_dim": -1}}, {"0": {"head_dim": "x"}}, {"99": {"head_dim": 8}},
        {"-1": {"head_dim": 8}})),
    # parts
    *(({"model_type": "gemma3"}, "text_config", value) for value in ([1], "x", 5, True)),
    *(({"model_type": "llava"}, "text_config", {"model_type": value}) for value in (5, ["llama"], {})),
    *(({"model_type": "qwen2_5_omni"}, "thinker_config", value) for value in ("x", [1], {"text_config": [1]})),
    # dtype
    *((LLAMA, "torch_dtype", value) for value in (7, [], {}, "int8", "x", True)),
]  # fmt: skip


def words_inside(value: Any) -> set[str]:
    """The keys of mappings and the words of lists inside a value: naming one of them is naming what is wrong."""
    if isinstance(value, dict):
        return {str(key) for key in value} | {word for inner in value.values() for word in words_inside(inner)}
    if isinstance(value, list):
        words = {x for x in value if isinstance(x, str) and len(x) > 1}
        return words.union(*(words_inside(x) for x in value if not isinstance(x, str)))
    return set()


def word_id(value: Any) -> str:
    return str(value["model_type"]) if isinstance(value, dict) and "model_type" in value else f"{value!r:.24}"


@pytest.mark.parametrize(("base", "key", "value"), WRONG_WORDS, ids=word_id)
def test_wrong_word_is_refused_by_name(base: dict[str, Any], key: str, value: Any) -> None:
    """A word with a value that its family cannot mean is refused by name; guessing would mostly give too low a number."""
    error = refusal({**base, key: value})
    assert any(word in named(error) for word in {key, *words_inside(value)})
