"""PyTorch's allocator in numbers, by hand from the constants of its header, and what they make of a cache."""

from __future__ import annotations

import pytest

import model_configs
from planner.engines import transformers
from planner.units import MIB
from validation import allocator
from validation.predict import Case, bookkeeping, growth, largest, predict

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512,
         "intermediate_size": 1024, "vocab_size": 1000, "torch_dtype": "bfloat16"}  # fmt: skip
SLIDING = {**LLAMA, "model_type": "mistral", "sliding_window": 16}


@pytest.mark.parametrize(("size", "block"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB)])
def test_requests_are_rounded_to_512_bytes(size: int, block: int) -> None:
    assert allocator.block_bytes(size) == block


def test_a_large_block_may_keep_a_rest_unless_segments_expand() -> None:
    assert allocator.largest_block_bytes(MIB) == MIB
    assert allocator.largest_block_bytes(MIB + 1) == MIB + 512 + MIB
    assert allocator.largest_block_bytes(MIB + 1, expandable=True) == MIB + 512


@pytest.mark.parametrize(
    ("size", "segment"), [(8, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB, 10 * MIB), (10 * MIB + 1, 12 * MIB)]
)
def test_segments(size: int, segment: int) -> None:
    """kSmallBuffer 2 MiB up to 1 MiB, kLargeBuffer 20 MiB below 10 MiB, then rounded up to 2 MiB."""
    assert allocator.segment_bytes(size) == segment


def test_blocks_fill_segments_as_far_as_they_fit() -> None:
    """Three blocks of 6 MiB fit a segment of 20, a fourth needs another; two of 1 MiB share 2; 11 MiB has 12 of its own."""
    assert allocator.reserved([6 * MIB] * 3) == 20 * MIB
    assert allocator.reserved([6 * MIB] * 4) == 40 * MIB
    assert allocator.reserved([MIB, MIB, 11 * MIB]) == 14 * MIB


def test_allocated_bytes_are_blocks_of_each_tensor_and_the_token_ids() -> None:
    """2 layers x K and V of 2 heads x 10 x 64 x 2 bytes = 2,560 (5 blocks); 11 ids of 8 bytes are one block."""
    model = model_configs.read(LLAMA)
    found = predict(model, transformers.Settings(dtype="bfloat16"), Case(1, 10, 4))
    assert found.tensor_bytes == 4 * 2560
    assert found.allocated_low_bytes == found.allocated_high_bytes == 4 * 2560 + 512
    odd = predict(model, transformers.Settings(dtype="bfloat16"), Case(1, 11, 4))
    assert odd.allocated_low_bytes == 4 * 3072 + 512


def test_a_window_and_a_static_layer_each_keep_a_counter() -> None:
    plain, sliding = model_configs.read(LLAMA), model_configs.read(SLIDING)
    static = transformers.Settings(cache_implementation="static")
    assert bookkeeping(plain, transformers.Settings(), Case(3, 10, 4)) == [3 * 11 * 8]
    assert bookkeeping(sliding, transformers.Settings(), Case(3, 10, 4)) == [3 * 11 * 8, 8, 8]
    assert bookkeeping(plain, static, Case(3, 10, 4)) == [3 * 11 * 8, 8, 8]


def test_what_grows_is_copied() -> None:
    """A tensor of a full layer: 2 x 100 x 64 x 2 = 25,600; both of a window of 16: 2 x 2 x 16 x 64 x 2 = 8,192."""
    settings, case = transformers.Settings(), Case(1, 100, 4)
    assert growth(model_configs.read(LLAMA), settings, case) == [25_600] * 2
    assert growth(model_configs.read(SLIDING), settings, case) == [8_192] * 2
    assert growth(model_configs.read(LLAMA), transformers.Settings(cache_implementation="static"), case) == [0] * 2


def test_a_window_keeps_the_whole_prompt_until_the_first_step() -> None:
    """Prompt 97: 2 layers x K and V x 2 heads x 97 x 64 x 2 bytes held; in chunks of 32 at most 15 + 32 positions."""
    model, settings = model_configs.read(SLIDING), transformers.Settings()
    whole = predict(model, settings, Case(1, 100, 4))
    chunked = predict(model, settings, Case(1, 100, 4, chunk=32))
    row = 2 * 2 * 2 * 64 * 2
    assert whole.decode_peak_bytes - chunked.decode_peak_bytes >= (97 - 47) * row - 4 * 512


def test_the_largest_that_fits_is_the_last_whose_peaks_do() -> None:
    model, settings, case = model_configs.read(LLAMA), transformers.Settings(), Case(1, 10, 4, chunk=64)
    limit = 8 * MIB
    found = largest(model, settings, case, limit, "tokens")
    peaks = [predict(model, settings, Case(1, tokens, 4, chunk=64)) for tokens in (found, found + 1)]
    assert max(peaks[0].prefill_peak_bytes, peaks[0].decode_peak_bytes) <= limit
    assert max(peaks[1].prefill_peak_bytes, peaks[1].decode_peak_bytes) > limit
    assert largest(model, settings, case, 1000, "batch") == 0
