"""Golden cases of families that listen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from media_case import case
from media_judges import bare, chunked, counted_audio, embedded, flat, full, listened, new, projected, recognised


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
