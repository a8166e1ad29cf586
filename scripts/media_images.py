"""Golden cases of families that resize an image to whole patches, or make all images the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from media_case import case
from media_judges import bare, cropped, edges, full, new, patched


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
