"""The lines that llama.cpp prints of a model, its contexts and their memory, with the periods that print them.

MiB are 2^20 bytes with two decimals; the whole MiB of tables are cut, not rounded. Sizes of one cache stand twice, as a buffer on
each device and as a sum: the same bytes. A function's name before the colon is none to rely on, because compilers inline it.

Source: src/llama*.cpp, common/fit.cpp and tools/server of the sources that llama-cpp-python 0.2.90, 0.3.8, 0.3.9, 0.3.16, 0.3.20
and 0.3.36 carry; public logs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.units import MIB
from validation.logs.log import Figure
from validation.logs.shapes import Found, Shape, shape

#: Words of a context that settings are made of.
CONTEXT_WORDS: Final = (
    "n_seq_max", "n_ctx", "n_ctx_per_seq", "n_ctx_seq", "n_batch", "n_ubatch", "flash_attn", "kv_unified", "n_rs_seq",
)  # fmt: skip
_DEVICE: Final = r"(?P<device>[A-Za-z][\w.\[\]:-]{0,60})"
_TYPES: Final = r"type_k = '(?P<type_k>\w{1,16})', type_v = '(?P<type_v>\w{1,16})'"
_KV: Final = r"K \((?P<type_k>\w{1,16})\): +(?P<k_bytes>{X}) MiB, V \((?P<type_v>\w{1,16})\): +(?P<v_bytes>{X}) MiB"
_RS: Final = (
    r"R \(\w{1,16}\): +(?P<r_bytes>{X}) MiB, S \(\w{1,16}\): +(?P<s_bytes>{X}) MiB"
    r"(?:, P \(\w{1,16}\): +(?P<p_bytes>{X}) MiB)?"
)
_SIZE: Final = r"size = +(?P<size_bytes>{X}) MiB \( *(?P<cells>\d{1,12}) cells, +(?P<layers>\d{1,6}) layers, +(?P<seqs>\d{1,6})"
_GPU: Final = r"(?P<gpu>[^|,(\n]{1,80}?)"


def _cut(name: str) -> str:
    return rf"(?P<{name}>-?\d{{1,9}})"


def _mib(starts: str, pattern: str, meaning: str, versions: str = "all") -> Shape:
    return shape(starts, pattern, meaning, versions, unit="MiB")


#: Of a model: its file's metadata, llama.cpp's reading of it, its weights.
MODEL: Final = (
    shape("loaded meta data", r"loaded meta data with \d+ key-value pairs and \d+ tensors from (?P<path>.{1,400}?) \(version",
          "a file is read: a model begins"),
    shape("- kv ", r"- kv +\d{1,4}: +(?P<key>[\w.-]{1,120}) +(?P<type>arr\[\w{1,8},\d{1,9}\]|\w{1,8}) += (?P<value>.{0,400})$",
          "the file's metadata; values beyond 40 characters are cut with ..."),
    *(
        shape(who, who + r"(?P<word>[\w.][\w. ]{0,40}?) += (?P<value>.{1,4000}?) *$",
              "what llama.cpp makes of the metadata; [a, b, ..] where layers differ", when)
        for who, when in (("print_info: ", "2025 on"), ("llm_load_print_meta: ", "to 2024"))
    ),
    _mib(" model buffer size", _DEVICE + r" model buffer size = +(?P<model_buffer_bytes>{X}) MiB", "weights on one device",
         "2025 on"),
    _mib("llm_load_tensors: ", r"llm_load_tensors: +" + _DEVICE + r" buffer size = +(?P<model_buffer_bytes>{X}) MiB",
         "weights on one device", "to 2024"),
    shape("offloaded ", r"offloaded (?P<layers_on_gpu>\d{1,6})/(?P<layers_offloadable>\d{1,6}) layers to GPU",
          "layers on the GPU, the output layer counted as one"),
)  # fmt: skip
#: Of a context: its settings, and its caches, each as buffers that its sum follows.
CONTEXT: Final = (
    shape("constructing llama_context", r"constructing llama_context", "a context begins", "2025 on"),
    *(shape(f"{word} ", rf"(?:^|[\s:])(?P<word>{word}) += (?P<value>[\w.]{{1,20}})$", "a setting") for word in CONTEXT_WORDS),
    shape("kv_size = ", r"kv_size = (?P<kv_size>\d{1,12}), (?:offload = \d, )?" + _TYPES + r", n_layer = (?P<n_layer>\d{1,6})",
          "cells, types and layers of the cache that follows", "2025, to June"),
    shape("creating ", r"creating +(?P<label>\S.{0,40}?) *KV cache(?:, size = (?P<label_cells>\d{1,12}) cells)?",
          "which cache the next sum is of", "May 2025 on"),
    _mib(" KV buffer size", _DEVICE + r" KV buffer size = +(?P<buffer_bytes>{X}) MiB", "one cache on one device"),
    _mib("KV self size", r"KV self size += +(?P<size_bytes>{X}) MiB, " + _KV, "the cache on all devices", "to May 2025"),
    _mib("KV self size", r"KV self size += +(?P<fork_bytes>{X}) MiB, c\^KV \(\w{1,16}\)", "a fork's latent cache"),
    _mib("kv self size", r"kv self size += +(?P<size_bytes>{X}) MB", "the cache; MB are 2^20 bytes", "2023"),
    shape(": n_embd_k_gqa = ", r"layer +\d{1,4}: n_embd_k_gqa = (?P<layer_k>\d{1,9}), n_embd_v_gqa = (?P<layer_v>\d{1,9})",
          "elements of one layer's rows of keys and values; at debug level", "to 2025"),
    _mib(" cells, ", _SIZE + r"(?:/(?P<streams>\d{1,6}))? seqs\), " + _KV,
         "one cache on all devices: cells of a stream, layers in it, sequences / streams (these since July 2025)", "May 2025 on"),
    _mib(" cells, ", _SIZE + r" seqs(?: +(?P<rs_seq>\d{1,6}) rs_seq)?\), " + _RS,
         "recurrent states; the layers are all of the model's, those without a state too", "June 2025 on"),
    _mib(" RS buffer size", _DEVICE + r" RS buffer size = +(?P<rs_buffer_bytes>{X}) MiB", "states on one device", "June 2025 on"),
    _mib(" state buffer size", _DEVICE + r" DSV4 \w+ state buffer size = +(?P<state_buffer_bytes>{X}) MiB",
         "DeepSeek-V4's compressors on one device", "2026"),
    _mib(" ratio = ", r"(?P<name>\w+) ratio = \d+, state = (?P<state_rows>\d{1,9}) x (?P<state_width>\d{1,9}), streams = "
         r"(?P<streams>\d{1,6}), rs_seq = \d+, layers = (?P<layers>\d{1,6}), size = +(?P<size_bytes>{X}) MiB",
         "DeepSeek-V4's compressors on all devices", "2026"),
    shape("using full-size SWA cache", r"using full-size SWA cache", "window layers keep the whole context (--swa-full)",
          "May 2025 on"),
    _mib(" output buffer size", _DEVICE + r" +output buffer size = +(?P<output_bytes>{X}) MiB", "logits: n_vocab x 4 bytes each"),
    _mib(" compute buffer size", _DEVICE + r" compute buffer size = +(?P<compute_bytes>{X}) MiB",
         "scratch of one pass; printed again when graphs are reserved again, the last one counts"),
)  # fmt: skip
#: Dry runs, tables, and what could not be had.
BESIDES: Final = (
    _mib("projected to use ", rf"projected to use {_cut('projected_bytes')} MiB of \w+ memory vs\. {_cut('free_bytes')} MiB",
         "--fit: what the asked context would take", "Dec 2025 on"),
    shape("context size reduced from ", r"context size reduced from (?P<n_ctx_asked>\d{1,12}) to (?P<n_ctx_fitted>\d{1,12})",
          "--fit: the context that fits", "Dec 2025 on"),
    _mib(" vs. target of", rf"- (?P<device>\S.{{0,80}}?) *: +{_cut('total_bytes')} total, +{_cut('used_bytes')} used, "
         rf"+{_cut('device_free_bytes')} free vs\. target of +{_cut('target_bytes')}", "--fit: one device", "Dec 2025 on"),
    _mib("fixed memory usage of ", r"fixed memory usage of (?P<name>\w+) context is (?P<spec_fixed_bytes>{X}) MiB",
         "what a draft context takes whatever its length", "2026"),
    _mib(" + (", rf"- +(?P<device>\S.{{0,80}}?) *\| +{_cut('total_bytes')} = +{_cut('free_bytes')} \+ +\( *"
         rf"{_cut('self_bytes')} = +{_cut('model_bytes')} "
         rf"\+ +{_cut('context_bytes')} \+ +{_cut('compute_bytes')}\) \+ +{_cut('unaccounted_bytes')} *\|",
         "memory breakdown of a device: context is KV and states; a dry run has less than 0 unaccounted", "Sep 2025 on"),
    _mib(" Host ", rf"- +(?P<device>Host) *\| +{_cut('self_bytes')} = +{_cut('model_bytes')} \+ +{_cut('context_bytes')} \+ "
         rf"+{_cut('compute_bytes')} *\|", "memory breakdown of the host", "Sep 2025 on"),
    shape("failed to allocate ", r"failed to allocate (?:\S{1,40} )?buffer of size (?P<refused_bytes>\d{1,18})",
          "what could not be had", unit="B"),
    _mib("failed to allocate ", r"failed to allocate (?P<refused_bytes>{X}) MiB", "what could not be had"),
    _mib("allocating ", r"allocating (?P<refused_bytes>{X}) MiB on device \d+: \w+ failed: out of memory",
         "what could not be had"),
)  # fmt: skip
#: The machine and the program.
PROGRAM: Final = (
    _mib("using device ", rf"using device \S+ \({_GPU}\)(?: \([^)]{{0,80}}\))* - {_cut('device_free_bytes')} MiB free",
         "free memory of a device before loading", "2025 on"),
    _mib(" compute capability", rf"Device \d+: {_GPU}, compute capability [\d.]{{1,5}}(?:, VMM: \w{{2,3}})?"
         rf"(?:, VRAM: {_cut('gpu_total_bytes')} MiB)?", "a CUDA device"),
    _mib(" MiB free)", rf"- \w{{1,20}} +: {_GPU} \({_cut('gpu_total_bytes')} MiB, {_cut('device_free_bytes')} MiB free\)",
         "a device", "2026"),
    shape("recommendedMaxWorkingSetSize", r"recommendedMaxWorkingSetSize += +(?P<gpu_total_bytes>{X}) MB",
          "what Metal may use", unit="MB"),
    shape("found device: ", rf"found device: {_GPU}$", "a Metal device"),
    shape("GPU name: ", rf"GPU name: +{_GPU}$", "a Metal device"),
    shape("ggml_vulkan: ", rf"ggml_vulkan: \d+ = {_GPU} *[|(]", "a Vulkan device", "2024 on"),
    *(
        shape(word, rf"(?:^|\s){word} ?[=:]? *b?(?P<build>\d{{2,6}})[ -]\(?[0-9a-f]{{6,12}}\b", "the build")
        for word in ("build: ", "build = ", "build_info: ", "version: ")
    ),
    shape("new slot", r"new slot,? n_ctx(?:_slot)? = (?P<n_ctx_slot>\d{1,12})", "what each slot of llama-server gets"),
    shape("n_slots = ", r"n_slots = (?P<n_slots>\d{1,6})(?:, n_ctx_slot = (?P<n_ctx_slot>\d{1,12}))?",
          "slots of llama-server, and what each gets", "2025 on"),
    _mib("prompt cache is enabled", rf"prompt cache is enabled, size limit: {_cut('prompt_cache_bytes')} MiB",
         "host memory that fills with use, no part of the cache", "Oct 2025 on"),
)  # fmt: skip
SHAPES: Final[tuple[Shape, ...]] = MODEL + CONTEXT + BESIDES + PROGRAM
#: Groups that are counts; names that end in _bytes are amounts, all others words.
_COUNTS: Final = frozenset({
    "kv_size", "n_layer", "cells", "layers", "seqs", "streams", "rs_seq", "state_rows", "layers_on_gpu", "layers_offloadable",
    "n_ctx_asked", "n_ctx_fitted", "n_slots", "n_ctx_slot", "label_cells", "layer_k", "layer_v",
})  # fmt: skip
#: Starts that other lines have too, so that one which does not fit is no cut line.
COMMON: Final = frozenset({
    "creating ", " + (", " Host ", "allocating ", "offloaded ", " cells, ", "build: ", "build = ", "version: ",
    "llm_load_tensors: ", "GPU name: ", "ggml_vulkan: ", "failed to allocate ", "print_info: ", "llm_load_print_meta: ",
    " compute capability", "- kv ", " MiB free)", ": n_embd_k_gqa = ", "new slot", "found device: ", "using device ",
    "loaded meta data", " ratio = ", *(f"{word} " for word in CONTEXT_WORDS),
})  # fmt: skip


#: Rows whose whole MiB are cut.
_CUT: Final = frozenset(id(row) for row in BESIDES + PROGRAM if row.unit == "MiB")


def figures_of(found: Found) -> dict[str, Figure]:
    """The figures of a line. A whole MiB of a table was cut, so that up to one more may have been meant."""
    cut = id(found.shape) in _CUT
    figures = {name: found.figure(name) for name in found.words if name.endswith("_bytes") or name in _COUNTS}
    return {name: replace(one, slack=float(MIB)) if cut and "." not in one.text else one for name, one in figures.items()}
