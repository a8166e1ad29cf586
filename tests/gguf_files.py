"""GGUF files for tests: real ones written with the gguf package, and damaged ones made byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

HIDDEN, HEADS, KV_HEADS, LAYERS, FF = 256, 4, 2, 3, 512


def write(
    path: Path, vocabulary: int = 0, *, arch: str = "llama", draft: int = 0, endian: Any = gguf.GGUFEndian.LITTLE
) -> Path:
    """A tiny file: q4_K and q8_0 matrices, an f16 embedding, f32 norms, and a tokenizer of `vocabulary` words."""
    writer = gguf.GGUFWriter(path, arch, endianess=endian)
    writer.add_block_count(LAYERS + draft)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_feed_forward_length(FF)
    if draft:
        writer.add_uint32(f"{arch}.nextn_predict_layers", draft)
    if vocabulary:
        writer.add_token_list([f"word{i}" for i in range(vocabulary)])
        writer.add_token_scores([0.0] * vocabulary)
    writer.add_tensor("token_embd.weight", np.zeros((1000, HIDDEN), np.float16))
    for i in range(LAYERS + draft):
        writer.add_tensor(f"blk.{i}.attn_norm.weight", np.ones(HIDDEN, np.float32))
        # Raw blocks: 256 weights of q4_K are 144 bytes, 32 of q8_0 are 34.
        raw = np.zeros((HIDDEN, HIDDEN // 256 * 144), np.uint8)
        writer.add_tensor(f"blk.{i}.attn_q.weight", raw, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
        raw = np.zeros((FF, HIDDEN // 32 * 34), np.uint8)
        writer.add_tensor(f"blk.{i}.ffn_up.weight", raw, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def split(folder: Path) -> list[Path]:
    """A model in two parts, as gguf-split makes them: metadata in the first, tensors in both."""
    names = [folder / f"model-0000{i}-of-00002.gguf" for i in (1, 2)]
    for number, path in enumerate(names):
        writer = gguf.GGUFWriter(path, "llama")
        if number == 0:
            writer.add_block_count(2)
            writer.add_embedding_length(HIDDEN)
            writer.add_head_count(HEADS)
            writer.add_head_count_kv(KV_HEADS)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", 2)
        writer.add_tensor(f"blk.{number}.attn_q.weight", np.zeros((64, 32), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return names


def header(*pairs: bytes, tensors: bytes = b"", tensor_count: int = 0, pair_count: int | None = None, version: int = 3) -> bytes:
    count = len(pairs) if pair_count is None else pair_count
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, count) + b"".join(pairs) + tensors


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


ARCH = pair("general.architecture", 8, text("llama"))
BLOCKS = pair("llama.block_count", 4, struct.pack("<I", 2))
HUGE = struct.pack("<Q", 2**62)
DAMAGED = {
    "empty": b"",
    "not gguf": b"PK\x03\x04" + bytes(100),
    "magic alone": b"GGUF",
    "version 1": header(version=1),
    "version 99": header(version=99),
    "countless pairs": header(pair_count=2**62),
    "countless tensors": header(tensor_count=2**62),
    "fewer pairs than claimed": header(ARCH, pair_count=5),
    "a key without end": header(HUGE),
    "a string without end": header(text("general.name") + struct.pack("<I", 8) + HUGE),
    "an array without end": header(pair("llama.rope", 9, struct.pack("<I", 0) + HUGE)),
    "an array of strings without end": header(pair("tokenizer.ggml.tokens", 9, struct.pack("<I", 8) + HUGE)),
    "an array of arrays": header(pair("a", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 9, 1))),
    "an unknown type": header(pair("a", 77, b"")),
    "a key twice": header(ARCH, ARCH),
    "no architecture": header(BLOCKS),
    "an architecture that is a number": header(pair("general.architecture", 4, struct.pack("<I", 7)), BLOCKS),
    "no dimensions": header(ARCH),
    "a tensor twice": header(ARCH, BLOCKS, tensors=(text("t") + struct.pack("<IQIQ", 1, 8, 0, 0)) * 2, tensor_count=2),
    "a tensor of eighty dimensions": header(ARCH, BLOCKS, tensors=text("t") + struct.pack("<I", 80), tensor_count=1),
    "a tensor too large": header(ARCH, BLOCKS, tensors=text("t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0), tensor_count=1),
    "a tensor of no known type": header(
        ARCH, BLOCKS, pair("llama.embedding_length", 4, struct.pack("<I", 8)),
        tensors=text("t") + struct.pack("<IQIQ", 1, 8, 250, 0), tensor_count=1,
    ),
    "half a block": header(
        ARCH, BLOCKS, pair("llama.embedding_length", 4, struct.pack("<I", 8)),
        tensors=text("t") + struct.pack("<IQIQ", 1, 8, 8, 0), tensor_count=1,
    ),
}  # fmt: skip
