"""Golden cases of families that cut an image into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from media_case import case
from media_judges import (
    bare,
    called,
    frames_of_336,
    full,
    lfm,
    merged_newlines,
    new,
    padded_tiles,
    patched,
    replaced,
    replaced_by_grid,
    sliced,
)


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
