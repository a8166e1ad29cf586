"""Parameter counts and weight bytes against counts of the real classes and sizes of published checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from model_configs import parameters
from model_configs.parameters_table import Part, family, table
from model_configs.quantization import Modules, storage
from model_configs.words import Words
from planner.errors import PlannerError
from planner.model import Source
from planner.weights import Weights
from tests.conftest import ROOT, rows

GOLDEN = yaml.safe_load((ROOT / "tests/golden/parameters.yaml").read_text(encoding="utf-8"))


def weights_of(config: dict[str, Any]) -> Weights:
    found = model_configs.describe(config, Source("dict", "test")).weights
    assert found is not None
    return found


@pytest.mark.parametrize("fact", GOLDEN["params"], ids=lambda fact: fact["name"])
def test_params_of_the_class(fact: dict[str, Any]) -> None:
    """Every kind of decoder and tower, from the few words of its config that matter."""
    found = weights_of(fact["config"])
    assert found.params == fact["n_params"]
    assert found.confidence == "computed"


@pytest.mark.parametrize("fact", GOLDEN["bytes"], ids=lambda fact: fact["name"])
def test_bytes_of_a_published_checkpoint(fact: dict[str, Any]) -> None:
    """Quantised and plain checkpoints, against the total that their index file or model card states."""
    found = weights_of(fact["config"])
    total = found.bytes + sum(extra.bytes for extra in found.extra)
    assert total == pytest.approx(fact["bytes"], rel=fact["within"])


def test_real_configs(truth: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At least 90% of the text-only rows within 0.1%, and none off by more than 2% that is not marked an estimate."""
    wrong, within, count = [], 0, 0
    seen: set[tuple[str, str]] = set()
    for row in rows(truth / "truth/transformers_real.jsonl"):
        key = (row["name"], row["architecture_class"])
        if key in seen or not row.get("config_file"):
            continue
        seen.add(key)
        config = json.loads((truth / "hf_configs" / row["config_file"]).read_text(encoding="utf-8"))
        own = (config.get("architectures") or [None])[0] == row["architecture_class"]
        if not own or any("vision" in word or "audio" in word for word in config):
            continue
        count += 1
        try:
            found = weights_of(config)
        except PlannerError as refusal:
            wrong.append((row["name"], refusal.code, "estimated"))
            continue
        error = found.params / row["n_params"] - 1
        within += abs(error) <= 0.001
        if abs(error) > 0.001:
            wrong.append((row["name"], f"{error:+.4%}", found.confidence))
    with capsys.disabled():
        print(f"\nreal configs: {within} of {count} ({within / count:.1%}) within 0.1%; the others: {wrong}")
    assert within / count >= 0.9
    assert not [miss for miss in wrong if miss[2] != "estimated" and abs(float(miss[1].rstrip("%"))) > 2]


def test_small_configs(truth: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for the tiny models of some 265 types, where a bias or a norm that is missing shows."""
    exact, count, unmarked = 0, 0, []
    for row in rows(truth / "truth/transformers_configs.jsonl"):
        count += 1
        try:
            found = weights_of({**row["config"], "architectures": [row["architecture"]]})
        except PlannerError:
            continue
        exact += found.params == row["n_params"]
        if found.confidence != "estimated" and abs(found.params / row["n_params"] - 1) > 0.02:
            unmarked.append(row["config_id"])
    with capsys.disabled():
        print(f"\ntiny models: {exact} of {count} ({exact / count:.1%}) exact; wrong without saying so: {unmarked}")
    assert exact / count >= 0.75
    assert not unmarked


def test_tied_embeddings_count_once() -> None:
    config = {"model_type": "llama", "hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 2}
    untied = weights_of({**config, "tie_word_embeddings": False})
    tied = weights_of({**config, "tie_word_embeddings": True})
    assert untied.params - tied.params == 64 * 1000
    assert [item.name for item in tied.items] == ["embeddings", "layers"]


def test_mtp_layers_are_a_separate_item() -> None:
    """DeepSeek-V3: 671.0 billion parameters that run, and 13.5 billion of its MTP layer with its copied embeddings."""
    found = weights_of({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1})
    assert found.params == 671_026_404_352
    assert [item.name for item in found.extra] == ["MTP layers"]
    assert sum(item.params for item in found.extra) == pytest.approx(13.46e9, rel=0.001)


def test_an_unknown_architecture_is_an_estimate_and_not_low() -> None:
    """A llama under another name comes out larger than it is, and says why."""
    words = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
             "intermediate_size": 11008}  # fmt: skip
    known = parameters.weights(Words("llama", words), {"model_type": "llama", **words}, ())
    guess = parameters.weights(Words("someones-own", words), {"model_type": "someones-own", **words}, ())
    assert guess.confidence == "estimated"
    assert "someones-own" in guess.items[0].source
    assert known.params <= guess.params <= 1.1 * known.params


@pytest.mark.parametrize(
    "words",
    [
        {}, {"hidden_size": "wide", "vocab_size": 10**12}, {"hidden_size": -1}, {"hidden_size": 1.5}, {"hidden_size": [8]},
        {"num_hidden_layers": 10**9}, {"num_hidden_layers": float("inf")}, {"layer_types": [None]}, {"num_experts": -4},
    ],
)  # fmt: skip
def test_nonsense_never_raises(words: dict[str, Any]) -> None:
    for model_type in ("llama", "qwen3_moe", "nobody-knows", "nemotron_h", "gemma4_text", "t5"):
        root = {"model_type": model_type, **words, "quantization_config": {"quant_method": "awq", "bits": -1}}
        found = parameters.weights(Words(model_type, words), root, ())
        assert min(item.params for item in found.items) >= 0
        assert min(item.bytes for item in found.items) >= 0


def test_a_tower_without_a_rule_leaves_the_language_part_computed() -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {"model_type": "new_vit",
              "hidden_size": 1024, "num_hidden_layers": 24}}  # fmt: skip
    confidence = {item.name: item.confidence for item in weights_of(config).items}
    assert confidence["layers"] == "computed"
    assert confidence["vision tower"] == "estimated"


def test_an_unknown_quantisation_is_an_estimate_and_counted_unquantised() -> None:
    found = weights_of({"model_type": "llama", "quantization_config": {"quant_method": "brand-new"}})
    assert found.confidence == "estimated"
    assert found.bytes == 2 * found.params


@pytest.mark.parametrize("section", ["decoders", "towers", "composites"])
def test_every_row_has_its_parent_and_every_formula_parses(section: str) -> None:
    for model_type in table()[section]:
        row = family(section, model_type)
        assert row is not None
        for formula in row.values():
            if isinstance(formula, str):
                compile(formula, model_type, "eval")


def test_modules_that_are_not_converted_keep_their_dtype() -> None:
    """Paths, wildcards and expressions; also by the name that another version of the class gives the same module."""
    listed = Modules(["model.layers.*.self_attn", "re:.*shared_experts.*", "visual", "language_model.model.layers.3*"])
    for name in ("layers.7.self_attn.q_proj", "layers.1.mlp.shared_experts.up_proj", "vision_tower.layers.0.mlp.up_proj",
                 "layers.3.mlp.down_proj"):  # fmt: skip
        assert name in listed
    assert "layers.7.mlp.experts.up_proj" not in listed


@pytest.mark.parametrize(
    ("config", "per_weight"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "mxfp4"}, 0.5 + 1 / 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5 + 1 / 16),
        ({"quantization": {"quant_algo": "NVFP4"}}, 0.5 + 1 / 16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 0.5 + 1.015625 / 64),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"}}}},
         0.5 + 2 / 32),
    ],
)  # fmt: skip
def test_bytes_of_one_weight(config: dict[str, Any], per_weight: float) -> None:
    part = Part("layers.0.mlp.experts.up_proj", (4096, 4096))
    assert storage({"quantization_config": config}, {}).bytes(part) == pytest.approx(4096**2 * per_weight, abs=64)
