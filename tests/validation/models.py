"""Small configs of every kind of cache, each with shapes of its own so that a mix-up of words shows."""

from __future__ import annotations

from typing import Any

_PLAIN = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
_MOE = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 32, "n_group": 1,
        "topk_group": 1}  # fmt: skip
_LATENT = {"kv_lora_rank": 24, "q_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12}

#: By what each is for: its kind of cache and the config.
MODELS: dict[str, dict[str, Any]] = {
    "multi-head": {"model_type": "gpt2", "n_layer": 3, "n_embd": 48, "n_head": 4, "vocab_size": 128, "n_positions": 512},
    "grouped": {"model_type": "llama", **_PLAIN, "num_key_value_heads": 2},
    "grouped, wide head": {"model_type": "qwen3", **_PLAIN, "num_key_value_heads": 2, "head_dim": 24},
    "multi-query": {"model_type": "falcon", **_PLAIN, "multi_query": True, "alibi": False},
    "falcon's expanded heads": {
        "model_type": "falcon", **_PLAIN, "num_kv_heads": 2, "new_decoder_architecture": True, "alibi": False,
    },
    "latent": {"model_type": "deepseek_v3", **_PLAIN, **_LATENT, **_MOE, "first_k_dense_replace": 1},
    "latent with index keys": {
        "model_type": "deepseek_v32", **_PLAIN, **_LATENT, **_MOE, "first_k_dense_replace": 1, "index_n_heads": 2,
        "index_head_dim": 16, "index_topk": 8,
    },
    "sliding": {"model_type": "mistral", **_PLAIN, "num_key_value_heads": 2, "sliding_window": 11},
    "sliding and full": {
        "model_type": "gemma3_text", **_PLAIN, "num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 20,
        "sliding_window": 9,
    },
    "sliding with sinks": {
        "model_type": "gpt_oss", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 16,
        "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
    },
    "chunked": {
        "model_type": "llama4_text", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 16,
        "attention_chunk_size": 16, "intermediate_size_mlp": 64, "num_local_experts": 2, "num_experts_per_tok": 1,
    },
    "state": {
        "model_type": "mamba", "hidden_size": 32, "state_size": 8, "num_hidden_layers": 3, "vocab_size": 128, "conv_kernel": 4,
    },
    "gated delta and full": {
        "model_type": "qwen3_next", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 8,
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    },
    "mamba 2 beside attention": {
        "model_type": "falcon_h1", **_PLAIN, "num_key_value_heads": 2, "head_dim": 16, "mamba_d_ssm": 64, "mamba_n_heads": 4,
        "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_expand": 1,
    },
    "mamba and full": {
        "model_type": "jamba", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "attn_layer_period": 4,
        "attn_layer_offset": 2, "mamba_d_state": 8, "mamba_dt_rank": 4, "num_experts": 2, "num_experts_per_tok": 1,
    },
    "convolution and full": {
        "model_type": "lfm2", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "full_attn_idxs": [2],
        "conv_L_cache": 3, "block_multiple_of": 16,
    },
    "shared layers": {
        "model_type": "gemma3n_text", **_PLAIN, "num_hidden_layers": 10, "num_key_value_heads": 2, "head_dim": 16,
        "sliding_window": 9, "num_kv_shared_layers": 4, "vocab_size_per_layer_input": 128, "hidden_size_per_layer_input": 16,
        "laurel_rank": 8,
    },
    "encoder, T5": {
        "model_type": "t5", "d_model": 48, "d_kv": 10, "d_ff": 64, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 3,
        "vocab_size": 128, "decoder_start_token_id": 0,
    },
    "encoder, BART": {
        "model_type": "bart", "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 128,
        "max_position_embeddings": 512,
    },
    "a store of its own": {
        "model_type": "minimax", **_PLAIN, "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 16,
        "num_local_experts": 2,
    },
}  # fmt: skip
