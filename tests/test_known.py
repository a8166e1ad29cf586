"""Every model type that is known, its row and its layers: held to the documents and to measured caches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model_configs import known
from planner.layers import Compressed, Hidden, Latent, ReferenceSliding
from validation import coverage_sweep

ROOT = Path(__file__).resolve().parent.parent
TYPES = {one.model_type: one for one in known.types()}


def test_they_are_the_types_that_the_document_lists() -> None:
    text = (ROOT / "docs/COVERAGE.md").read_text("utf-8")
    count, listed = re.search(r"### Model types read \((\d+)\)\n\n(.+)", text).groups()  # type: ignore[union-attr]
    assert set(TYPES) == set(re.findall("`([^`]+)`", listed))
    assert len(known.types()) == int(count)


def test_no_type_has_a_kind_that_its_tiny_model_did_not_keep() -> None:
    """Layers built from a class's defaults beside those of real generation; shrinking keeps every kind."""
    measured = {row.type: set(row.kinds) for row in coverage_sweep.read().of("equal")}
    assert len(measured) > 300
    assert {name: TYPES[name].kinds for name, kinds in measured.items() if not set(TYPES[name].kinds) <= kinds} == {}


@pytest.mark.parametrize(
    ("name", "decoder", "kinds"),
    [
        ("gemma3", "gemma3_text", ("sliding", "full")), ("deepseek_v3", "deepseek_v3", ("latent",)),
        ("kimi_k2", "deepseek_v3", ("latent",)), ("whisper", "whisper", ("full+cross",)),
        ("internlm2", "internlm2", ("full",)), ("rwkv5", "rwkv5", ("state",)),
    ],
)  # fmt: skip
def test_a_wrapper_a_spelling_and_a_type_without_a_class_are_read(name: str, decoder: str, kinds: tuple[str, ...]) -> None:
    """The last two have their code on the Hub, so that their layers are those of their rows' known answers."""
    assert (TYPES[name].decoder, TYPES[name].kinds) == (decoder, kinds)


def test_caches_are_told_apart_by_class() -> None:
    assert {name for name, one in TYPES.items() if Compressed in one.caches} == {"deepseek_v4", "deepseek_ref"}
    assert {name for name, one in TYPES.items() if Hidden in one.caches} == {"xlnet", "reformer"}
    assert {name for name, one in TYPES.items() if ReferenceSliding in one.caches} == {"unlimited_ocr", "unlimited_ocr_text"}
    assert Latent in TYPES["deepseek_v32"].caches


def test_only_types_without_any_config_have_no_layers() -> None:
    assert {name for name, one in TYPES.items() if not one.layers} == {"qwen4_exp", "qwen4_exp_text"}


def test_the_catalogues_models_are_built_as_they_are_read() -> None:
    built = dict(known.models())
    assert [layer.kind for layer in built["openai/gpt-oss-20b"]] == ["sliding", "full"] * 12
    assert {layer.kind for layer in built["openai/whisper-large-v3"]} == {"full+cross"}
