"""The offline catalogue: complete, well formed, equal to the public config.json files, and right in known answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import model_configs
from model_configs import catalogue
from model_configs.catalogue import Entry
from planner.cache import architecture_bytes
from planner.errors import DataError
from planner.model import Model

GIB = 2**30
#: Well-known models that the catalogue must have, by the name that a person would type.
NAMED = [
    "gpt2", "openai-community/gpt2", "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-405B", "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-llama/Llama-3.2-11B-Vision-Instruct", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-72B",
    "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3.5-397B-A17B", "Qwen/Qwen3.5-27B", "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct",
    "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3", "mistralai/Mixtral-8x7B-v0.1",
    "mistral-community/pixtral-12b", "mistralai/Mistral-Small-3.1-24B-Instruct-2503", "google/gemma-2-9b-it",
    "google/gemma-3-27b-it", "google/gemma-3n-E4B-it", "google/gemma-4-31B-it", "google/gemma-4-E2B-it",
    "microsoft/Phi-3-mini-4k-instruct", "microsoft/phi-4", "deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash", "moonshotai/Kimi-K2-Instruct",
    "moonshotai/Kimi-Linear-48B-A3B-Instruct", "zai-org/GLM-4.5", "zai-org/GLM-5", "openai/gpt-oss-20b",
    "openai/gpt-oss-120b", "MiniMaxAI/MiniMax-M2", "nvidia/Nemotron-H-8B-Base-8K",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1", "ibm-granite/granite-4.0-h-small", "ai21labs/AI21-Jamba-1.5-Mini",
    "tiiuae/Falcon-H1-7B-Instruct", "tiiuae/falcon-7b", "tiiuae/falcon-40b", "mistralai/Mamba-Codestral-7B-v0.1",
    "google/recurrentgemma-2b", "LiquidAI/LFM2-1.2B", "CohereLabs/c4ai-command-r7b-12-2024", "bigcode/starcoder",
    "mosaicml/mpt-7b", "bigscience/bloom", "google-t5/t5-base", "facebook/bart-large", "openai/whisper-large-v3",
    "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
]  # fmt: skip
KINDS = {
    "full", "sliding", "chunked", "latent", "indexed", "compressed", "state", "full+state", "cross", "full+cross",
    "shared", "none",
}  # fmt: skip
#: Words that no engine's rules read; a verbatim copy of a file would have them.
NOISE = {
    "auto_map", "transformers_version", "bos_token_id", "eos_token_id", "pad_token_id", "use_cache", "initializer_range",
    "attention_dropout", "hidden_act", "rms_norm_eps", "_name_or_path", "id2label", "task_specific_params",
}  # fmt: skip


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {entry.id: model_configs.read(f"catalogue:{entry.id}") for entry in catalogue.entries()}


def test_every_entry_reads_and_says_where_it_is_from(models: dict[str, Model]) -> None:
    """The names of the models and of their sources are those of the entries; no entry needs an assumption."""
    assert len(models) >= 80
    for entry in catalogue.entries():
        model = models[entry.id]
        assert (model.source.kind, model.source.name, model.source.date) == ("catalogue", entry.id, entry.date)
        assert model.assumption is None
        assert model.architecture
        assert entry.source
        assert entry.date.count("-") == 2


def test_all_kinds_of_cache_appear(models: dict[str, Model]) -> None:
    assert {kind for model in models.values() for kind in model.kinds} >= KINDS


@pytest.mark.parametrize("name", NAMED)
def test_well_known_models_are_there(name: str) -> None:
    assert catalogue.find(name)


def test_names_are_unique() -> None:
    found = catalogue.entries()
    names = [name.lower() for entry in found for name in (entry.id, *entry.aliases)]
    assert len(names) == len(set(names))
    assert len({entry.name for entry in found}) == len(found)


def test_entries_are_in_the_order_of_their_names() -> None:
    ids = [entry.id for entry in catalogue.entries()]
    assert ids.index("Qwen/Qwen2.5-0.5B") < ids.index("Qwen/Qwen2.5-7B") < ids.index("Qwen/Qwen2.5-14B")


def test_only_facts_are_kept() -> None:
    def words(value: object) -> set[str]:
        if not isinstance(value, dict):
            return set()
        return set(value) | {word for inner in value.values() for word in words(inner)}

    for entry in catalogue.entries():
        assert not words(entry.config) & NOISE, entry.id
        assert not words(entry.config) & {"cycle", "runs", "spelled"}, entry.id


def test_find_takes_ids_aliases_and_last_parts_in_any_case() -> None:
    llama = catalogue.find("meta-llama/Llama-3.1-8B")
    assert llama is not None
    assert llama is catalogue.find("llama-3.1-8b") is catalogue.find(" META-LLAMA/Meta-Llama-3.1-8B-Instruct ")
    assert catalogue.find("meta-llama") is None
    assert catalogue.find("") is None
    assert catalogue.find("somebody/Llama-3.1-8B") is None


def test_a_bare_name_reads_offline() -> None:
    assert model_configs.read("gpt2").source.name == "openai-community/gpt2"


def test_the_catalogue_is_read_once() -> None:
    """Its files are parsed once a process, whoever asks."""
    assert catalogue.entries() is catalogue.entries()


def _files(entry: Entry, folder: Path) -> list[Path]:
    """The public files with this entry's id, or with one of the ids that it says are the same."""
    paths = [folder / f"{name.replace('/', '__')}.json" for name in (entry.id, *entry.aliases)]
    return [path for path in paths if path.is_file()]


def test_entries_agree_with_the_public_files(truth: Path, models: dict[str, Model]) -> None:
    """read(entry) and read(file) give the same model: layers in every engine's view, sizes, limits, weights."""
    compared = 0
    for entry in catalogue.entries():
        ours = models[entry.id]
        for path in _files(entry, truth / "hf_configs"):
            theirs = model_configs.read(path)
            for field in (
                "model_type", "architecture", "layers", "engine_layers", "dtype", "max_context", "hidden_size",
                "attention_heads", "cache_rules", "params", "weight_bytes",
            ):  # fmt: skip
                assert getattr(ours, field) == getattr(theirs, field), (entry.id, path.name, field)
            compared += 1
    assert compared >= 150


@pytest.mark.parametrize(
    ("name", "tokens", "encoder_tokens", "expected", "source"),
    [
        ("meta-llama/Llama-3.1-8B", 1, 0, 131_072, "LMCache calculator: 2 x 32 x 8 x 128 x 2"),
        ("meta-llama/Llama-3.1-405B", 1, 0, 516_096, "2 x 126 x 8 x 128 x 2, arXiv 2407.21783 table 3"),
        ("meta-llama/Llama-2-7b-hf", 1, 0, 524_288, "TensorRT-LLM issue 1400: 69,524,783,104 B for 132,608 tokens"),
        ("Qwen/Qwen2.5-72B", 32_768, 0, 10 * GIB, "80 layers, 8 KV heads of 128: arXiv 2412.15115"),
        ("Qwen/Qwen3-14B", 1, 0, 163_840, "LMCache issue 1739: 6.51 GiB, 42,656 tokens"),
        ("Qwen/Qwen3-0.6B", 40_960, 0, 4_697_620_480, "unsloth PR 4757: 4.375 GiB"),
        ("deepseek-ai/DeepSeek-V3", 1, 0, 70_272, "LMCache PR 715: (512 + 64) x 61 x 2"),
        ("deepseek-ai/DeepSeek-V3.2", 1_000, 0, 85_888_000, "(512 + 64 + 128) x 61 x 2 x 1,000: transformers 5.24"),
        ("moonshotai/Kimi-K2.5", 262_144, 0, 18_421_383_168, "unsloth PR 4757: 17.156 GiB"),
        ("zai-org/GLM-4.5", 1, 0, 376_832, "LMCache issue 2248: 92 layers, 8 KV heads of 128"),
        ("tiiuae/falcon-7b", 1, 0, 8_192, "one head of 64 in 32 layers: transformers 5.24"),
        ("bigcode/starcoder", 1, 0, 20_480, "multi-query, one head of 128 in 40 layers: arXiv 2305.06161"),
        ("openai/gpt-oss-20b", 10_000, 0, 248_881_152, "12 full layers, 12 of 127 positions: transformers 5.24"),
        ("google/gemma-3-27b-it", 10_000, 0, 1_254_981_632, "10 full layers, 52 of 1,023 positions: transformers 5.24"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 10_000, 0, 1_699_332_096, "chunks of 8,192: transformers 5.24"),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 1, 0, 200_704, "49 of 80 blocks attend: vLLM's architecture ground truth"),
        ("XiaomiMiMo/MiMo-V2-Flash", 10_000, 0, 255_959_040, "K 192 and V 128 wide as in the pools of SGLang PR 15464"),
        ("openai/whisper-large-v3", 0, 1_500, 245_760_000, "cross attention alone: TensorRT-LLM issue 19514"),
        ("openai/whisper-large-v3", 448, 1_500, 319_160_320, "the same with 70.0 MiB of self attention"),
    ],
)  # fmt: skip
def test_known_answers(models: dict[str, Model], name: str, tokens: int, encoder_tokens: int, expected: int, source: str) -> None:
    found = architecture_bytes(models[name], tokens, encoder_tokens=encoder_tokens)
    assert found.total_bytes == expected, source


def test_published_checkpoint_sizes_are_met(models: dict[str, Model]) -> None:
    """The bytes computed from the config are those of the checkpoint's own index file."""
    published = {entry.id: entry.weights_bytes for entry in catalogue.entries() if entry.weights_bytes}
    assert len(published) >= 3
    assert {name: models[name].weight_bytes for name in published} == published


def test_mistral_7b_keeps_at_most_its_window(models: dict[str, Model]) -> None:
    """One position less than the window of 4,096, in each of 32 layers: the current token sees itself without a cache."""
    found = architecture_bytes(models["mistralai/Mistral-7B-v0.1"], 32_768)
    assert {part.positions for layer in found.layers for part in layer.parts} == {4_095}
    assert found.total_bytes == 32 * 2 * 8 * 128 * 2 * 4_095


def test_a_state_does_not_grow(models: dict[str, Model]) -> None:
    model = models["state-spaces/mamba-2.8b-hf"]
    assert architecture_bytes(model, 1).total_bytes == architecture_bytes(model, 1_000_000).total_bytes > 0


def _config(text: str) -> dict[str, object]:
    (entry,) = catalogue.parse(f"read: 2026-01-02\nmodels: [{{id: a/b, name: B, source: card, config: {{{text}}}}}]", "t.yaml")
    return entry.config


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{runs: [full x2, none]}", ["full", "full", "none"]),
        ("{runs: [0 x3, 1]}", [0, 0, 0, 1]),
        ("{cycle: [a x2, b], length: 7}", ["a", "a", "b", "a", "a", "b", "a"]),
        ("{first: [c], cycle: [a, b], last: [d], length: 5}", ["c", "a", "b", "a", "d"]),
        ("{spelled: ab a, a: 1, b: {c: 2}}", [1, {"c": 2}, 1]),
        ("{inner: {runs: [x x2]}}", {"inner": ["x", "x"]}),
        ("[a x2]", ["a x2"]),
    ],
)
def test_short_forms_of_lists(short: str, long: object) -> None:
    assert _config(f"w: {short}") == {"w": long}


@pytest.mark.parametrize(
    "text",
    [
        "models: [",
        "models: []",
        "read: 2026-01-02\nmodels: {}",
        "read: 2026-01-02\nmodels: [text]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {}, colour: red}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, config: {}}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {}, aliases: c}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {}, params: many}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {w: {cycle: [a]}}}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {w: {cycle: [], length: 3}}}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {w: {cycle: [a], length: 1, first: [b x2]}}}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {w: {runs: [a x999999999]}}}]",
        "read: 2026-01-02\nmodels: [{id: a/b, name: B, source: card, config: {w: {spelled: ab, a: 1}}}]",
    ],
)
def test_a_malformed_file_is_a_data_error(text: str) -> None:
    with pytest.raises(DataError, match=r"t\.yaml"):
        list(catalogue.parse(text, "t.yaml"))
