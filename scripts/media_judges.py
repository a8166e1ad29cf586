"""transformers' own processors as judges: made without a network, and asked what an image, a video or an audio becomes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import transformers
from PIL import Image
from tokenizers import Tokenizer, models

MARK = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]|\n|TILE_GLOBAL|TILE_\d+")


def tokenizer() -> Any:
    """A tokenizer that knows no more than the marks that processors ask for by name."""
    inner = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")), unk_token="<unk>", pad_token="<unk>"
    )
    names = {
        "image_token": "<image>",
        "video_token": "<video>",
        "audio_token": "<audio>",
        "boi_token": "<boi>",
        "eoi_token": "<eoi>",
        "boa_token": "<boa>",
        "eoa_token": "<eoa>",
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<ctx>",
        "img_line_break_token": "<line>",
        "image_start_token": "<image_start>",
        "image_end_token": "<image_end>",
        "slice_start_token": "<slice>",
        "slice_end_token": "</slice>",
        "image_id_start_token": "<id>",
        "image_id_end_token": "</id>",
        "image_boundary_token": "<fake>",
        "audio_bos_token": "<abos>",
        "audio_eos_token": "<aeos>",
        "vision_bos_token": "<vbos>",
        "vision_eos_token": "<veos>",
        "image_thumbnail_token": "<thumb>",
        "video_start_token": "<vstart>",
        "video_end_token": "<vend>",
        "video_sep_token": "<vsep>",
    }
    inner.add_tokens([*names.values(), "<|image_pad|>", "<|video_pad|>"], special_tokens=True)
    for name, mark in names.items():
        setattr(inner, name, mark)
        setattr(inner, f"{name}_id", inner.convert_tokens_to_ids(mark))
    return inner


def new(name: str, *given: Any, **settings: Any) -> Any:
    """An object of one of transformers' classes."""
    return getattr(transformers, name)(*given, **settings)


def bare(name: str, **parts: Any) -> Any:
    """A processor without its tokenizer, for a count that asks none."""
    made = getattr(transformers, name).__new__(getattr(transformers, name))
    for key, value in parts.items():
        setattr(made, key, value)
    return made


def full(of: str, image: Any = None, video: Any = None, **settings: Any) -> Any:
    """A processor with its parts."""
    parts = {"image_processor": image, "video_processor": video}
    return new(of, tokenizer=tokenizer(), **{key: part for key, part in parts.items() if part is not None}, **settings)


def edges(shortest: int, longest: int) -> dict[str, int]:
    return {"shortest_edge": shortest, "longest_edge": longest}


def sized(processor: Any, kind: str, sizes: list[Any]) -> list[int]:
    """By the processor's own count for sizes."""
    if kind == "image":
        found = processor._get_num_multimodal_tokens(image_sizes=[(h, w) for w, h in sizes])["num_image_tokens"]
    else:
        found = processor._get_num_multimodal_tokens(video_sizes=[(f, h, w) for f, w, h in sizes])["num_video_tokens"]
    return [int(value) for value in found]


def replaced(processor: Any, kind: str, sizes: list[Any], settings: dict[str, Any] | None = None, **more: Any) -> list[int]:
    """By the marks in the text that the processor puts in an image's place, of a blank image."""
    found = []
    for width, height in sizes:
        blank = np.zeros((height, width, 3), dtype=np.uint8)
        inputs = processor.image_processor(blank, return_tensors="pt", **(settings or {}))
        found.append(len(MARK.findall(processor.replace_image_token(inputs, 0, **more))))
    return found


def patched(name: str, divide: float) -> Callable[..., list[int]]:
    """By the image processor's own count of patches, of which `divide` become one token."""
    return lambda made, kind, sizes: [int(getattr(made.image_processor, name)(h, w, {}) / divide) for w, h in sizes]


def cropped(settings: dict[str, Any]) -> Callable[..., list[int]]:
    """By the crops that Gemma 3's image processor cuts, each of as many tokens as the whole."""

    def count(made: Any, kind: str, sizes: list[Any]) -> list[int]:
        found = []
        for width, height in sizes:
            inputs = made.image_processor(np.zeros((height, width, 3), dtype=np.uint8), return_tensors="pt", **settings)
            found.append(made.image_seq_length * (1 + int(inputs["num_crops"][0])))
        return found

    return count


def frames_of_336(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    """By the text in a video's place, its frames cropped to 336 x 336 as the video processor of the checkpoint does."""
    clips = [np.zeros((frames, 3, 336, 336), dtype=np.uint8) for frames, _, _ in sizes]
    return [len(MARK.findall(made.replace_video_token({"pixel_values_videos": [clip]}, 0))) for clip in clips]


def merged_newlines(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    """By the processor's own count, with a tokenizer for which two newlines are one token, as the checkpoints' own is."""
    made.tokenizer = lambda text, **_: {"input_ids": [1]}
    made._merge_kwargs = lambda **_: {"images_kwargs": {}}
    return sized(made, kind, sizes)


def replaced_by_grid(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    grids = [made.image_processor.get_image_grid_and_crops(h, w)[0] for w, h in sizes]
    return [len(MARK.findall(made.replace_image_token({"image_grids": [grid]}, 0))) for grid in grids]


def called(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    """By the tokens of a prompt that is nothing but the image."""
    return [len(made(text="<image>", images=Image.new("RGB", size))["input_ids"][0]) for size in sizes]


def lfm(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    found = []
    for width, height in sizes:
        inputs = made.image_processor(np.zeros((height, width, 3), dtype=np.uint8), return_row_col_info=True)
        found.append(len(MARK.findall(made.replace_image_token(inputs, 0, use_image_special_tokens=True))))
    return found


def sliced(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    return replaced(made, kind, sizes, image_token_divisor=16)


def padded_tiles(made: Any, kind: str, sizes: list[Any]) -> list[int]:
    """Positions of Mllama's encoder: every tile that the image processor makes, filled or not, of 40 x 40 patches and one."""
    blanks = [np.zeros((height, width, 3), dtype=np.uint8) for width, height in sizes]
    return [made(blank, return_tensors="pt")["pixel_values"].shape[2] * (40 * 40 + 1) for blank in blanks]


def silence(seconds: float) -> Any:
    return np.zeros(round(seconds * 16_000), dtype=np.float32)


def listened(made: Any, kind: str, sizes: list[float]) -> list[int]:
    made.feature_extractor.fetch_audio = lambda audio: audio
    return [
        int(
            made._process_audio([silence(s)], sampling_rate=16_000, return_tensors="np", return_attention_mask=True)[0][
                "num_audio_tokens"
            ][0]
        )
        for s in sizes
    ]


def flat(made: Any, kind: str, sizes: list[float]) -> list[int]:
    made.feature_extractor.fetch_audio = lambda audio: audio
    return [
        int(
            made._process_audio(
                [silence(s)], sampling_rate=16_000, return_tensors="pt", return_attention_mask=True, padding="max_length"
            )[0]["num_audio_tokens"][0]
        )
        for s in sizes
    ]


def recognised(made: Any, kind: str, sizes: list[float]) -> list[int]:
    settings = {
        "sampling_rate": 16_000,
        "padding": True,
        "truncation": False,
        "return_attention_mask": True,
        "return_tensors": "pt",
    }
    return [int(made._process_audio([silence(s)], **settings)[0]["num_audio_tokens"][0]) for s in sizes]


def counted_audio(made: Any, kind: str, sizes: list[float]) -> list[int]:
    made._merge_kwargs = lambda **_: {"images_kwargs": {}, "videos_kwargs": {}, "audio_kwargs": {}}
    made.image_processor = new("Gemma4ImageProcessor")
    return [int(made._get_num_multimodal_tokens(audio_lengths=[round(s * 16_000)])["num_audio_tokens"][0]) for s in sizes]


def chunked(made: Any, kind: str, sizes: list[float]) -> list[int]:
    """Frames by the real feature extractor's mask, tokens by the processor's formula."""
    from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import _get_feat_extract_output_lengths

    found = []
    for seconds in sizes:
        inputs = made.feature_extractor(
            silence(seconds),
            sampling_rate=16_000,
            return_attention_mask=True,
            padding=True,
            truncation=False,
            return_tensors="np",
        )
        found.append(int(_get_feat_extract_output_lengths(inputs["attention_mask"].sum(-1)[0], 50)))
    return found


def embedded(key: str) -> Callable[..., list[int]]:
    return lambda made, kind, sizes: [int(made([silence(s)], sampling_rate=16_000)[key][0]) for s in sizes]


def projected(made: Any, kind: str, sizes: list[float]) -> list[int]:
    return [int(n) for n in made._get_num_audio_features([round(s * 16_000) for s in sizes])]
