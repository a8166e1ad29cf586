"""Tiny GGUF files that a real llama.cpp loads and runs: few layers, narrow, a vocabulary of bytes, random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

HIDDEN, FF, VOCABULARY, TRAINED = 64, 96, 300, 8192


class Tensors:
    """Adds random matrices to a file; shapes are those of PyTorch, rows first."""

    def __init__(self, writer: gguf.GGUFWriter) -> None:
        self.writer, self.random = writer, np.random.default_rng(0)

    def add(self, name: str, *shape: int, ones: bool = False) -> None:
        values = np.ones(shape) if ones else self.random.standard_normal(shape) * 0.02
        self.writer.add_tensor(f"{name}.weight", values.astype(np.float32))


def write(path: Path, arch: str, fill: Callable[[gguf.GGUFWriter, Tensors], None]) -> Path:
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(TRAINED)
    writer.add_embedding_length(HIDDEN)
    writer.add_vocab_size(VOCABULARY)
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    words += [f"word{i}" for i in range(VOCABULARY - len(words))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))  # unknown, control, byte, normal
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    tensors = Tensors(writer)
    tensors.add("token_embd", VOCABULARY, HIDDEN)
    tensors.add("output", VOCABULARY, HIDDEN)
    fill(writer, tensors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _heads(
    writer: gguf.GGUFWriter, heads: int, kv_heads: Any, width: int, layers: int, v_width: int = 0, rope: int = 0
) -> None:
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FF)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(width)
    writer.add_value_length(v_width or width)
    writer.add_rope_dimension_count(rope or width)
    writer.add_layer_norm_rms_eps(1e-5)


def _attention(tensors: Tensors, layer: int, heads: int, kv_heads: int, width: int) -> None:
    tensors.add(f"blk.{layer}.attn_q", heads * width, HIDDEN)
    tensors.add(f"blk.{layer}.attn_k", kv_heads * width, HIDDEN)
    tensors.add(f"blk.{layer}.attn_v", kv_heads * width, HIDDEN)
    tensors.add(f"blk.{layer}.attn_output", HIDDEN, heads * width)


def _feed_forward(tensors: Tensors, layer: int) -> None:
    tensors.add(f"blk.{layer}.ffn_norm", HIDDEN, ones=True)
    tensors.add(f"blk.{layer}.ffn_gate", FF, HIDDEN)
    tensors.add(f"blk.{layer}.ffn_up", FF, HIDDEN)
    tensors.add(f"blk.{layer}.ffn_down", HIDDEN, FF)


def llama(path: Path, heads: int = 4, kv_heads: int = 2, width: int = 32, layers: int = 3) -> Path:
    """Grouped-query attention in every layer."""

    def fill(writer: gguf.GGUFWriter, tensors: Tensors) -> None:
        _heads(writer, heads, kv_heads, width, layers)
        tensors.add("output_norm", HIDDEN, ones=True)
        for layer in range(layers):
            tensors.add(f"blk.{layer}.attn_norm", HIDDEN, ones=True)
            _attention(tensors, layer, heads, kv_heads, width)
            _feed_forward(tensors, layer)

    return write(path, "llama", fill)


def gemma3(path: Path, heads: int = 4, kv_heads: int = 1, width: int = 64, layers: int = 7, window: int = 256) -> Path:
    """Five layers with a window, then a full one: layer 5 of these seven."""

    def fill(writer: gguf.GGUFWriter, tensors: Tensors) -> None:
        _heads(writer, heads, kv_heads, width, layers)
        writer.add_sliding_window(window)
        tensors.add("output_norm", HIDDEN, ones=True)
        for layer in range(layers):
            for name in ("attn_norm", "post_attention_norm", "post_ffw_norm"):
                tensors.add(f"blk.{layer}.{name}", HIDDEN, ones=True)
            for name in ("attn_q_norm", "attn_k_norm"):
                tensors.add(f"blk.{layer}.{name}", width, ones=True)
            _attention(tensors, layer, heads, kv_heads, width)
            _feed_forward(tensors, layer)

    return write(path, "gemma3", fill)


def lfm2(path: Path, heads: int = 4, kv_heads: int = 2, width: int = 16, cache: int = 65) -> Path:
    """Short convolutions, whose state is fixed, and attention in every third of six layers."""
    kinds = [0, 0, kv_heads, 0, 0, kv_heads]

    def fill(writer: gguf.GGUFWriter, tensors: Tensors) -> None:
        _heads(writer, heads, kinds, width, len(kinds))
        writer.add_shortconv_l_cache(cache)
        tensors.add("token_embd_norm", HIDDEN, ones=True)
        for layer, count in enumerate(kinds):
            tensors.add(f"blk.{layer}.attn_norm", HIDDEN, ones=True)
            if count:
                for name in ("attn_q_norm", "attn_k_norm"):
                    tensors.add(f"blk.{layer}.{name}", width, ones=True)
                _attention(tensors, layer, heads, count, width)
            else:
                tensors.add(f"blk.{layer}.shortconv.conv", HIDDEN, cache)
                tensors.add(f"blk.{layer}.shortconv.in_proj", 3 * HIDDEN, HIDDEN)
                tensors.add(f"blk.{layer}.shortconv.out_proj", HIDDEN, HIDDEN)
            _feed_forward(tensors, layer)

    return write(path, "lfm2", fill)


def mamba(path: Path, layers: int = 3, inner: int = 2 * HIDDEN, state: int = 512, kernel: int = 4, rank: int = 4) -> Path:
    """Recurrent states alone: no cache of keys and values."""

    def fill(writer: gguf.GGUFWriter, tensors: Tensors) -> None:
        writer.add_block_count(layers)
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_ssm_conv_kernel(kernel)
        writer.add_ssm_inner_size(inner)
        writer.add_ssm_state_size(state)
        writer.add_ssm_time_step_rank(rank)
        tensors.add("output_norm", HIDDEN, ones=True)
        for layer in range(layers):
            tensors.add(f"blk.{layer}.attn_norm", HIDDEN, ones=True)
            tensors.add(f"blk.{layer}.ssm_in", 2 * inner, HIDDEN)
            tensors.add(f"blk.{layer}.ssm_conv1d", inner, kernel)
            tensors.add(f"blk.{layer}.ssm_x", rank + 2 * state, inner)
            tensors.add(f"blk.{layer}.ssm_dt", inner, rank)
            tensors.add(f"blk.{layer}.ssm_out", HIDDEN, inner)
            writer.add_tensor(f"blk.{layer}.ssm_conv1d.bias", np.zeros(inner, np.float32))
            writer.add_tensor(f"blk.{layer}.ssm_dt.bias", np.zeros(inner, np.float32))
            writer.add_tensor(f"blk.{layer}.ssm_a", -np.ones((inner, state), np.float32))
            writer.add_tensor(f"blk.{layer}.ssm_d", np.ones(inner, np.float32))

    return write(path, "mamba", fill)


def deepseek2(path: Path, heads: int = 4, layers: int = 2, latent: int = 64, rope: int = 32, nope: int = 32) -> Path:
    """Multi-head latent attention: one latent and one rope key of a position, whatever the heads."""

    def fill(writer: gguf.GGUFWriter, tensors: Tensors) -> None:
        _heads(writer, heads, 1, latent + rope, layers, latent, rope)
        writer.add_key_length_mla(nope + rope)
        writer.add_value_length_mla(nope)
        writer.add_q_lora_rank(latent)
        writer.add_kv_lora_rank(latent)
        writer.add_leading_dense_block_count(layers)
        writer.add_expert_count(0)
        writer.add_expert_used_count(0)
        writer.add_expert_feed_forward_length(FF)
        writer.add_expert_shared_count(1)
        writer.add_expert_weights_scale(1.0)
        tensors.add("output_norm", HIDDEN, ones=True)
        for layer in range(layers):
            tensors.add(f"blk.{layer}.attn_norm", HIDDEN, ones=True)
            tensors.add(f"blk.{layer}.attn_kv_a_norm", latent, ones=True)
            tensors.add(f"blk.{layer}.attn_q_a_norm", latent, ones=True)
            tensors.add(f"blk.{layer}.attn_q_a", latent, HIDDEN)
            tensors.add(f"blk.{layer}.attn_q_b", heads * (nope + rope), latent)
            tensors.add(f"blk.{layer}.attn_kv_a_mqa", latent + rope, HIDDEN)
            tensors.add(f"blk.{layer}.attn_k_b", heads, latent, nope)
            tensors.add(f"blk.{layer}.attn_v_b", heads, nope, latent)
            tensors.add(f"blk.{layer}.attn_output", HIDDEN, heads * nope)
            _feed_forward(tensors, layer)

    return write(path, "deepseek2", fill)


MODELS = {"llama": llama, "gemma3": gemma3, "lfm2": lfm2, "mamba": mamba, "deepseek2": deepseek2}
