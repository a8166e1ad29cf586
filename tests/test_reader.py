"""The model reader against the class rules of real architectures, and against bad and hostile input.

Whatever a config says, reading it gives a Model or a PlannerError that names the word. Expected layers are in
`golden/class_defaults.yaml`, written by hand.
"""

from __future__ import annotations

import copy
import json
import os
import re
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from model_configs.families import table
from planner import ConfigError, InputError, Model, PlannerError, UnsupportedArchitecture, architecture_bytes, engine
from planner.layers import (
    Chunked,
    Compressed,
    Cross,
    Full,
    Hidden,
    IndexKeys,
    Latent,
    Layer,
    LayerCache,
    ReferenceSliding,
    Sliding,
    State,
)  # fmt: skip

GOLDEN = Path(__file__).parent / "golden"
LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64,
}  # fmt: skip
#: A message is one line that a person can read, whatever was pasted.
LONGEST_MESSAGE = 1000


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """The rows of class_defaults.yaml."""
    return tuple(yaml.safe_load((GOLDEN / "class_defaults.yaml").read_text(encoding="utf-8")))


def read(config: Mapping[str, Any], **options: Any) -> Model:
    return model_configs.read(copy.deepcopy(dict(config)), **options)


def attempt(source: Any, **options: Any) -> Model | PlannerError:
    """The model, or the PlannerError, that reading gives; the error is one line of a sane length."""
    try:
        return read(source, **options) if isinstance(source, dict) else model_configs.read(source, **options)
    except PlannerError as error:
        found = error
    assert "\n" not in str(found)
    assert len(str(found)) < LONGEST_MESSAGE, str(found)[:200]
    return found


def refusal(config: Mapping[str, Any], **options: Any) -> PlannerError:
    """The error that reading `config` gives. Any other exception, and a Model, fail the test."""
    found = attempt(config, **options)
    assert isinstance(found, PlannerError), (
        f"read as {found.kinds}, {architecture_bytes(found, 1000).total_bytes} bytes"
    )
    return found


def named(error: PlannerError) -> str:
    """The words that an error is about: its message and its fields."""
    return f"{error} {error.fields}"


# --- class defaults -----------------------------------------------------------------------------------------------------


def in_words(part: LayerCache) -> str:
    """A cache in the words of class_defaults.yaml."""
    window = "" if part.window is None else f" w {part.window}"
    if isinstance(part, Full):
        kind = {Full: "full", Cross: "cross", Sliding: "sliding", Chunked: "chunked", ReferenceSliding: "reference"}[
            type(part)
        ]
        width = str(part.k_dim) if part.k_dim == part.v_dim else f"{part.k_dim}/{part.v_dim}"
        return f"{kind} {part.kv_heads} x {width}{window}"
    if isinstance(part, Latent):
        return f"latent {part.kv_lora_rank} + {part.qk_rope_head_dim}{window}"
    if isinstance(part, IndexKeys):
        ids = f" ids {part.position_ids}" if part.position_ids else ""
        return f"index {part.width}{' f4' if part.dtype == 'float32' else ''}{ids}"
    if isinstance(part, Compressed):
        indexer = "" if part.index_dim is None else f" i {part.index_dim}"
        return f"compressed {part.head_dim} r {part.rate}{indexer}{window}"
    if isinstance(part, Hidden):
        return f"hidden {part.width}{f' +{part.bucket_ids}' if part.bucket_ids else ''}"
    assert isinstance(part, State), part
    widths = {"model": 2, "float32": 4, "int64": 8, "int32": 4}
    return f"state {sum(t.elements * widths[t.dtype] for t in part.states)}"


def layer_in_words(layer: Layer) -> str:
    return " + ".join(in_words(part) for part in layer.caches) or ("none" if layer.shares is None else "shared")


def spelled_out(order: str, letters: Mapping[str, str]) -> list[str]:
    """The layers of an `order` such as "F (5S F)x10 2S"."""
    flat = re.sub(r"\(([^)]*)\)x(\d+)", lambda m: f" {m[1]} " * int(m[2]), str(order))
    return [letters[letter] for count, letter in re.findall(r"(\d*)([A-Z])", flat) for _ in range(int(count or 1))]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_class_default(row: dict[str, Any]) -> None:
    """Words that a config leaves out mean what the model's own class fills in: kinds, windows, heads, widths, states."""
    found = [layer_in_words(layer) for layer in read(row["config"]).layers]
    assert found == spelled_out(row["order"], row["is"])


def test_the_golden_rows_are_well_formed() -> None:
    """Row names are unique and every letter of a row is used, so that no row passes by being misread."""
    assert len({row["id"] for row in rows()}) == len(rows())
    for row in rows():
        assert set(re.findall(r"[A-Z]", row["order"])) == set(row["is"]), row["id"]


def test_every_shared_layer_names_the_layer_it_reads() -> None:
    """Gemma 3n's last 15 layers read the last sliding and the last full layer before them, by their own word.

    Source: Gemma 3n's class, transformers 5.24: layers 18 and 19 are the last that keep a cache of their kind.
    """
    layers = read({"model_type": "gemma3n_text"}).layers
    assert [layer.shares for layer in layers[20:]] == [18, 18, 18, 18, 19] * 3


# --- what is not understood ---------------------------------------------------------------------------------------------


def test_unknown_architecture_names_the_keys_that_matter() -> None:
    """An unknown model_type is refused with its name and the cache-relevant keys of the file, and only those."""
    error = refusal({**LLAMA, "model_type": "brandnew", "kv_lora_rank": 512, "sliding_window": 7, "vocab_size": 9})
    assert isinstance(error, UnsupportedArchitecture)
    assert error.model_type == "brandnew"
    assert {"kv_lora_rank", "sliding_window"} <= set(error.keys)
    assert "vocab_size" not in error.keys
    assert "brandnew" in str(error)
    assert "kv_lora_rank" in str(error)
    assert "sliding_window" in str(error)


def test_assume_plain_attention_labels_the_result() -> None:
    """The person's own choice gives full attention in every layer, and says so in `assumption`; known models have none."""
    model = read({**LLAMA, "model_type": "brandnew"}, assume_plain_attention=True)
    assert [layer_in_words(layer) for layer in model.layers] == ["full 2 x 8"] * 4
    assert model.assumption is not None
    assert "plain attention" in model.assumption
    assert "brandnew" in model.assumption
    assert read(LLAMA, assume_plain_attention=True).assumption is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"head_dim": 2, "v_head_dim": 300}, "full 2 x 300"),
        ({"head_dim": 48}, "full 2 x 48"),
        ({"num_key_value_heads": None}, "full 8 x 8"),
        ({"hidden_size": 60}, "full 2 x 8"),
        ({"sliding_window": 16}, "full 2 x 8"),
    ],
)
def test_assume_plain_attention_takes_the_larger_reading(words: dict[str, Any], expected: str) -> None:
    """Where an unknown config leaves a width open, the assumption rounds up: a number that is too low is the worst."""
    model = read({**LLAMA, "model_type": "brandnew", **words}, assume_plain_attention=True)
    assert {layer_in_words(layer) for layer in model.layers} == {expected}


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads"])
def test_assume_plain_attention_still_needs_the_sizes(key: str) -> None:
    """Without depth or heads there is nothing to assume: a ConfigError that names the missing word."""
    config = {name: value for name, value in LLAMA.items() if name != key}
    error = refusal({**config, "model_type": "brandnew"}, assume_plain_attention=True)
    assert isinstance(error, ConfigError)
    assert key in named(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512), ("num_kv_shared_layers", 2), ("index_head_dim", 128), ("cross_attention_layers", [1]),
        ("ssm_state_size", 16), ("mamba_d_state", 16), ("linear_attn_config", {"full_attn_layers": [1]}),
        ("sparse_attention_config", {"sparse_attention_freq": [0, 1, 1, 1]}), ("attn_layer_period", 8), ("multi_query", True),
        ("hybrid_override_pattern", "M*M*"), ("compress_ratios", [4, 4, 4, 4]), ("kv_sharing_modes", ["own", "reuse"]),
        ("swa_head_dim", 64), ("global_head_dim", 512), ("num_global_key_value_heads", 4), ("swa_num_key_value_heads", 4),
        ("block_configs", [{"attention": {"no_op": True}}] * 4),
    ],
)  # fmt: skip
def test_stray_word_is_refused_by_name(key: str, value: Any) -> None:
    """A word that decides another family's cache, in a plain llama config, is refused by name and never passed over."""
    error = refusal({**LLAMA, key: value})
    assert isinstance(error, UnsupportedArchitecture)
    assert key in str(error)
    assert key in error.keys


@pytest.mark.parametrize("key", ["vocab_size", "rope_theta", "num_experts", "tie_word_embeddings", "_name_or_path"])
def test_word_without_effect_changes_nothing(key: str) -> None:
    """Vocabulary, rope, experts and names never touch the cache."""
    assert read({**LLAMA, key: 7}).layers == read(LLAMA).layers


@pytest.mark.parametrize(
    "word", ["brandnew_attention", "Full_Attention", "", "linear_attention", "mlp", "moe", "recurrent"]
)
def test_unknown_layer_word_is_refused_by_name(word: str) -> None:
    """A layer word that the family does not have is refused by name; above all not read as a layer without a cache."""
    error = refusal({**LLAMA, "layer_types": ["full_attention", "full_attention", "full_attention", word]})
    assert isinstance(error, UnsupportedArchitecture | ConfigError)
    assert (word or "layer_types") in named(error)


def test_two_model_types_in_one_file() -> None:
    """A llama file around a part of another known type is a contradiction, or is read by the part's own type."""
    inner = {"model_type": "deepseek_v2", "num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    found = attempt({"model_type": "llama", "text_config": inner})
    if isinstance(found, PlannerError):
        assert any(word in named(found) for word in ("model_type", "text_config", "kv_lora_rank"))
    else:
        assert [layer_in_words(layer) for layer in found.layers] == ["latent 512 + 64"] * 2


# --- wrong values, word by word -----------------------------------------------------------------------------------------

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


def test_hidden_size_that_heads_do_not_divide() -> None:
    """hidden_size 65 over 8 heads is refused by name or read as the class reads it (65 // 8); head_dim settles it.

    A quotient of nothing is always refused.
    """
    found = attempt({**LLAMA, "hidden_size": 65})
    if isinstance(found, PlannerError):
        assert "65" in str(found)
        assert "head_dim" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == "full 2 x 8"
    assert isinstance(refusal({**LLAMA, "hidden_size": 7}), ConfigError)
    assert layer_in_words(read({**LLAMA, "hidden_size": 65, "head_dim": 8}).layers[0]) == "full 2 x 8"


def test_window_of_zero_is_no_window() -> None:
    """sliding_window 0 keeps every position: the safe reading, for a window of nothing is not a window."""
    assert read({**LLAMA, "sliding_window": 0}).kinds == {"full": 4}


@pytest.mark.parametrize("kv_heads", [16, 3])
def test_kv_heads_that_do_not_divide_the_heads(kv_heads: int) -> None:
    """More KV heads than heads, or a number that does not divide them, is refused or counted as stated: never fewer."""
    found = attempt({**LLAMA, "num_key_value_heads": kv_heads})
    if isinstance(found, PlannerError):
        assert "num_key_value_heads" in named(found) or f"{kv_heads} KV heads" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == f"full {kv_heads} x 8"


@pytest.mark.parametrize("model_type", [None, 5, ["llama"], {}, True, "", "Llama", "llama ", "brandnew", "../llama"])
def test_model_type_that_is_no_known_word(model_type: Any) -> None:
    """A model_type that is missing, not a string, or unknown is refused; nothing is guessed from the sizes."""
    error = refusal({**LLAMA, "model_type": model_type})
    assert isinstance(error, UnsupportedArchitecture | ConfigError)
    assert "model_type" in named(error)


def test_model_type_missing() -> None:
    """A file without a model_type (a tokenizer's, an adapter's) is refused."""
    for config in ({}, {"vocab_size": 5}, {"peft_type": "LORA", "r": 8}):
        assert "model_type" in named(refusal(config))


@pytest.mark.parametrize("text_config", [None, {}])
def test_empty_part_means_the_class_defaults(text_config: Any) -> None:
    """An absent, null or empty text_config is the decoder class with all its defaults."""
    whole = read({"model_type": "gemma3"}).layers
    assert read({"model_type": "gemma3", "text_config": text_config}).layers == whole
    assert len(whole) == 26


@pytest.mark.parametrize("name", ["language_model", "llm", "decoder_model", "text_model_config"])
def test_a_part_under_a_name_that_no_rule_knows(name: str) -> None:
    """A wrapper whose decoder stands under another name is refused by that name, not read as all class defaults."""
    error = refusal({"model_type": "llava", name: {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 64}})
    assert name in named(error)


def test_a_part_that_leaves_heads_out_has_its_own_class_defaults() -> None:
    """PaliGemma's one-head default belongs to a missing text_config; a given one has gemma's 16 heads.

    Source: the composite class builds the inner class from the given part, which fills in its own defaults.
    """
    inner = {"model_type": "gemma", "num_hidden_layers": 2, "hidden_size": 2048, "num_attention_heads": 8}
    found = attempt({"model_type": "paligemma", "text_config": inner})
    if isinstance(found, PlannerError):
        assert "num_key_value_heads" in named(found) or "16 KV heads" in str(found)
    else:
        assert layer_in_words(found.layers[0]) == "full 16 x 256"


def test_time_step_limit_may_be_infinite() -> None:
    """Mamba configs are saved with `"time_step_limit": [0.0, Infinity]`, which JSON does not have and files do."""
    text = '{"model_type": "mamba2", "num_hidden_layers": 2, "time_step_limit": [0.0, Infinity]}'
    config = model_configs.parse_config(text, "config.json")
    assert read(config).kinds == {"state": 2}
    assert read({"model_type": "mamba2", "num_hidden_layers": 2, "time_step_limit": "inf"}).kinds == {"state": 2}


def test_non_string_keys_and_endless_numbers() -> None:
    """A dict that no JSON could give, and a number too long to print, still end in a Model or a PlannerError."""
    for odd in (5, None, ("a", "b"), True):
        found = attempt({**LLAMA, odd: 1})
        assert "key" in str(found) if isinstance(found, PlannerError) else found.layers == read(LLAMA).layers
        refusal({odd: 1, "model_type": "brandnew"})
    refusal({**LLAMA, "num_hidden_layers": 10**5000})
    refusal({**LLAMA, "num_hidden_layers": "x" * 10**6})
    refusal({"model_type": "x" * 10**6})
    refusal({**LLAMA, "layer_types": ["x" * 10**6] * 4})
    refusal({**LLAMA, "layer_types": ["x\ny"] * 4})
    refusal({**LLAMA, "torch_dtype": "x" * 10**6})


@pytest.mark.parametrize("value", [[5], [None], "LlamaForCausalLM", {}, 5, [], [["x"]]])
def test_architectures_of_a_wrong_type(value: Any) -> None:
    """`architecture` is a word or nothing, whatever the file holds."""
    found = attempt({**LLAMA, "architectures": value})
    if isinstance(found, PlannerError):
        assert "architectures" in named(found)
    else:
        assert isinstance(found.architecture, str | None)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", 4),
        ("float16", 2),
        ("bfloat16", 2),
        ("torch.bfloat16", 2),
        ("auto", 2),
        ("float8_e4m3fn", 2),
        (None, 2),
    ],
)
def test_dtype_of_the_file_is_the_caches(dtype: str | None, expected: int) -> None:
    """The cache takes the model's dtype; 8-bit weights still mean a 16-bit cache, and no dtype means bfloat16, with a note.

    Source: rules of transformers 5.24: the cache takes the dtype of the activations, not of the weights.
    """
    model = read({**LLAMA, "torch_dtype": dtype})
    assert architecture_bytes(model, 1).total_bytes == 4 * 2 * 2 * 8 * expected
    assert bool(model.notes) == (dtype in (None, "auto", "float8_e4m3fn"))


def test_double_precision_is_not_counted_as_single() -> None:
    """A float64 checkpoint caches 8 bytes an element: refused, or counted so, but never half."""
    found = attempt({**LLAMA, "torch_dtype": "float64"})
    if isinstance(found, PlannerError):
        assert "dtype" in named(found)
    else:
        assert architecture_bytes(found, 1).total_bytes == 4 * 2 * 2 * 8 * 8


# --- files --------------------------------------------------------------------------------------------------------------

GOOD = json.dumps(LLAMA)


def deeply_nested(depth: int) -> str:
    return '{"model_type": "llama", "a": ' + '{"a": ' * depth + "1" + "}" * depth + "}"


@pytest.mark.parametrize(
    ("content", "good"),
    [
        (GOOD.encode(), True),
        (b"\xef\xbb\xbf" + GOOD.encode(), True),
        (GOOD.encode() + b"\n\n  ", True),
        (b'{"num_hidden_layers": 99, ' + GOOD.encode()[1:], True),
        (json.dumps({**LLAMA, "x": 1}).replace('"x": 1', '"time_step_limit": [0.0, -Infinity, Infinity]').encode(), True),
        (b"", False),
        (b"   ", False),
        (b"null", False),
        (b"[" + GOOD.encode() + b"]", False),
        (b'"llama"', False),
        (b"5", False),
        (GOOD.encode()[:-1], False),
        (GOOD.encode() + b"}", False),
        (GOOD.encode().replace(b"}", b', "rope_theta": NaN}'), False),
        (GOOD.replace("}", ', "note": "caf\u00e9"}').encode("latin-1"), False),
        (GOOD.encode("utf-16"), False),
        (b"\x00\x01\x02", False),
        (b"<html>Repository not found</html>", False),
        (deeply_nested(100_000).encode(), False),
        (GOOD.encode().replace(b"}", b', "n": ' + b"9" * 5000 + b"}"), False),
        (GOOD.encode().replace(b"}", b', "pad": "' + b"x" * (5 * 1024 * 1024) + b'"}'), False),
    ],
    ids=[
        "plain", "bom", "trailing-blank", "duplicate-keys", "infinity", "empty", "blank", "null", "array", "string", "number",
        "cut-short", "one-brace-too-many", "nan", "latin-1", "utf-16", "binary", "html", "deeply-nested", "endless-number",
        "five-mebibytes",
    ],
)  # fmt: skip
def test_content_of_a_file(tmp_path: Path, content: bytes, good: bool) -> None:
    """A config.json of any content is a Model, or a PlannerError of one short line that names the file."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    if good:
        assert model_configs.read(path).layers == read(LLAMA).layers
        assert model_configs.read(str(path)).layers == read(LLAMA).layers
        assert model_configs.read(tmp_path).source.kind == "path"
        return
    with pytest.raises(PlannerError) as caught:
        model_configs.read(path)
    assert "config.json" in str(caught.value)
    assert len(str(caught.value)) < LONGEST_MESSAGE


@pytest.mark.parametrize("depth", [50, 500, 900, 5_000])
def test_nesting_that_json_still_reads(tmp_path: Path, depth: int) -> None:
    """Nesting that the JSON reader accepts does not overflow anything behind it."""
    path = tmp_path / "config.json"
    path.write_text(deeply_nested(depth), encoding="utf-8")
    found = attempt(path)
    assert "config.json" in str(found) if isinstance(found, PlannerError) else found.kinds == {"full": 32}


def test_folder_without_a_config(tmp_path: Path) -> None:
    """A folder is read by its config.json; without one the error names that file."""
    with pytest.raises(InputError, match=r"config\.json"):
        model_configs.read(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match=r"config\.json"):
        model_configs.read(tmp_path)


def test_path_that_does_not_exist(tmp_path: Path) -> None:
    """A path is never taken for a Hub id: what looks like a path and is not there is an InputError, without a network."""
    missing = (
        tmp_path / "no" / "config.json",
        f"{tmp_path}/no",
        "./no-folder",
        "../no.json",
        "no-such.json",
        "~/no-such",
    )
    for source in missing:
        with pytest.raises(InputError):
            model_configs.read(source)


def test_path_that_may_not_be_read(tmp_path: Path) -> None:
    """A file without read permission is an InputError (nothing to see where the user is root)."""
    path = tmp_path / "config.json"
    path.write_text(GOOD, encoding="utf-8")
    path.chmod(0)
    found = attempt(path)
    if isinstance(found, PlannerError):
        assert isinstance(found, InputError)
        assert "config.json" in str(found)
    else:
        assert os.geteuid() == 0
        assert len(found.layers) == 4


def test_path_with_a_zero_byte_or_of_any_length() -> None:
    """Text that no file system takes as a path is an InputError or another PlannerError."""
    for source in ("/a\0b", "./a\0b.json", "/" + "x" * 100_000, "./" + "x/" * 10_000):
        with pytest.raises(PlannerError):
            model_configs.read(source)


@pytest.mark.parametrize("source", [None, 5, b"llama", [], ["x"], "", "   ", 1.5, object()], ids=repr)
def test_source_that_names_nothing(source: Any) -> None:
    """What is neither a name, a path nor a config is an InputError."""
    with pytest.raises(InputError):
        model_configs.read(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_pipe_is_not_a_config(tmp_path: Path) -> None:
    """A path that is no regular file is refused at once instead of being read for ever."""
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    found: list[BaseException] = []

    def attempt() -> None:
        try:
            model_configs.read(pipe)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(5)
    if thread.is_alive():
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        thread.join(5)
        pytest.fail("reading a pipe waits for a writer")
    assert isinstance(found[0], PlannerError)


def test_reading_does_not_change_the_config() -> None:
    """A config given as a dict comes back as it was, also where its lists are cut or its words filled in."""
    for row in rows():
        config = copy.deepcopy(row["config"])
        model_configs.read(config)
        assert config == row["config"]


# --- fuzz ---------------------------------------------------------------------------------------------------------------

NASTY: list[Any] = [
    None, True, "x", "8", -1, 0, 1.5, float("nan"), float("inf"), 2**70, ["x"], [[1]], [0] * 100, {}, {"0": {"head_dim": "x"}},
]  # fmt: skip
#: Words that some family reads and that a base config may not name.
EXTRA = (
    "layer_types", "layers_block_type", "per_layer_config", "sliding_window", "attention_chunk_size", "head_dim", "v_head_dim",
    "num_key_value_heads", "num_kv_shared_layers", "indexer_types", "use_mla", "text_config", "torch_dtype", "architectures",
    "quantization_config", "max_position_embeddings", "model_type", "intermediate_size", "vocab_size",
)  # fmt: skip


def bases() -> dict[str, dict[str, Any]]:
    """One config for each family row, its proof's or one of class_defaults.yaml, and one for each kind of wrapper."""
    by_type = {row["config"]["model_type"]: row["config"] for row in rows()}
    found: dict[str, dict[str, Any]] = {}
    for family in table().families:
        written = [by_type[name] for name in family.types if name in by_type]
        found[family.name] = (
            written[-1] if written else dict(family.proof.get("config", {"model_type": family.types[0]}))
        )
    for name in ("llava", "gemma3", "mllama", "minimax_m3_vl", "encoder-decoder", "qwen2_5_omni", "deepseek_vl_v2"):
        found[f"wrapper {name}"] = by_type[name]
    return found


def mutations(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The config with each of its words, one level into its parts, and each extra word set to each nasty value or gone."""
    found = [{**config, key: value} for key in config for value in NASTY]
    found += [{**config, key: NASTY[i % len(NASTY)]} for i in range(len(NASTY)) for key in EXTRA[i % 3 :: 3]]
    found += [{k: v for k, v in config.items() if k != key} for key in config]
    for part, words in config.items():
        if isinstance(words, dict):
            found += [{**config, part: {**words, key: value}} for key in words for value in NASTY]
            found += [{**config, part: {k: v for k, v in words.items() if k != key}} for key in words]
    return found


def survive(config: dict[str, Any]) -> None:
    """Reads `config` and, if it is a model, counts its cache in every way; only PlannerError may come out of it."""
    model = attempt(config)
    if isinstance(model, PlannerError):
        return
    assert model.layers
    counted = architecture_bytes(model, 1000, 2, encoder_tokens=7)
    assert type(counted.total_bytes) is int
    assert all(part.bytes >= 0 and part.positions >= 0 for layer in counted.layers for part in layer.parts)
    shapes = [t.shape for x in model.layers for c in x.caches for t in c.tensors(1000)]
    assert all(type(size) is int and size >= 0 for shape in shapes for size in shape)
    transformers = engine("transformers")
    for implementation in ("dynamic", "static", "quantized"):
        try:
            settings = transformers.Settings(cache_implementation=implementation)
            assert transformers.cache_bytes(model, settings, 1000, 2, 7).total_bytes >= 0
        except PlannerError:
            pass


@pytest.mark.parametrize("name", bases())
def test_no_config_breaks_the_reader(name: str) -> None:
    """Each word of each family's config set to each nasty value: a Model whose cache can be counted, or a PlannerError."""
    failures = []
    for config in mutations(bases()[name]):
        try:
            survive(config)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error!s:.120} <- {config!r:.300}")
    assert not failures, "\n".join(failures[:10]) + f"\n({len(failures)} in all)"
