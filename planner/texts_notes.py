"""Warnings and notes, by code: what happens, why it matters, and what to do about it."""

from __future__ import annotations

NOTES: dict[str, str] = {
    # Any engine
    "newer": "{engine} {version} is newer than {last}, the last release whose rules are known here; those are used, and"
        " figures differ where a rule has changed since",
    "over_limit": "a context of {context:,} positions is more than the {limit:,} that {model} was made for: {engine} runs it,"
        " but answers get worse beyond the limit; ask for a shorter one, or take a model made for it",
    "fp8_unknown": "whether {gpu} can read an fp8 cache is not known here: the engine may refuse {dtype} when it starts; try"
        " it, or keep the default dtype",
    "low_end": "it fits by the usual figures, but the terms that are estimated can be larger: at their high end {missing}"
        " would be missing; leave more free, or give the figures of a start of your own",
    "cache_given_too_large": "the cache as given is {missing:,} bytes more than is left of the GPU: the engine runs out of"
        " memory when it starts; give less",
    "blocks_withheld": "num_gpu_blocks_override leaves too few blocks for these requests, however much memory there is: raise"
        " it, or leave it out",
    "not_shared": "the shared prefix is counted for every request: {engine} does not keep it once here, or only as long as the"
        " windows and states of it are cached too",
    "seats_states": "{word} is set to {seats:,}: {engine} keeps recurrent states for as many requests, whether they come or"
        " not, so that a higher number takes memory from the cache",
    "seats_more": "{word} is set to {seats:,}, because by default fewer requests run at once and the others wait",
    "servers": "{engine} has no replicas of its own: these are {replicas} servers of {gpus} GPUs each, and a load balancer in"
        " front of them",
    "split_chosen": "{split} is used, because TP {gpus} is not possible: {reason}",
    "no_simulation": "there is no simulation over time: {reason}",
    # vLLM
    "vllm.seats": "vLLM will not start: this model has recurrent states, which need a block for each request that may run at"
        " once, and max_num_seqs {seats:,} is more than the {blocks:,} blocks there are; set max_num_seqs to at most"
        " {blocks:,}",
    "vllm.too_long": "vLLM will not start: max_model_len {length:,} is more than the {limit:,} positions that the model was"
        " made for; lower it, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 and expect worse answers beyond the limit",
    "vllm.override": "num_gpu_blocks_override {asked:,} is more than the {blocks:,} blocks that were measured to fit: vLLM"
        " then takes memory that it does not have; lower it, or leave it out",
    "vllm.general": "{model} has not been compared with vLLM itself here: the figure follows vLLM's general rules; hold it"
        " against the log of a start (Explain page, or planner log) before you rely on it",
    "vllm.kernels": "vLLM plans this cache on {gpu}, but its kernels need compute capability {needed}: it fails as soon as it"
        " runs; take a newer GPU",
    "vllm.between": "vLLM's rules changed between {last} and {first} ({facts}), and {version} lies between: it is taken to"
        " follow the rules since {since}; the log of a start shows whether it does",
    "vllm.backend": "which attention kernel vLLM takes on {gpu} follows from its rules for {rows} and was not seen in a run:"
        " its block size, and so the last digits of the figure, may differ",
    "vllm.no_cache": "this model keeps no KV cache in vLLM: every request is computed in one go",
    # SGLang
    "sglang.nothing_left": "nothing is left for the cache: SGLang does not start; raise mem_fraction_static, or use more GPUs",
    "sglang.too_long": "a request of {context:,} tokens is larger than the whole cache: SGLang starts, and refuses requests of"
        " this length; lower context_length, or give the cache more memory",
    "sglang.page_size": "page_size {asked} is replaced by {used}, because the attention kernel needs it: requests take whole"
        " pages of that size",
    "sglang.total": "max_total_tokens {asked:,} is more than the memory gives: {used:,} are used; it has no effect",
    "sglang.fp8": "{gpu} has no fp8 arithmetic, and several of SGLang's attention kernels refuse an fp8_e4m3 cache there:"
        " fp8_e5m2 or the default dtype is the safe choice",
    "sglang.draft": "layer {layer} carries the rows of the draft model with its own, {bytes:,} bytes",
    # TensorRT-LLM
    "trt.states": "TensorRT-LLM keeps recurrent states for max_batch_size = {slots:,} requests from the start, whether they"
        " come or not; set max_batch_size to what you serve at once, and the cache gets the rest",
    "trt.cut": "max_seq_len {context:,} is more than the {tokens:,} tokens of the whole cache: it is cut down to them, and"
        " longer requests are refused; lower it, or give the cache more memory",
    "trt.no_block": "not one block fits: TensorRT-LLM does not start; use more GPUs, or a higher free_gpu_memory_fraction",
    "trt.sink": "the sink tokens take {tokens:,} tokens of each request's cache, because they fill whole blocks",
    "trt.cross": "the encoder writes {written:,} positions, and the cache for them holds {held:,}: longer inputs overwrite"
        " others; set max_input_len to {written}",
    # TGI
    "tgi.no_block": "not one block fits: TGI does not start; use more shards, or a smaller prefill batch",
    "tgi.never": "a request of {context:,} tokens needs {needed:,} blocks, and {usable:,} are there: TGI starts, and such a"
        " request waits for ever; lower max_total_tokens, or use more shards",
    "tgi.images": "what TGI keeps of images lies outside the pool, and is not counted here",
    # llama.cpp and Ollama
    "llama.rollback": "n_rs_seq has no effect: llama.cpp takes no states of {arch} back, so that leaving it out changes"
        " nothing",
    "ollama.one_slot": "Ollama serves {arch} with one slot, whatever OLLAMA_NUM_PARALLEL says: requests come one after the"
        " other",
    "ollama.context": "Ollama chooses the context by the GPU's memory, which is not said here, and the largest choice is"
        " counted; OLLAMA_CONTEXT_LENGTH sets it",
    # transformers
    "hf.no_effect": "{implementation} has no effect: {reason}",
    "hf.own_cache": "the model has a cache class of its own and ignores cache_implementation",
    "hf.offloaded": "these bytes lie in host memory: the GPU holds the layer in use and the next one",
    # What shares the GPU
    "others.vllm": "gpu_memory_utilization is a share of the whole GPU: what other processes hold comes out of the part that"
        " vLLM leaves alone, and vLLM does not start where that is too small",
    "others.sglang": "mem_fraction_static is a share of what other processes leave free: the cache shrinks with them",
    "others.trt": "free_gpu_memory_fraction is a share of what other processes and the model leave free: the cache shrinks"
        " with them",
    "others.tgi": "TGI takes what other processes leave free when it starts; what they take later makes it run out of memory",
    "others.llama": "llama-server fits its context and layers into what other processes leave free, where it is let (--fit)",
    "others.hf": "transformers takes what it needs of what other processes leave free, and fails where that is too little",
    "lora.vllm": "vLLM captures its CUDA graphs a second time for batches with adapters and runs other kernels; neither is"
        " counted, so leave some room",
    "lora.sglang": "SGLang's own buffers for batches with adapters are not counted, so leave some room; base requests take one"
        " of the slots",
    "lora.trt": "whether TensorRT-LLM's cache of adapters comes out of the KV cache's share is not known; it is taken to,"
        " which is the cautious reading",
    # How an engine stores keys and values
    "rule.vllm.ignored": "this model class builds its attention without the KV dtype: always the model's",
    "rule.vllm.asked": "as asked",
    "rule.vllm.modelopt": "ModelOpt checkpoint: {where}",
    "rule.vllm.class": "the class's default on {generation}",
    "rule.vllm.compressed": "compressed-tensors: kv_cache_scheme of the checkpoint",
    "rule.vllm.own": "the model's dtype: the checkpoint names no KV scheme",
    "rule.sglang": "as SGLang stores them: {dtype}, pages of {page}, {ranks}",
    "rule.rank": "on one rank",
    "rule.ranks": "one of {ranks} ranks",
    "rule.trt": "as TensorRT-LLM stores them: {dtype}, blocks of {block}, tp {ranks}",
    "rule.tgi": "as TGI stores them (documented): blocks of {block} tokens, one of {shards} shards",
    "rule.llama.one": "{cells:,} cells for one sequence",
    "rule.llama.together": "{cells:,} cells for {sequences} sequences together",
    "rule.llama.each": "{cells:,} cells for each of {sequences} sequences",
    "rule.llama.type": "{type} takes {bytes} bytes for {elements} elements",
    "rule.hf.fp8": "as fp8: 1 byte an element and one float32 scale for keys and for values",
    "rule.hf.quantized": "as {backend} {nbits}-bit: groups of {group} with a scale and a zero point in the model's dtype, and"
        " fewer than {residual} newest positions in full precision",
    # The model
    "model.float8": "the weights are {dtype}; the cache's dtype is taken to be bfloat16",
    "model.no_dtype": "the config states no dtype; bfloat16 is assumed",
    "model.encoder": "this is an encoder: it keeps no KV cache",
    "model.assumed": "treated as plain attention at the user's own risk, because {reason}",
    "model.gguf_weights": "weights as {kind} are estimated at {bits:g} bits a weight and 3% on top; the size of your file is"
        " exact, give it where you have one",
    "model.no_size": "the checkpoint's size could not be read ({reason}); weights are {confidence}",
    "model.no_processor": "the processor's files could not be read ({reason}); images and audio are counted by defaults",
    "model.no_quantization": "hf_quant_config.json could not be read ({reason}); it may ask for an fp8 cache",
    # Host memory
    "tier.adapters": "adapters that are not in a slot wait here; each rank keeps whole ones",
    "tier.lmcache": "kept by an LMCache server, whose own setting must give it this size",
    "tier.offloading": "the least recently used blocks go first; they are written as they fill up, windows as long as they"
        " reach",
    "tier.swap": "for preempted beams and sequences, not for later requests",
    "tier.no_swap": "engine V1 does not swap: what it preempts is computed again, so that this memory stays unused",
    "tier.weights": "weights that every step reads over the slot: the time comes on top of each step",
    "tier.hicache": "{policy}; a smaller pool where the host has too little memory free",
    "tier.hicache_fixed": "{policy}; SGLang refuses to start where the host has less free, 10 GiB left out",
    "tier.pools": "windows and states have pools of their own in the same proportion",
    "tier.secondary": "blocks that would be thrown away are copied here, and back when a prompt begins with them",
    "tier.prompts": "prompts of slots that were taken over, the oldest out first; at least one is kept, however large",
    "tier.unlimited": "without a limit: as much as prompts come",
    # Prefill and decode on GPUs of their own
    "apart.no_balance": "no balance: the speed of pipeline stages, or of one of the GPUs, is not estimated",
    "apart.transceiver": "each server's options.yaml needs cache_transceiver_config: {{backend: DEFAULT}}, and a front end"
        " over both",
    "apart.leaves": "a prompt's cache leaves the prefill GPUs only when it is over; more prompts at once need more room there",
    # Times and cost
    "time.link": "how fast {gpu}s exchange data is not known: only the start of each exchange is counted, so that times are"
        " too low",
    "time.float32": "times are those of 16-bit arithmetic; the checkpoint is float32, which many engines convert",
    "time.unverified": "{figure} of {gpu} was not checked against the maker's own sheet, so that times may be off with it",
    "time.over_limit": "{tokens:,} tokens are more than the model's limit of {limit:,}",
    "time.encoder": "the encoder's own time is not counted",
    "time.lengths": "say how long prompts and answers are",
    "time.spread": "how fast layers spread over GPUs are is not estimated",
    "cost.none": "no cost of a token: {reason}",
}  # fmt: skip
