"""The English of each kind of advice, with what it costs; by code."""

from __future__ import annotations

TEXTS = {
    "batched_tokens": "{word} {size:,}: the activation peak shrinks; long prompts take more steps, so first tokens come later",
    "smaller_graphs": "{word} {size:,}: fewer and smaller CUDA graphs; no more than {size:,} requests run at full speed at once",
    "memory_share": "{word} {share:g}: more of the GPU for the engine; less is left for other processes and for peaks",
    "shorter_context": "{word} {length:,} instead of {before:,}: longer requests are refused",
    "fewer_requests": "at most {requests:,} at once instead of {before:,} requests: the others wait",
    "kv_dtype": "KV cache as {dtype}: fewer bytes a token, at a small cost in quality that depends on the model",
    "weights": "weights as {kind} (estimated): fewer bits a weight, at a cost in quality that grows as they fall",
    "split": "{split} on the same {gpus} GPUs: other shares of weights and cache; pipeline stages add latency",
    "engine": "{engine}: it keeps less of the window layers for these requests; another server to run",
    "two_changes": "{first}; and {second}",
    "more_gpus": "{gpus} x {gpu} ({split}) instead of {before}: more GPUs to pay for",
    "other_gpu": "{gpus} x {gpu}: another kind of GPU to pay for",
    "more_requests": "{requests:,} requests at once: {more:,} more than asked for",
    "longer_context": "{word} up to {length:,} with {requests:,} at once",
    "fewer_gpus": "{gpus} x {gpu} ({split}) are enough instead of {before}: with less room",
}
