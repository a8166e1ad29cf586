"""The lines that llama.cpp prints of a model, its contexts and their memory, with the periods that print them.

MiB are 2^20 bytes with two decimals, whole MiB in the tables of `--fit` are cut. Sizes of one cache stand twice, as a buffer on
each device and as a sum: the same bytes. A function's name before the colon is none to rely on, because compilers inline it.

Source: src/llama*.cpp, common/fit.cpp and tools/server of the sources that llama-cpp-python 0.2.90, 0.3.8, 0.3.9, 0.3.16, 0.3.20
and 0.3.36 carry; public logs.
"""

from __future__ import annotations

from typing import Final

from validation.logs.shapes import Shape, shape

#: Words of a context that settings are made of.
CONTEXT_WORDS: Final = (
    "n_seq_max", "n_ctx", "n_ctx_per_seq", "n_ctx_seq", "n_batch", "n_ubatch", "causal_attn", "flash_attn", "kv_unified",
    "n_rs_seq", "offload_kqv",
)  # fmt: skip
_DEVICE: Final = r"(?P<device>[A-Za-z][\w.\[\]:-]{0,60})"
_TYPE_K: Final = r"(?P<type_k>\w{1,16})"
_TYPE_V: Final = r"(?P<type_v>\w{1,16})"

SHAPES: Final[tuple[Shape, ...]] = (
    # the model
    shape("loaded meta data", r"loaded meta data with \d+ key-value pairs and \d+ tensors from (?P<path>.{1,400}?) \(version",
          "all", "a file is read: a model begins", common=True),
    shape("- kv ", r"- kv +\d{1,4}: +(?P<key>[\w.-]{1,120}) +(?P<type>arr\[\w{1,8},\d{1,9}\]|\w{1,8}) += (?P<value>.{0,400})$",
          "2023 on", "the file's metadata; values beyond 40 characters are cut with ...", common=True),
    shape(" = ", r"(?:print_info|llm_load_print_meta): (?P<word>[\w.][\w. ]{0,40}?) += (?P<value>.{1,4000}?) *$", "2023 on",
          "what llama.cpp makes of the metadata; [a, b, ..] where layers differ", common=True),
    shape("model buffer size", _DEVICE + r" +model buffer size = +{model_buffer_bytes:mib} MiB", "2024 on", "weights on one device", common=True),
    shape("buffer size", r"load_tensors: +" + _DEVICE + r" +buffer size = +{model_buffer_bytes:mib} MiB", "to 2024",
          "weights on one device", common=True),
    shape("offloaded", r"offloaded {layers_on_gpu:n}/{layers_offloadable:n} layers to GPU", "all",
          "layers on the GPU, the output layer counted as one"),
    # a context
    shape("constructing llama_context", r"constructing llama_context", "2025 on", "a context begins"),
    shape(" = ", r"(?:^|[\s:])(?P<word>" + "|".join(CONTEXT_WORDS) + r") += (?P<value>[\w.]{1,20})$", "all", "settings of a context",
          common=True),
    shape("kv_size = ", r"kv_size = {kv_size:n}, (?:offload = \d, )?type_k = '" + _TYPE_K + "', type_v = '" + _TYPE_V
          + r"', n_layer = {n_layer:n}", "2024 to mid 2025", "cells, types and layers of the cache that follows"),
    shape("KV cache", r"creating +(?P<label>\S.{0,40}?) *KV cache(?:, size = {cells:n} cells)?", "May 2025 on",
          "which cache the next size belongs to", common=True),
    shape("KV buffer size", _DEVICE + r" KV buffer size = +{buffer_bytes:mib} MiB", "all", "one cache on one device"),
    shape("KV self size", r"KV self size += +{size_bytes:mib} MiB, K \(" + _TYPE_K + r"\): +{k_bytes:mib} MiB, V \(" + _TYPE_V
          + r"\): +{v_bytes:mib} MiB", "to May 2025", "the cache on all devices"),
    shape(" cells,", r"size = +{size_bytes:mib} MiB \( *{cells:n} cells, +{layers:n} layers, +{seqs:n}(?:/{streams:n})? seqs\), K \("
          + _TYPE_K + r"\): +{k_bytes:mib} MiB, V \(" + _TYPE_V + r"\): +{v_bytes:mib} MiB", "May 2025 on",
          "one cache: cells of each stream, layers in it, sequences / streams (since July 2025); bytes of all streams"),
    shape(" cells,", r"size = +{size_bytes:mib} MiB \( *{cells:n} cells, +{layers:n} layers, +{seqs:n} seqs(?: +{rs_seq:n} rs_seq)?\), R \("
          + r"\w+\): +{r_bytes:mib} MiB, S \(\w+\): +{s_bytes:mib} MiB(?:, P \(\w+\): +{p_bytes:mib} MiB)?", "mid 2025 on",
          "recurrent states; layers counts those without a state too"),
    shape("RS buffer size", _DEVICE + r" RS buffer size = +{rs_buffer_bytes:mib} MiB", "mid 2025 on", "states on one device"),
    shape("state buffer size", _DEVICE + r" DSV4 (?P<name>\w+) state buffer size = +{state_buffer_bytes:mib} MiB", "2026",
          "DeepSeek-V4's compressors on one device"),
    shape(" ratio = ", r"(?P<name>\w+) ratio = \d+, state = {state_rows:n} x {state_width:n}, streams = {streams:n}, rs_seq = \d+, "
          r"layers = {layers:n}, size = +{size_bytes:mib} MiB", "2026", "DeepSeek-V4's compressors on all devices", common=True),
    shape("full-size SWA", r"using full-size SWA cache", "May 2025 on", "window layers keep the whole context (--swa-full)"),
    shape("output buffer size", _DEVICE + r" +output buffer size = +{output_bytes:mib} MiB", "all", "logits: n_vocab x 4 bytes each"),
    shape("compute buffer size", _DEVICE + r" +compute buffer size = +{compute_bytes:mib} MiB", "all",
          "scratch of one pass; printed again when graphs are reserved again, the last one counts"),
    shape("Flash Attention", r"Flash Attention was auto, set to (?P<value>\w+)", "autumn 2025 on", "what auto became; no size follows"),
    # dry runs and tables
    shape("projected to use", r"projected to use {projected_bytes:mib_cut} MiB of \w+ memory vs\. {free_bytes:mib_cut} MiB of", "Dec 2025 on",
          "--fit: what the asked context would take"),
    shape("context size reduced", r"context size reduced from {n_ctx_asked:n} to {n_ctx_fitted:n}", "Dec 2025 on", "--fit: the context that fits"),
    shape("vs. target of", r"- (?P<device>\S.{0,80}?) *: +{total_bytes:mib_cut} total, +{used_bytes:mib_cut} used, +"
          r"{device_free_bytes:mib_cut} free vs\. target of +{target_bytes:mib_cut}", "Dec 2025 on", "--fit: one device"),
    shape("fixed memory usage", r"estimated fixed memory usage of (?P<name>\w+) context is {spec_fixed_bytes:mib} MiB", "2026",
          "what a draft context takes whatever its length: its compute buffer"),
    shape(" = ", r"- +(?P<device>\S.{0,80}?) *\| +{total_bytes:mib_cut} = +{free_bytes:mib_cut} \+ +\( *{self_bytes:mib_cut} = +"
          r"{model_bytes:mib_cut} \+ +{context_bytes:mib_cut} \+ +{compute_bytes:mib_cut}\) \+ +{unaccounted_bytes:mib_cut} *\|",
          "Sep 2025 on", "memory breakdown of a device: context is KV and states; below 0 unaccounted is a dry run", common=True),
    shape("Host", r"- +(?P<device>Host) *\| +{self_bytes:mib_cut} = +{model_bytes:mib_cut} \+ +{context_bytes:mib_cut} \+ +"
          r"{compute_bytes:mib_cut} *\|", "Sep 2025 on", "memory breakdown of the host", common=True),
    # refusals
    shape("failed to allocate", r"failed to allocate (?:\S{1,40} )?buffer of size {refused_bytes:B}", "all", "what could not be had", common=True),
    shape("out of memory", r"allocating {refused_bytes:mib} MiB on device \d+: \w+ failed: out of memory", "all", "what could not be had", common=True),
    # machine and program
    shape("using device", r"using device \S+ \((?P<gpu>[^)]{1,80})\)(?: \([^)]{0,80}\))* - {device_free_bytes:mib_cut} MiB free", "2025 on",
          "free memory of a device before loading"),
    shape("compute capability", r"Device \d+: (?P<gpu>[^,]{1,80}), compute capability", "all", "a CUDA device", common=True),
    shape("found device", r"found device: (?P<gpu>.{1,60})$", "all", "a Metal device", common=True),
    shape("GPU name", r"GPU name: +(?P<gpu>.{1,60})$", "all", "a Metal device", common=True),
    shape("ggml_vulkan", r"ggml_vulkan: \d+ = (?P<gpu>[^|(]{1,80}?) *[|(]", "2025 on", "a Vulkan device", common=True),
    shape("build", r"(?:^|\s)(?:build|build_info)(?: =|:) +b?(?P<build>\d{2,6})[ -]\(?[0-9a-f]{6,12}\b", "all", "the build", common=True),
    shape("version:", r"(?:^|\s)version: (?P<build>\d{3,6}) \([0-9a-f]{6,12}\)", "all", "the build", common=True),
    shape("n_ctx_slot", r"n_slots = {n_slots:n}, n_ctx_slot = {n_ctx_slot:n}", "2025 on", "slots of llama-server, and what each gets"),
    shape("prompt cache is enabled", r"prompt cache is enabled, size limit: {prompt_cache_bytes:mib_cut} MiB", "Oct 2025 on",
          "host memory that fills with use, no part of the cache"),
)  # fmt: skip
