"""The lines that vLLM prints about memory while it starts, with the releases that print them so.

GiB are 2**30, and so are the "GB" of old lines. Up to 0.13 two or four decimals are printed, from 0.16 on two rounded ones
without trailing zeros. A figure's name is the same whichever line has it.

Source: the wheels of vLLM 0.6.6 to 0.33.0 (planner/data/vllm_versions.yaml, `checked`); public start-up logs.
"""

from __future__ import annotations

from typing import Final

from validation.logs.shapes import Shape, shape

_NEEDED: Final = (
    r"max seq len \({refused_max_model_len:N}\),? \({kv_needed_bytes:X} ?GiB KV cache is needed, which is larger than the"
    r" available KV cache memory \({available_kv_bytes:X} ?GiB\)"
)
_USE: Final = r"(?:GPU|CPU) memory utilization"
_FREE: Final = r"Free memory on device (?:\S{1,40} )?\({free_bytes:X}/{gpu_total_bytes:X} ?GiB\) on startup"
_OF_SHARE: Final = r"\({gpu_memory_utilization:X}, {requested_bytes:X} ?GiB\)"
_GRAPHS: Final = r"and {cudagraph_bytes:X} ?GiB for CUDAGraph"

POOL: Final[tuple[Shape, ...]] = (
    shape("blocks:", r"\b[A-Za-z]{2,8} blocks: {num_gpu_blocks:N}, # ?CPU blocks: {num_cpu_blocks:N}",
          "blocks of the least rank, and blocks of the swap space", "0.1 to 0.11, engine V0", until="0.11.1"),
    shape("blocks:", r"\b(?:GPU|cuda) blocks: {num_gpu_blocks:N}(?!,? ?# ?CPU)(?=\s|$)",
          "blocks of the least rank", "0.6.6 to 0.8, engine V1"),
    shape("num_gpu_blocks is", r"num_gpu_blocks is:? {num_gpu_blocks:N}(?=\s|\.|$)",
          "blocks of the least rank", "0.9 on", since="0.9.0"),
    shape("KV cache size:", r"KV cache size: {gpu_kv_cache_tokens:N} tokens",
          "tokens of the pool; three meanings by release", "0.7.3 on", since="0.7.3"),
    shape("Maximum concurrency for", r"Maximum concurrency for {concurrency_tokens:N} tokens per request: {max_concurrency:X}x",
          "requests of that length at once", digits=2),
    shape("Available KV cache memory:", r"Available KV cache memory: {available_kv_bytes:X} ?GiB",
          "what this worker offers to the pool, before the least of all ranks is taken", "0.9.2 on", digits=2, since="0.9.2"),
    shape("GiB for KV cache on node", r"(?:Explicitly|Auto) set \({available_kv_bytes:X}/{X}\) ?GiB for KV cache on node",
          "the pool of the CPU backend", "0.22 on", digits=2, since="0.22.0"),
    shape("Overriding num_gpu_blocks=",
          r"num_gpu_blocks={num_gpu_blocks_profiled:N} with num_gpu_blocks_override={num_gpu_blocks_override:N}(?=\s|$)",
          "the blocks that replace those that memory gives"),
    shape("Multiplying the GPU KV cache size by", r"cache size by the d?cp_world_size {context_parallel:N}",
          "the printed tokens were multiplied by it", "0.10.2 to 0.19", since="0.10.2", until="0.21.0"),
    shape("Auto-fit max_model_len:", r"reduced from {max_model_len_asked:N} to {max_model_len:N}(?=\s|$)",
          "the longest request that fits, for max_model_len -1", "0.16 on", since="0.14.0"),
    shape("Initial free memory", r"Initial free memory:? {free_bytes:X} ?GiB.{0,40}?reserved {kv_cache_memory_bytes:X} ?GiB",
          "the pool as --kv-cache-memory-bytes sets it, without profiling", "0.10.2 on", digits=2, since="0.10.2"),
    shape("Setting attention block size to", r"Setting attention block size to {attention_block_size:N} tokens",
          "the block that is as large as a recurrent state", "0.10 on", since="0.10.0"),
    shape("Padding mamba page size by", r"Padding mamba page size by {state_padding_percent:X}%",
          "a state's page is made as large as the block", "0.10 on", digits=2, since="0.10.0"),
    shape("padding layers", r"Add {padding_layers:N} padding layers, may waste at most {padding_percent:X}%",
          "layers that are missing in the last groups", "0.9.2 on", digits=2, since="0.9.2"),
)  # fmt: skip

MEMORY: Final[tuple[Shape, ...]] = (
    shape("Loading model weights took", r"Loading model weights took {model_load_bytes:X} ?Gi?B",
          "weights of this rank", "0.4 to 0.8.4", digits=4, until="0.8.5"),
    shape("Model loading took", r"Model loading took {model_load_bytes:X} ?GiB(?: and|$)",
          "weights and buffers of this rank", "0.8.5 to 0.10.2", digits=2, since="0.8.5"),
    shape("Model loading took", r"Model loading took {model_load_bytes:X} ?GiB memory",
          "weights and buffers of this rank", "0.11 on", digits=2, since="0.11.0"),
    shape("Checkpoint size:", r"Checkpoint size: {checkpoint_bytes:X} ?GiB", "the files; not memory", digits=2, since="0.16.0"),
    shape("Graph capturing finished in", r"Graph capturing finished in [\d.]{1,9} secs?, took {cudagraph_bytes:X} ?GiB",
          "free memory that captured graphs took", digits=2),
    shape("Estimated CUDA graph memory:", r"Estimated CUDA graph memory: {cudagraph_estimated_bytes:X} ?GiB total",
          "the estimate before the pool is sized", "0.19 on", digits=2, since="0.17.0"),
    shape("CUDA graph pool memory:",
          r"CUDA graph pool memory: {cudagraph_bytes:X} ?GiB \(actual\), {cudagraph_estimated_bytes:X} ?GiB \(estimated\)",
          "captured graphs beside their estimate", "0.19 on", digits=2, since="0.17.0"),
    shape("The current --gpu-memory-utilization=", r"The current --gpu-memory-utilization={gpu_memory_utilization:X} is"
          r" equivalent to --gpu-memory-utilization={utilization_without_graphs:X}",
          "the setting, and the share that the graphs' estimate leaves of it", "0.19 on", digits=4, since="0.17.0"),
    shape("Free memory on device", _FREE + r"\. Desired " + _USE + " is " + _OF_SHARE,
          "free and total of the card, the setting and the share that it asks for", "0.10.2 on", digits=2, since="0.10.2"),
    shape("Free memory on device", _FREE + r" is less than desired " + _USE + " " + _OF_SHARE + "(?P<no_room>)",
          "refused: something else is on the card", "0.9.2 on", digits=2, since="0.9.2"),
    shape("Actual usage is", r"Actual usage is {weights_bytes:X} ?GiB for weights?, {activation_bytes:X} ?GiB for peak"
          r" activation, {non_torch_bytes:X} ?GiB for non-torch memory, " + _GRAPHS,
          "what is taken of the share; the graphs are the captured ones", "0.10.2 to 0.24", digits=2, since="0.10.2",
          until="0.27.0"),
    shape("Actual usage is", r"Actual usage is {consumed_bytes:X} ?GiB for consumed memory \(weights \+ non-torch\),"
          r" {activation_bytes:X} ?GiB for peak activation,? " + _GRAPHS,
          "what is taken of the share; the peak has the graphs' estimate in it", "0.27.1 on", digits=2, since="0.25.0"),
    shape("--kv-cache-memory=", r"--kv-cache-memory=(?P<suggested_fit_bytes>\d{1,18})`?(?: \({X} ?GiB\))? to fit into",
          "a value that is suggested, not the pool", "0.10.2 on", unit="B", since="0.10.2"),
    shape("--kv-cache-memory=", r"--kv-cache-memory=(?P<suggested_full_bytes>\d{1,18})`?(?: \({X} ?GiB\))? to fully utilize",
          "a value that is suggested, not the pool", "0.10.2 on", unit="B", since="0.10.2"),
    shape("Current kv cache memory in use is", r"Current kv cache memory in use is {kv_in_use_bytes:X} ?GiB",
          "the pool", "0.11 on", digits=2, since="0.10.2"),
    shape("Current kv cache memory in use is", r"Current kv cache memory in use is (?P<kv_in_use_bytes>\d{4,18}) bytes",
          "the pool", "0.10.2", unit="B", since="0.10.2"),
    shape("Memory profiling results:", r"total_gpu_memory={gpu_total_bytes:X} ?GiB .{0,200}?peak_torch_memory="
          r"{peak_torch_bytes:X} ?GiB .{0,200}?non_torch_memory={non_torch_bytes:X} ?GiB"
          r" kv_cache_size={available_kv_bytes:X} ?GiB gpu_memory_utilization={gpu_memory_utilization:X}",
          "the budget of engine V0", "0.5 to 0.6.4", digits=2, until="0.6.5"),
    shape("the current vLLM instance can use", r"total_gpu_memory \({gpu_total_bytes:X} ?GiB\) ?x ?gpu_memory_utilization"
          r" \({gpu_memory_utilization:X}\) ?= ?{requested_bytes:X} ?GiB",
          "the share of engine V0", "0.6.5 to 0.10", digits=2, since="0.6.5", until="0.11.1"),
    shape("model weights take", r"model weights take {weights_bytes:X} ?GiB; non_torch_memory takes {non_torch_bytes:X} ?GiB;"
          r" PyTorch activation peak memory takes {activation_bytes:X} ?GiB; the rest of the memory reserved for KV [Cc]ache is"
          r" {available_kv_bytes:X} ?GiB",
          "what engine V0 takes of its share, and what is left", "0.6.5 to 0.10", digits=2, since="0.6.5", until="0.11.1"),
)  # fmt: skip

REFUSALS: Final[tuple[Shape, ...]] = (
    shape("max seq len (", r"max seq len \({refused_max_model_len:N}\) is larger than the maximum number of tokens that can be"
          r" stored in KV cache \({estimated_max_model_len:N}\)",
          "refused: a request is longer than the pool", "V0", until="0.11.1"),
    shape("models's max seq len (", "models's " + _NEEDED,
          "refused: one request takes more than there is", "V1 to 0.19.1", digits=2, since="0.8.0", until="0.22.1"),
    shape("model's max seq len (", "model's " + _NEEDED,
          "refused: one request takes more than there is", "0.22.1 on", digits=2, since="0.20.0"),
    shape("estimated maximum model length is", r"estimated maximum model length is {estimated_max_model_len:N}(?=\.|\s|$)",
          "the longest request that fits", "0.8.5 on", since="0.8.5"),
    shape("No available memory for the cache blocks", r"No available memory for the cache blocks(?P<no_memory>)",
          "refused: weights and activations take the whole share"),
    shape("exceeds available Mamba cache blocks",
          r"max_num_seqs \({refused_max_num_seqs:N}\) exceeds available Mamba cache blocks \({num_gpu_blocks:N}\)",
          "refused: each running request keeps a state in a block", "0.20 on", since="0.20.0"),
)  # fmt: skip

SHAPES: Final = POOL + MEMORY + REFUSALS
