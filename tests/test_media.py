"""Images, video and audio as the tokens they become: the real processors' counts, published figures, and laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import model_configs
from model_configs import Video, media_tokens
from model_configs.media_rules import AUDIO, IMAGES, media_of
from model_configs.media_table import KINDS, table
from planner.budget import budget
from planner.cli import main
from planner.engines import engine
from planner.errors import ConfigError, InputError, UnsupportedArchitecture

GOLDEN = yaml.load(
    (Path(__file__).parent / "golden/media.yaml").read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)["cases"]
QWEN = {"model_type": "qwen2_5_vl", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}}


def count(config: dict[str, Any], kind: str, size: Any, processor: dict[str, Any] | None = None) -> int:
    """Tokens of one item, or the positions of an encoder that decoder layers attend to."""
    word = {"image": "images", "video": "videos", "audio": "audio_seconds"}[kind]
    found = media_tokens(config, **{word: [size]}, processor=processor or None)
    return found.encoder_positions or found.tokens


@pytest.mark.parametrize("case", GOLDEN, ids=[f"{case['name']}-{case['rows'][0][0]}" for case in GOLDEN])
def test_every_rule_equals_the_real_processor(case: dict[str, Any]) -> None:
    """Source: tests/golden/media.yaml, transformers' own processors run on these sizes."""
    for kind, size, tokens in case["rows"]:
        size = tuple(size) if isinstance(size, list) else size
        assert count(case["config"], kind, size, case["processor"]) == tokens, (kind, size)


@pytest.mark.parametrize(
    ("config", "size", "tokens"),
    [
        # "image_feature_size" 1921 of vLLM's example for Phi-3-vision: (4 x 3 + 1) x 144 + 1 + (3 + 1) x 12
        ({"model_type": "phi3_v"}, (1344, 1008), 1921),
        # DeepSeek-VL2, arXiv 2412.10302, section 3.1: 210 + 1 + m x 14 x (n x 14 + 1)
        ({"model_type": "deepseek_vl_v2"}, (384, 384), 421),
        ({"model_type": "deepseek_vl_v2"}, (768, 1152), 210 + 1 + 3 * 14 * (2 * 14 + 1)),
        # MiniCPM-V 2.6's card: 640 tokens for 1.8 million pixels; 2 marks a slice and for the whole, 2 newlines between 3 rows
        ({"model_type": "minicpmv", "query_num": 64}, (1344, 1344), 640 + 2 * 10 + 2),
        # Qwen-VL, arXiv 2308.12966: the adapter's 256 queries
        ({"model_type": "qwen", "visual": {"image_size": 448}}, (800, 600), 256),
        # glm-4v-9b: 1120 // 14 = 80 patches a side, halved by a convolution of stride 2
        ({"model_type": "chatglm", "vision_config": {"image_size": 1120, "patch_size": 14}}, (10, 10), 40 * 40),
        # InternVL2: 12 tiles and a thumbnail of 256, and a mark at each end
        ({"model_type": "internvl_chat"}, (448 * 4, 448 * 3), 13 * 256 + 2),
        # LLaVA-1.5: (336 / 14)^2
        ({"model_type": "llava", "mm_vision_tower": "openai/clip-vit-large-patch14-336"}, (1024, 768), 576),
    ],
)
def test_published_counts(config: dict[str, Any], size: tuple[int, int], tokens: int) -> None:
    assert count(config, "image", size) == tokens


def test_what_an_encoder_keeps() -> None:
    """Whisper: 3,000 mel frames are 1,500 positions, and a longer audio is decoded window by window.

    Mllama: 4 tiles x (16 + 1) of a tower of 56 / 14, measured as the length of a real cross-attention cache (transformers 5.24).
    """
    whisper = {"model_type": "whisper", "max_source_positions": 1500}
    assert [media_tokens(whisper, audio_seconds=[s]).encoder_positions for s in (1, 30, 95)] == [1500, 1500, 1500]
    assert media_tokens(whisper, audio_seconds=[30]).prompt_tokens == 0
    tower = {"image_size": 56, "patch_size": 14, "max_num_tiles": 4}
    found = media_tokens({"model_type": "mllama", "vision_config": tower}, [(40, 40)])
    assert (found.encoder_positions, found.prompt_tokens) == (68, 1)


def test_audio_of_families_without_a_judge() -> None:
    """Voxtral, arXiv 2507.13264: 375 tokens for each padded window of 30 s. Ultravox: 3,000 frames / (2 x 8), rounded up."""
    assert [count({"model_type": "voxtral"}, "audio", s) for s in (3, 30, 31)] == [375, 375, 750]
    assert count({"model_type": "ultravox", "stack_factor": 8}, "audio", 30) == 188


def test_parts_say_the_rule_and_who_says_so() -> None:
    found = media_tokens(QWEN, [(1024, 768, 3), (336, 336)], [(16, 1280, 720)])
    assert [(part.kind, part.count, part.tokens) for part in found.parts] == [
        ("image", 3, 999),
        ("image", 1, 144),
        ("video", 1, 9568),
    ]
    assert found.parts[0].formula == "1024 x 768 becomes 1036 x 756 pixels: 37 x 27 = 999"
    assert found.tokens == 3 * 999 + 144 + 9568
    assert found.around == 2 * 5  # <|vision_start|> and <|vision_end|> of the chat template
    assert found.prompt_tokens == found.tokens + found.around
    assert "Qwen2VLProcessor" in found.source


def test_a_video_of_seconds_is_sampled_by_the_family() -> None:
    """Qwen3-VL samples 2 frames a second, 768 at most; Gemma 4 takes 32 whatever the length: 32 x 66 of 1280 x 720."""
    qwen3 = {"model_type": "qwen3_vl"}
    assert media_tokens(qwen3, videos=[Video(1280, 720, seconds=10)]).tokens == count(qwen3, "video", (20, 1280, 720))
    assert media_tokens(qwen3, videos=[Video(1280, 720, seconds=3600)]).tokens == count(qwen3, "video", (768, 1280, 720))
    assert media_tokens(qwen3, videos=[Video(1280, 720, seconds=10, fps=4)]).tokens == count(qwen3, "video", (40, 1280, 720))
    assert media_tokens({"model_type": "gemma4"}, videos=[Video(1280, 720, seconds=7)]).tokens == 32 * 66


def test_the_checkpoints_own_files_win(tmp_path: Path) -> None:
    """With max_pixels of 1,003,520 an image of 1920 x 1080 is 1302 x 728 pixels: 47 x 26 = 1,222 (a golden row, too)."""
    (tmp_path / "config.json").write_text(json.dumps({**QWEN, "num_hidden_layers": 2}), "utf-8")
    assert media_tokens(str(tmp_path), [(1920, 1080)]).tokens == 2691
    small = {"min_pixels": 200704, "max_pixels": 1003520}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(small), "utf-8")
    model = model_configs.read(str(tmp_path))
    assert media_tokens(model, [(1920, 1080)]).tokens == media_tokens(QWEN, [(1920, 1080)], processor=small).tokens == 1222
    assert model.media is not None
    assert model.media.largest["image"] == 1003520 // 28**2
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {"max_pixels": 12845056}}), "utf-8")
    assert media_tokens(str(tmp_path), [(1920, 1080)]).tokens == 2691


def test_an_unknown_family_is_refused_and_a_count_is_asked_for() -> None:
    with pytest.raises(UnsupportedArchitecture, match="image_tokens") as refused:
        media_tokens({"model_type": "llama"}, [(100, 100)])
    assert refused.value.fields["offers"] == "image_tokens"
    assert model_configs.read({"model_type": "llama"}).media is None


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ({"audio_seconds": [1]}, "audio"),
        ({"images": [(0, 5)]}, "image"),
        ({"images": [(5,)]}, "image"),
        ({"images": [(5.0, 5)]}, "image"),
        ({"images": [(5, 5, 0)]}, "image"),
        ({"videos": [(1, 2)]}, "video"),
        ({"videos": [Video(5, 5)]}, "video"),
        ({"videos": [Video(5, 5, frames=0)]}, "video"),
        ({"images": [(6000, 20)]}, "image"),
    ],
)
def test_what_cannot_be_is_one_clear_error(items: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        media_tokens(QWEN, **items)
    assert error.value.fields["field"] == field


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llava_next", "vision_config": {"patch_size": 400}},
        {"model_type": "llava_next", "image_grid_pinpoints": "no"},
        {"model_type": "internvl_chat", "max_dynamic_patch": 10**6},
        {"model_type": "qwen2_vl", "vision_config": {"patch_size": "x"}},
        {"model_type": "phi3_v", "img_processor": {"num_img_tokens": 0}},
        {"model_type": "llama4", "vision_config": {"patch_size": -1}},
    ],
)
def test_numbers_that_cannot_be_stop_the_count_and_not_the_cache(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        media_tokens(config, [(1000, 700)])
    if config["model_type"] in ("llava_next", "qwen2_vl", "llama4"):
        model = model_configs.read({**config, "text_config": {}} if config["model_type"] != "qwen2_vl" else config)
        assert model.media is None
        assert model.layers


SEEN = {json.dumps(case["config"]): case for case in GOLDEN if case["rows"][0][0] == "image" and not case["processor"]}


@given(st.sampled_from(sorted(SEEN)), st.integers(28, 5000), st.integers(28, 5000))
def test_no_image_is_larger_than_the_largest(text: str, width: int, height: int) -> None:
    """The largest item, which sizes vLLM's encoder cache, is never below what an image becomes."""
    config = json.loads(text)
    media = media_of(config)
    assert media is not None
    if max(width, height) <= 100 * min(width, height):
        assert media_tokens(config, [(width, height)]).embeddings <= media.largest["image"]


def test_the_table_is_whole() -> None:
    """Every rule of a row exists and is used, and no model_type is answered twice without a condition."""
    rows, words = table()
    named = {(kind, spec["rule"]) for row in rows for kind in KINDS if (spec := getattr(row, kind))}
    known = {(kind, name) for kind, rules in (("image", IMAGES), ("video", IMAGES), ("audio", AUDIO)) for name in rules}
    assert named <= known
    assert {name for _, name in named} == {*IMAGES, *AUDIO}
    assert set(words) <= {*IMAGES, *AUDIO}
    assert all(row.source for row in rows)
    plain = [name for row in rows if not row.when for name in row.types]
    assert len(plain) == len(set(plain))


@pytest.mark.parametrize(
    ("config", "settings", "embeddings"),
    [
        # vLLM's start-up line "Encoder cache will be initialized with a budget of ... tokens" in public logs:
        # Qwen2.5-VL-7B at 128,000, one video item
        ({**QWEN, "hidden_size": 3584}, {"max_model_len": 128000, "max_num_batched_tokens": 2048}, 114688),
        # Qwen3.5-35B-A3B, one image item
        (
            {"model_type": "qwen3_5", "text_config": {"hidden_size": 2048}},
            {"max_model_len": 32768, "max_num_batched_tokens": 2048},
            16384,
        ),
        # gemma-4-31B-it, 3 video items of 2,240 in a batch of 8,192
        (
            {"model_type": "gemma4", "text_config": {"hidden_size": 5376}},
            {"max_model_len": 16384, "max_num_batched_tokens": 8192},
            8192,
        ),
        # a video budget of 469,762,048 pixels: 469762048 / (2 x 32 x 32)
        (
            {
                "model_type": "qwen3_5",
                "text_config": {"hidden_size": 5120},
                "processor_config": {"video_processor": {"size": {"shortest_edge": 4096, "longest_edge": 469762048}}},
            },
            {"max_model_len": 262144, "max_num_batched_tokens": 8192},
            229376,
        ),
    ],
)
def test_vllm_keeps_room_for_a_batch_or_the_largest_item(
    config: dict[str, Any], settings: dict[str, Any], embeddings: int
) -> None:
    model = model_configs.read({**config, "num_hidden_layers": 2})
    found = budget(model, "vllm", engine("vllm").Settings(**settings), "h100").term("encoder cache")
    assert found is not None
    assert found.bytes == embeddings * model.hidden_size * 2
    assert found.low <= found.bytes == found.high


def test_the_encoder_cache_is_there_only_where_vllm_has_one() -> None:
    model = model_configs.read({**QWEN, "num_hidden_layers": 2})

    def term(model: Any = model, **settings: Any) -> Any:
        return budget(model, "vllm", engine("vllm").Settings(**settings), "h100").term("encoder cache")

    assert term(language_model_only=True) is None
    assert term(version="0.7.3") is None
    assert term(model_configs.read({"model_type": "llama"})) is None
    deep = model_configs.read({"model_type": "qwen3_vl", "vision_config": {"deepstack_visual_indexes": [5, 11, 17]}})
    assert term(deep).bytes == 16384 * deep.hidden_size * 4 * 2  # three deepstack layers beside the last


def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: dict[str, Any], *words: str) -> Any:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    status = main([words[0], str(path), *words[1:]])
    out, err = capsys.readouterr()
    return json.loads(out) if "--json" in words and status < 2 else err


def test_a_shell_says_images_by_their_size(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """3 x (999 + 2) tokens of images are added to the prompt of the plan, and to the tokens of kv."""
    words = "plan --gpu h100 --engine-version 0.33.0 --prompt 100 --output 50 --image 1024x768x3 --json"
    found = shell(capsys, tmp_path, QWEN, *words.split())
    assert found["workload"]["image_tokens"] == found["media"]["prompt_tokens"] == 3003
    assert found["media"]["parts"][0]["formula"].endswith("37 x 27 = 999")
    found = shell(capsys, tmp_path, QWEN, "kv", "--tokens", "1000", "--image", "1024x768x3", "--json")
    assert found["tokens"] == 4003
    found = shell(capsys, tmp_path, {"model_type": "whisper"}, "kv", "--tokens", "448", "--audio", "30s", "--json")
    assert (found["tokens"], found["encoder_tokens"]) == (448, 1500)
    found = shell(capsys, tmp_path, QWEN, "kv", "--tokens", "1", "--video", "8sx1280x720", "--video", "16x1280x720", "--json")
    assert found["tokens"] == 1 + 2 * (9568 + 2)  # 2 frames a second


@pytest.mark.parametrize("words", [["--image", "3x"], ["--video", "1280x720"], ["--audio", "long"]])
def test_a_shell_says_how_to_write_a_size(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]) -> None:
    assert f"{words[0]} {words[1]!r}: write" in shell(capsys, tmp_path, QWEN, "kv", *words)
