"""Makes tests/golden/media.yaml: what the real processors of transformers make of images, videos and audio.

Each family has the config words and the processor settings that its rule reads; the count is that of the processor's own code,
run on sizes or, where it has no count by size, on blank images and silence.

Usage: python scripts/extract_media_golden.py      (needs transformers, torch, torchvision and pillow)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import transformers
from media_judges import (
    bare,
    called,
    chunked,
    counted_audio,
    cropped,
    edges,
    embedded,
    flat,
    frames_of_336,
    full,
    lfm,
    listened,
    merged_newlines,
    new,
    padded_tiles,
    patched,
    projected,
    recognised,
    replaced,
    replaced_by_grid,
    sized,
    sliced,
)

OUT = Path(__file__).resolve().parent.parent / "tests/golden/media.yaml"
HEAD = """# Tokens that images, videos and audio become, as the real processors of transformers {version} computed them.
#
# config: the words that the family's rule reads. processor: settings that the processor was made with, where they are not those
# that its published checkpoints have. rows: [kind, size, tokens]; a size is [width, height], [frames, width, height] or seconds.
# Made by scripts/extract_media_golden.py; no figure is computed by the planner.
"""
#: Wide, tall, square, small, large, odd.
SIZES = [
    (1024, 768),
    (768, 1024),
    (336, 336),
    (640, 480),
    (1920, 1080),
    (1080, 1920),
    (3840, 2160),
    (500, 333),
    (224, 224),
    (100, 90),
    (2000, 300),
    (300, 2000),
    (1344, 1344),
    (4000, 4000),
    (901, 1303),
]
CLIPS = [(8, 640, 480), (16, 1280, 720), (33, 1920, 1080), (64, 320, 240)]
SECONDS = [0.5, 1, 5.3, 10, 29.995, 30, 42.1, 95]


def case(
    name: str,
    config: dict[str, Any],
    made: Any,
    count: Callable[..., list[int]] = sized,
    kind: str = "image",
    processor: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One entry of the golden file. processor: the settings as a preprocessor_config.json has them."""
    rows = []
    for size in {"image": SIZES, "video": CLIPS, "audio": SECONDS}[kind]:
        try:
            rows.append([kind, list(size) if isinstance(size, tuple) else size, count(made, kind, [size])[0]])
        except ValueError as error:  # a shape that the processor refuses
            print(name, size, error)
    source = f"transformers {transformers.__version__}, {type(made).__name__}"
    return {"name": name, "config": config, "processor": processor or {}, "source": source, "rows": rows}


def resized() -> Iterator[dict[str, Any]]:
    """Families that resize an image to whole patches."""
    vision = {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}

    def qwen2(
        size: dict[str, int],
        of: str = "Qwen2_5_VLProcessor",
        patch: int = 14,
        video: str = "Qwen2VLVideoProcessor",
        clip: dict[str, int] | None = None,
    ) -> Any:
        return full(
            of, new("Qwen2VLImageProcessor", size=size, patch_size=patch), new(video, size=clip or size, patch_size=patch)
        )

    for name in ("qwen2_vl", "qwen2_5_vl", "exaone4_5"):
        config = {"model_type": name, "vision_config": vision}
        yield case(name, config, qwen2(edges(3136, 12845056)))
        yield case(name, config, qwen2(edges(3136, 12845056)), kind="video")
    yield case(
        "qwen2_vl, small",
        {"model_type": "qwen2_vl"},
        qwen2(edges(200704, 1003520)),
        processor={"min_pixels": 200704, "max_pixels": 1003520},
    )
    deep = {"patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "deepstack_visual_indexes": [5, 11, 17]}
    for name in ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
        config = {"model_type": name, "vision_config": deep}
        made = qwen2(edges(65536, 16777216), "Qwen3VLProcessor", 16, "Qwen3VLVideoProcessor", edges(4096, 25165824))
        yield case(name, config, made)
        yield case(name, config, made, kind="video")
    made = qwen2(edges(65536, 16777216), "Qwen3VLProcessor", 16, "Qwen3VLVideoProcessor", edges(131072, 786432))
    yield case(
        "qwen3_vl, small video",
        {"model_type": "qwen3_vl", "vision_config": deep},
        made,
        kind="video",
        processor={"video_processor": {"size": edges(131072, 786432)}},
    )
    glm = full("Glm4vProcessor", new("Glm4vImageProcessor"), new("Glm4vVideoProcessor"))
    for name in ("glm4v", "glm4v_moe"):
        yield case(name, {"model_type": name, "vision_config": vision}, glm)
        yield case(name, {"model_type": name, "vision_config": vision}, glm, kind="video")
    glm = full("Glm4vProcessor", new("Glm4vImageProcessor", size=edges(12544, 9633792)), new("Glm4vVideoProcessor"))
    yield case("GLM-4.1V-9B-Thinking", {"model_type": "glm4v"}, glm, processor={"size": edges(12544, 9633792)})
    minimax = full("MiniMaxM3VLProcessor", new("MiniMaxM3VLImageProcessor"), new("MiniMaxM3VLVideoProcessor"))
    yield case("minimax_m3_vl", {"model_type": "minimax_m3_vl", "vision_config": {"patch_size": 14}}, minimax)
    yield case("minimax_m3_vl", {"model_type": "minimax_m3_vl"}, minimax, kind="video")
    ernie = full("Ernie4_5_VLMoeProcessor", new("Ernie4_5_VLMoeImageProcessor"), new("Ernie4_5_VLMoeVideoProcessor"))
    yield case("ernie4_5_vl_moe", {"model_type": "ernie4_5_vl_moe"}, ernie)
    llama3 = full("VideoLlama3Processor", new("VideoLlama3ImageProcessor"), new("VideoLlama3VideoProcessor"))
    yield case("video_llama_3", {"model_type": "video_llama_3"}, llama3)
    paddle = full("PaddleOCRVLProcessor", new("PaddleOCRVLImageProcessor"))
    yield case("paddleocr_vl", {"model_type": "paddleocr_vl"}, paddle, patched("get_number_of_image_patches", 4))
    config = {"model_type": "muse_glimmer", "vision_config": {"patch_size": 14, "merge_size": 2}}
    yield case("muse_glimmer", config, bare("MuseGlimmerProcessor", image_processor=new("MuseGlimmerImageProcessor")))
    kimi = full("Kimi_K25Processor", new("Kimi_K25ImageProcessor"), new("Kimi_K25VideoProcessor"))
    config = {"model_type": "kimi_k25", "vision_config": {"patch_size": 14, "merge_kernel_size": [2, 2]}}
    yield case("kimi_k25", config, kimi)
    yield case("kimi_k25", config, kimi, kind="video")
    first = full("Kimi_K25Processor", new("Kimi_K25ImageProcessor", max_patches=4096), new("Kimi_K25VideoProcessor"))
    yield case("kimi_vl", {"model_type": "kimi_vl"}, first, processor={"in_token_limit": 4096})


def even() -> Iterator[dict[str, Any]]:
    """Families whose images all become the same, and those that fill a number of tokens."""
    clip = {"image_size": 336, "patch_size": 14, "model_type": "clip_vision_model"}
    for strategy in ("default", "full"):
        made = full(
            "LlavaProcessor",
            new("CLIPImageProcessor", crop_size={"height": 336, "width": 336}),
            patch_size=14,
            num_additional_image_tokens=1,
            vision_feature_select_strategy=strategy,
        )
        yield case(
            f"llava, {strategy}", {"model_type": "llava", "vision_feature_select_strategy": strategy, "vision_config": clip}, made
        )
    for model_type, edge, patch, merge in (("llava", 1024, 16, 1), ("mistral3", 1540, 14, 2)):
        vision = {"model_type": "pixtral", "image_size": edge, "patch_size": patch}
        image = new("PixtralImageProcessor", size={"longest_edge": edge}, patch_size={"height": patch, "width": patch})
        made = full("PixtralProcessor", image, patch_size=patch, spatial_merge_size=merge)
        yield case(
            f"{model_type}, pixtral", {"model_type": model_type, "spatial_merge_size": merge, "vision_config": vision}, made
        )
    gemma = full("Gemma3Processor", new("Gemma3ImageProcessor"))
    yield case("gemma3", {"model_type": "gemma3", "mm_tokens_per_image": 256}, gemma)
    scan = {
        "do_pan_and_scan": True,
        "pan_and_scan_min_crop_size": 256,
        "pan_and_scan_max_num_crops": 4,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    }
    yield case("gemma3, pan and scan", {"model_type": "gemma3"}, gemma, cropped(scan), processor=scan)
    gemma3n = bare("Gemma3nProcessor", image_seq_length=256)
    yield case("gemma3n", {"model_type": "gemma3n", "vision_soft_tokens_per_image": 256}, gemma3n)
    config = {
        "model_type": "gemma4",
        "vision_soft_tokens_per_image": 280,
        "vision_config": {"patch_size": 16, "pooling_kernel_size": 3},
    }
    for most in (280, 70, 1120):
        gemma4 = full(
            "Gemma4Processor",
            new("Gemma4ImageProcessor", max_soft_tokens=most),
            new("Gemma4VideoProcessor"),
            feature_extractor=new("Gemma4AudioFeatureExtractor"),
        )
        yield case(f"gemma4, {most}", config, gemma4, processor={"max_soft_tokens": most} if most != 280 else None)
    yield case("gemma4", config, gemma4, kind="video")
    for edge, tokens in ((224, 256), (448, 1024), (896, 4096)):
        config = {"model_type": "paligemma", "vision_config": {"image_size": edge, "patch_size": 14}}
        yield case(f"paligemma {edge}", config, bare("PaliGemmaProcessor", image_seq_length=tokens))
    yield case("chameleon", {"model_type": "chameleon"}, bare("ChameleonProcessor", image_seq_length=1024))


def tiled() -> Iterator[dict[str, Any]]:
    """Families that cut an image into tiles."""
    clip = {"image_size": 336, "patch_size": 14, "model_type": "clip_vision_model"}
    pins = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
    for of, model_type in (("LlavaNextProcessor", "llava_next"), ("LlavaNextVideoProcessor", "llava_next_video")):
        image = new("LlavaNextImageProcessor", image_grid_pinpoints=pins, size={"shortest_edge": 336})
        video = new("LlavaNextVideoVideoProcessor") if "Video" in of else None
        made = full(of, image, video, patch_size=14, num_additional_image_tokens=1, vision_feature_select_strategy="default")
        config = {
            "model_type": model_type,
            "image_grid_pinpoints": pins,
            "vision_feature_select_strategy": "default",
            "vision_config": clip,
        }
        yield case(model_type, config, made)
        if video is not None:
            yield case(model_type, config, made, frames_of_336, "video")
    sides = [384, 768, 1152, 1536, 1920, 2304]
    pins = [[high, wide] for high in sides for wide in sides]
    siglip = {"image_size": 384, "patch_size": 14, "model_type": "siglip_vision_model"}
    config = {
        "model_type": "llava_onevision",
        "image_grid_pinpoints": pins,
        "vision_aspect_ratio": "anyres_max_9",
        "vision_feature_select_strategy": "full",
        "vision_config": siglip,
    }
    made = full(
        "LlavaOnevisionProcessor",
        new("LlavaOnevisionImageProcessor", image_grid_pinpoints=pins, size={"height": 384, "width": 384}),
        new("LlavaOnevisionVideoProcessor"),
        num_image_tokens=729,
        vision_feature_select_strategy="full",
    )
    yield case("llava_onevision", config, made)
    yield case("llava_onevision", config, made, kind="video")
    internvl = full(
        "InternVLProcessor",
        new("GotOcr2ImageProcessor", size={"height": 448, "width": 448}, max_patches=12),
        new("InternVLVideoProcessor"),
        image_seq_length=256,
    )
    vision = {"image_size": [448, 448], "patch_size": [14, 14]}
    yield case("internvl", {"model_type": "internvl", "downsample_ratio": 0.5, "vision_config": vision}, internvl)
    chat = {
        "model_type": "internvl_chat",
        "downsample_ratio": 0.5,
        "force_image_size": 448,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": 12,
        "use_thumbnail": True,
        "dynamic_image_size": True,
        "vision_config": {"image_size": 448, "patch_size": 14},
    }
    yield case("internvl_chat", chat, internvl)
    few = full(
        "InternVLProcessor",
        new("GotOcr2ImageProcessor", size={"height": 448, "width": 448}, max_patches=6),
        new("InternVLVideoProcessor"),
        image_seq_length=256,
    )
    yield case("internvl_chat, 6 tiles", {**chat, "max_dynamic_patch": 6}, few)
    aya = full(
        "AyaVisionProcessor",
        new("GotOcr2ImageProcessor", size={"height": 364, "width": 364}),
        patch_size=14,
        img_size=364,
        downsample_factor=2,
    )
    yield case("aya_vision", {"model_type": "aya_vision", "vision_config": {"image_size": 364, "patch_size": 14}}, aya)
    cohere = full("Cohere2VisionProcessor", new("Cohere2VisionImageProcessor"))
    yield case("cohere2_vision", {"model_type": "cohere2_vision", "vision_config": {"image_size": 512, "patch_size": 16}}, cohere)
    perception = full(
        "PerceptionLMProcessor",
        new("PerceptionLMImageProcessor"),
        new("PerceptionLMVideoProcessor"),
        patch_size=14,
        pooling_ratio=2,
    )
    yield case("perception_lm", {"model_type": "perception_lm", "projector_pooling_size": 2}, perception)
    idefics3 = full("Idefics3Processor", new("Idefics3ImageProcessor"), image_seq_len=169)
    yield case(
        "idefics3",
        {"model_type": "idefics3", "scale_factor": 2, "vision_config": {"image_size": 364, "patch_size": 14}},
        idefics3,
        merged_newlines,
    )
    for tile, patch, scale, tokens in ((384, 14, 3, 81), (512, 16, 4, 64)):
        image = new("Idefics3ImageProcessor", size={"longest_edge": 4 * tile}, max_image_size={"longest_edge": tile})
        config = {"model_type": "smolvlm", "scale_factor": scale, "vision_config": {"image_size": tile, "patch_size": patch}}
        yield case(f"smolvlm {tile}", config, full("Idefics3Processor", image, image_seq_len=tokens), merged_newlines)
    molmo = full("Molmo2Processor", new("Molmo2ImageProcessor"), new("Molmo2VideoProcessor"))
    yield case("molmo2", {"model_type": "molmo2"}, molmo, replaced_by_grid)
    llama4 = full("Llama4Processor", new("Llama4ImageProcessor", max_patches=16))
    config = {"model_type": "llama4", "vision_config": {"image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5}}
    yield case("llama4", config, llama4, replaced)
    ovis = full("Ovis2Processor", new("Ovis2ImageProcessor", crop_to_patches=True, max_patches=12), image_seq_length=256)
    yield case("ovis2", {"model_type": "ovis2"}, ovis, replaced)
    phi4 = full(
        "Phi4MultimodalProcessor",
        new("Phi4MultimodalImageProcessor", dynamic_hd=36),
        audio_processor=new("Phi4MultimodalFeatureExtractor"),
    )
    yield case("phi4_multimodal", {"model_type": "phi4_multimodal"}, phi4, replaced)
    lfm2 = full("Lfm2VlProcessor", new("Lfm2VlImageProcessor"))
    yield case("lfm2_vl", {"model_type": "lfm2_vl"}, lfm2, lfm)
    minicpm = full("MiniCPMV4_6Processor", new("MiniCPMV4_6ImageProcessor"), new("MiniCPMV4_6VideoProcessor"))
    yield case("minicpmv4_6", {"model_type": "minicpmv4_6", "patch_size": 14}, minicpm, sliced)
    got = full("GotOcr2Processor", new("GotOcr2ImageProcessor"))
    yield case("got_ocr2", {"model_type": "got_ocr2"}, got, patched("get_number_of_image_patches", 1 / 256))
    got = full("GotOcr2Processor", new("GotOcr2ImageProcessor", crop_to_patches=True))
    yield case(
        "got_ocr2, cut",
        {"model_type": "got_ocr2"},
        got,
        patched("get_number_of_image_patches", 1 / 256),
        processor={"crop_to_patches": True},
    )
    aria = bare("AriaProcessor", image_processor=new("AriaImageProcessor"), size_conversion={490: 128, 980: 256})
    aria._merge_kwargs = lambda **_: {"images_kwargs": {}}
    yield case("aria", {"model_type": "aria"}, aria)
    for splits in (True, False):
        image = new("Idefics2ImageProcessor", do_image_splitting=splits)
        idefics2 = full("Idefics2Processor", image, image_seq_len=64)
        yield case(
            f"idefics2, {splits}",
            {"model_type": "idefics2", "perceiver_config": {"resampler_n_latents": 64}},
            idefics2,
            called,
            processor={"do_image_splitting": splits},
        )
    yield case("janus", {"model_type": "janus"}, full("JanusProcessor", new("JanusImageProcessor")), replaced)
    yield case(
        "deepseek_vl", {"model_type": "deepseek_vl"}, full("DeepseekVLProcessor", new("DeepseekVLImageProcessor")), replaced
    )
    step3 = full("Step3p7Processor", new("Step3p7ImageProcessor"))
    yield case("step3p7", {"model_type": "step3p7"}, step3, replaced)
    ocr = full("DeepseekOcr2Processor", new("DeepseekOcr2ImageProcessor"))
    yield case("deepseek_ocr2", {"model_type": "deepseek_ocr2"}, ocr, replaced)
    mllama = new("MllamaImageProcessor", size={"height": 560, "width": 560}, max_image_tiles=4)
    config = {"model_type": "mllama", "vision_config": {"image_size": 560, "patch_size": 14, "max_num_tiles": 4}}
    yield case("mllama", config, mllama, padded_tiles)


def heard() -> Iterator[dict[str, Any]]:
    """Families that listen."""
    whisper = new("WhisperFeatureExtractor", feature_size=128)
    audio = bare("Qwen2AudioProcessor", feature_extractor=whisper, audio_token="<audio>")
    yield case("qwen2_audio", {"model_type": "qwen2_audio"}, audio, listened, "audio")
    omni = bare(
        "Qwen2_5OmniProcessor",
        feature_extractor=new("WhisperFeatureExtractor", feature_size=128, chunk_length=300),
        audio_token="<audio>",
    )
    yield case("qwen2_5_omni", {"model_type": "qwen2_5_omni"}, omni, listened, "audio")
    gemma4 = full(
        "Gemma4Processor",
        new("Gemma4ImageProcessor"),
        new("Gemma4VideoProcessor"),
        feature_extractor=new("Gemma4AudioFeatureExtractor"),
    )
    yield case("gemma4", {"model_type": "gemma4"}, gemma4, counted_audio, "audio")
    gemma3n = bare("Gemma3nProcessor", audio_seq_length=188)
    yield case("gemma3n", {"model_type": "gemma3n", "audio_soft_tokens_per_image": 188}, gemma3n, counted_audio, "audio")
    omni3 = bare(
        "Qwen3OmniMoeProcessor", feature_extractor=new("WhisperFeatureExtractor", feature_size=128, chunk_length=300), n_window=50
    )
    yield case("qwen3_omni_moe", {"model_type": "qwen3_omni_moe"}, omni3, chunked, "audio")
    phi4 = new("Phi4MultimodalFeatureExtractor")
    yield case("phi4_multimodal", {"model_type": "phi4_multimodal"}, phi4, embedded("audio_embed_sizes"), "audio")
    granite = bare(
        "GraniteSpeechFeatureExtractor", melspec_kwargs={"hop_length": 160}, projector_window_size=15, projector_downsample_rate=5
    )
    yield case(
        "granite_speech", {"model_type": "granite_speech", "window_size": 15, "downsample_rate": 5}, granite, projected, "audio"
    )
    flamingo = bare("AudioFlamingo3Processor", feature_extractor=whisper, max_audio_len=600, audio_token="<audio>")
    yield case("audioflamingo3", {"model_type": "audioflamingo3"}, flamingo, flat, "audio")
    asr = bare("Qwen3ASRProcessor", feature_extractor=new("Qwen3ASRFeatureExtractor"), audio_token="<audio>")
    yield case("qwen3_asr", {"model_type": "qwen3_asr"}, asr, recognised, "audio")
    glm = bare("GlmAsrProcessor", feature_extractor=whisper, max_audio_len=655, audio_token="<audio>")
    yield case("glmasr", {"model_type": "glmasr"}, glm, flat, "audio")


def main() -> None:
    cases = [entry for group in (resized, even, tiled, heard) for entry in group()]
    lines = [HEAD.format(version=transformers.__version__), "cases:"]
    for entry in cases:
        lines.append(f"- name: {json.dumps(entry['name'])}")
        lines += [f"  {key}: {json.dumps(entry[key])}" for key in ("config", "processor", "source")]
        lines += ["  rows:", *(f"  - {json.dumps(row)}" for row in entry["rows"])]
    OUT.write_text("\n".join(lines) + "\n", "utf-8")
    print(len(cases), "cases,", sum(len(entry["rows"]) for entry in cases), "rows")


if __name__ == "__main__":
    main()
