"""The files that say how a checkpoint's processor cuts images, beside its config.json on the Hub."""

from __future__ import annotations

import json
from typing import Any

import pytest

import model_configs

from .conftest import StartHub
from .server import Repo

CONFIG = {"model_type": "qwen2_5_vl", "num_hidden_layers": 2, "vision_config": {"patch_size": 14}}
SMALL = {"min_pixels": 200704, "max_pixels": 1003520}


def repo(**files: Any) -> Repo:
    named = {"config.json": CONFIG, **{f"{name}.json": content for name, content in files.items()}}
    return Repo(files={name: json.dumps(content).encode() for name, content in named.items()})


def test_a_checkpoints_own_pixels_count(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """47 x 26 of 1920 x 1080 within 1,003,520 pixels, as in the golden row of that limit."""
    server = start_hub({"org/model": repo(preprocessor_config=SMALL)})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    assert model_configs.media_tokens("hub:org/model", [(1920, 1080)]).tokens == 47 * 26
    model = model_configs.read("hub:org/model")
    assert model.media is not None
    assert model.media.largest["image"] == 1003520 // 28**2
    assert model.source.name == "org/model"


def test_a_video_has_a_file_of_its_own(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    video = {"size": {"shortest_edge": 3136, "longest_edge": 28 * 28 * 100}}
    server = start_hub({"org/model": repo(preprocessor_config=SMALL, video_preprocessor_config=video)})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    found = model_configs.media_tokens("hub:org/model", [(1920, 1080)], [(2, 1920, 1080)])
    assert [part.tokens for part in found.parts] == [1222, 13 * 7]  # 364 x 196 pixels, the largest of this shape within 78,400


def test_without_the_files_the_familys_defaults_hold(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_hub({"org/model": repo()})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    model = model_configs.read("hub:org/model")
    assert model_configs.media_tokens(model, [(1920, 1080)]).tokens == 2691
    assert sum("preprocessor_config.json" in path for path in server.paths) == 2


def test_files_that_cannot_be_read_are_a_note(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = repo()
    broken.files["preprocessor_config.json"] = b"[1, 2]"
    server = start_hub({"org/model": broken})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    model = model_configs.read("hub:org/model")
    assert any("counted by defaults" in note for note in model.notes)


def test_a_text_model_asks_for_none(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Repo(files={"config.json": json.dumps({"model_type": "llama", "num_hidden_layers": 2}).encode()})
    server = start_hub({"org/model": text})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    model_configs.read("hub:org/model")
    assert not any("processor" in path for path in server.paths)
