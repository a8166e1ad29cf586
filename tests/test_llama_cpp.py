"""llama.cpp and Ollama: its own allocations, from the compact extract and, where they are, from the whole truth sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from planner.engines import llama_cpp
from planner.engines.llama_cpp_table import cache_types, era_of, eras
from planner.errors import ConfigError, EngineRefusal, InputError, UnsupportedArchitecture
from planner.model import Model
from validation import coverage_llama_cpp as coverage

GOLDEN = yaml.load(
    (Path(__file__).parent / "golden/llama_cpp.yaml").read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)
ENTRIES = [(part, name) for part in ("gguf", "config", "older") for name in GOLDEN[part]]
LLAMA_8B = {
    "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096, "llama.context_length": 131072,
    "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
}  # fmt: skip
GEMMA = {
    "general.architecture": "gemma3", "gemma3.block_count": 62, "gemma3.embedding_length": 5376,
    "gemma3.attention.head_count": 32, "gemma3.attention.head_count_kv": 16,
    "gemma3.attention.key_length": 128, "gemma3.attention.value_length": 128,
    "gemma3.attention.sliding_window": 1024, "gemma3.context_length": 131072,
}  # fmt: skip


def allocated(model: Model, **settings: Any) -> llama_cpp.LlamaCppBytes:
    return llama_cpp.cache_bytes(model, llama_cpp.Settings(**settings))


def predicted(model: Model, settings: dict[str, Any]) -> Any:
    try:
        found = allocated(model, **settings)
    except EngineRefusal:
        return "refused"
    return [found.k_bytes, found.v_bytes, found.state_bytes]


@pytest.mark.parametrize(("part", "name"), ENTRIES)
def test_allocations(part: str, name: str) -> None:
    """Keys, values and states in bytes, or the refusal, as llama.cpp itself allocated or refused."""
    entry = GOLDEN[part][name]
    model = model_configs.read(entry.get("metadata") or entry["config"])
    rows = {str(settings): expected for settings, expected in entry["rows"]}
    assert {str(settings): predicted(model, settings) for settings, _ in entry["rows"]} == rows


BUILT = [(arch, entry) for entry in GOLDEN["built"] for arch in entry["archs"]]


@pytest.mark.parametrize(("arch", "entry"), BUILT, ids=[arch for arch, _ in BUILT])
def test_every_architecture(arch: str, entry: dict[str, Any]) -> None:
    """The total that llama.cpp allocates for its own test model of an architecture."""
    words = {f"{arch}.{word}": value for word, value in entry["metadata"].items()}
    model = model_configs.read({"general.architecture": arch, **words})
    assert [allocated(model, **settings).total_bytes for settings, _ in entry["rows"]] == [total for _, total in entry["rows"]]


def test_the_extract_is_wide() -> None:
    """It has every cache type, refusals, older versions, and at least 130 architectures and 120 rows."""
    rows = [row for part, name in ENTRIES for row in GOLDEN[part][name]["rows"]]
    archs = {entry["metadata"]["general.architecture"] for entry in GOLDEN["gguf"].values()}
    assert len(rows) >= 120
    assert len(archs) >= 50
    assert len(archs | {arch for arch, _ in BUILT}) >= 130
    assert {settings.get("cache_type_k", "f16") for settings, _ in rows} == set(cache_types())
    assert sum(expected == "refused" for _, expected in rows) >= 15


@pytest.mark.parametrize("name", GOLDEN["logs"])
def test_public_logs(name: str) -> None:
    """The figures of start-up logs that people published, from the shapes and settings that they state."""
    entry = GOLDEN["logs"][name]
    metadata = dict(entry["metadata"])
    if "compress_ratios" in entry:
        first, second, *cycle = entry["compress_ratios"]
        metadata["deepseek4.attention.compress_ratios"] = [first, second, *(cycle[i % 2] for i in range(41))]
    found = allocated(model_configs.read(metadata), **entry["settings"])
    figures = {
        "k": found.k_bytes,
        "total": found.total_bytes,
        "state": found.state_bytes,
        "layer": found.layers[0].bytes,
        "per_token": found.total_bytes / found.n_ctx,
        "sliding": sum(part.bytes for layer in found.layers for part in layer.parts if part.kind == "sliding"),
    }
    named = {key: value for key, value in entry.items() if key in figures}
    assert named
    assert {key: figures[key] for key in named} == named


@pytest.fixture(scope="module")
def figures(measured: Callable[[str], Any]) -> coverage.Figures:
    found: coverage.Figures = measured("llama-cpp")
    return found


class TestWholeTruth:
    """Every row of llama.cpp's own allocations, where the shared folder is."""

    def test_from_gguf_metadata(self, figures: coverage.Figures, capsys: pytest.CaptureFixture[str]) -> None:
        """At least 99.5% of the accepted rows are equal in keys, values and states, and every refused row is refused."""
        with capsys.disabled():
            print("\n" + coverage.summary(figures))
        for tally in (figures.gguf, figures.older):
            assert tally.rows >= 700
            assert tally.exact >= 0.995 * tally.accepted
            assert tally.wrongly_accepted == []

    def test_from_configs(self, figures: coverage.Figures) -> None:
        """The same models read from their config.json: at least 99.5% of the rows of those that can be read."""
        tally = figures.configs
        assert tally.exact >= 0.995 * tally.accepted
        assert tally.wrongly_accepted == []
        assert len(figures.unread) <= 6

    def test_logs(self, truth: Path) -> None:
        """Every log of llama.cpp itself that is marked exact is in the extract; forks and old estimators are listed why not."""
        logs = yaml.safe_load((truth / "truth/llamacpp_logs.yaml").read_text("utf-8"))
        exact = {log["id"] for log in logs if log["verified"] == "exact"}
        assert exact - set(GOLDEN["logs"]) == set(coverage.LOGS_LEFT_OUT) & exact
        assert set(coverage.LOGS_LEFT_OUT) | set(GOLDEN["logs"]) == {log["id"] for log in logs}


class TestRounding:
    """n_ctx, sequences and windows, as llama.cpp rounds them."""

    def test_a_small_context_for_many_sequences_grows(self) -> None:
        """100 cells for 8 sequences become 256 for each, 2,048 in all; shared they are 256."""
        model = model_configs.read(LLAMA_8B)
        assert allocated(model, n_ctx=100, n_seq_max=8).n_ctx == 2048
        assert allocated(model, n_ctx=100, n_seq_max=8, kv_unified=True).n_ctx == 256

    def test_front_ends_differ(self) -> None:
        """Gemma-3-27B: the library keeps the whole context everywhere, llama-server windows for four slots that share it."""
        model = model_configs.read(GEMMA)
        library = allocated(model, n_ctx=32768)
        server = allocated(model, n_ctx=32768, front_end="server")
        assert library.total_bytes == 62 * 32768 * 2 * 2048 * 2
        assert (server.requests, server.n_stream) == (4, 1)
        assert server.total_bytes == (10 * 32768 + 52 * (1024 * 4 + 512)) * 2 * 2048 * 2

    def test_the_batch_is_part_of_the_window(self) -> None:
        """Windows of 1,024 keep 1,280, 1,536 or 3,072 cells with a pass of 64, 512 or 2,048 tokens."""
        model = model_configs.read(GEMMA)
        cells = {ubatch: allocated(model, n_ctx=32768, n_ubatch=ubatch, swa_full=False).layers[0].parts[0].positions
                 for ubatch in (64, 512, 2048)}  # fmt: skip
        assert cells == {64: 1280, 512: 1536, 2048: 3072}

    def test_zero_is_the_trained_context(self) -> None:
        assert allocated(model_configs.read(LLAMA_8B), n_ctx=0).n_ctx == 131072
        with pytest.raises(InputError, match="give n_ctx"):
            allocated(model_configs.read({k: v for k, v in LLAMA_8B.items() if "context" not in k}), n_ctx=0)

    def test_tokens_and_requests_stand_for_settings(self) -> None:
        """Where settings leave them out, `requests` sequences of `tokens` cells are planned."""
        found = llama_cpp.cache_bytes(model_configs.read(LLAMA_8B), tokens=4096, requests=3)
        assert (found.n_ctx, found.requests, found.total_bytes) == (12288, 3, 32 * 12288 * 2 * 1024 * 2)


class TestVersions:
    """A version is a row: builds, commits, llama-cpp-python versions and dates."""

    @pytest.mark.parametrize(
        ("version", "name"),
        [
            (None, eras()[-1].name),
            ("b3184", "one stream of cells"),
            ("7841fc723", "one stream of cells"),
            ("0.3.9", "latent caches for MLA"),
            ("2025-05-25", "a cache of its own for sliding windows"),
            ("4227c9be4abc", "streams, one for each sequence"),
            ("0.3.16", "streams, one for each sequence"),
            ("2026-02", "latent caches without values"),
            ("b8643", "windows never quantized"),
            ("0.3.21", "windows quantized again"),
            ("0c1e57098", eras()[-1].name),
        ],
    )
    def test_names_of_versions(self, version: str | None, name: str) -> None:
        assert era_of(version).name == name

    @pytest.mark.parametrize("version", ["latest", "1234567", "2025-99", "0.5.4.1", ""])
    def test_what_is_no_version(self, version: str) -> None:
        with pytest.raises(InputError) as failure:
            era_of(version)
        assert failure.value.fields["field"] == "version"

    def test_mla_by_version(self) -> None:
        """DeepSeek-V3's 61 layers: full heads, the latent twice, the latent once: 81,920, 2,176 and 1,152 bytes a token each."""
        config = {
            "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61,
            "num_attention_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128, "v_head_dim": 128,
        }  # fmt: skip
        model = model_configs.read(config)
        per_token = {
            version: allocated(model, n_ctx=1024, version=version).total_bytes // 1024 // 61
            for version in ("2025-03", "2025-08", "2026-03")
        }
        assert per_token == {"2025-03": 81920, "2025-08": 2176, "2026-03": 1152}

    def test_windows_that_were_never_quantised(self) -> None:
        """For some days in April 2026 windows stayed f16, and only the 10 full layers of Gemma were q8_0."""
        model = model_configs.read(GEMMA)
        asked = {"n_ctx": 8192, "cache_type_k": "q8_0", "cache_type_v": "q8_0", "swa_full": False}
        full, sliding = 10 * 8192 * 2048, 52 * 1536 * 2048
        f16_windows = allocated(model, version="f49e91787", **asked)
        assert f16_windows.k_bytes == full // 32 * 34 + sliding * 2
        assert allocated(model, version="0.3.21", **asked).k_bytes == (full + sliding) // 32 * 34

    def test_an_architecture_that_was_not_known_yet(self) -> None:
        model = model_configs.read({**LLAMA_8B, "general.architecture": "mistral3"} | {
            key.replace("llama.", "mistral3."): value for key, value in LLAMA_8B.items() if key.startswith("llama.")
        })  # fmt: skip
        assert allocated(model).n_ctx == 512
        with pytest.raises(EngineRefusal, match="did not know mistral3 yet"):
            allocated(model, version="b5000")

    def test_a_model_without_an_architecture(self) -> None:
        config = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "num_hidden_layers": 12, "num_attention_heads": 12,
                  "hidden_size": 768}  # fmt: skip
        with pytest.raises(EngineRefusal, match="OPTForCausalLM"):
            allocated(model_configs.read(config))


class TestRefusals:
    """llama.cpp's refusals, each with its reason and a way out."""

    @pytest.mark.parametrize(
        ("metadata", "settings", "reason"),
        [
            (LLAMA_8B, {"cache_type_v": "q8_0", "flash_attn": "off"}, "only with flash attention"),
            (LLAMA_8B, {"n_seq_max": 257}, "at most 256 sequences"),
            (LLAMA_8B, {"ctx_type": "mtp"}, "no draft"),
            ({**LLAMA_8B, "llama.attention.key_length": 80}, {"cache_type_k": "q4_0"}, "blocks of 32"),
        ],
    )
    def test_refused(self, metadata: dict[str, Any], settings: dict[str, Any], reason: str) -> None:
        with pytest.raises(EngineRefusal, match=reason):
            allocated(model_configs.read(metadata), n_ctx=4096, **settings)

    def test_quantised_keys_without_flash_attention_are_allowed(self) -> None:
        found = allocated(model_configs.read(LLAMA_8B), n_ctx=4096, cache_type_k="q8_0", flash_attn="off")
        assert found.k_bytes == 32 * 4096 * 1024 // 32 * 34
        assert found.v_bytes == 32 * 4096 * 1024 * 2

    def test_a_layer_without_heads_has_values_without_flash_attention(self) -> None:
        """Without flash attention each layer's values are as wide as the widest layer's, those without KV heads too."""
        metadata = {
            "general.architecture": "deci", "deci.block_count": 3, "deci.embedding_length": 1024,
            "deci.attention.head_count": [16, 16, 0], "deci.attention.head_count_kv": [8, 4, 0],
        }  # fmt: skip
        model = model_configs.read(metadata)
        on, off = (allocated(model, n_ctx=256, flash_attn=flash) for flash in ("on", "off"))
        assert (on.k_bytes, on.v_bytes) == (12 * 64 * 256 * 2, 12 * 64 * 256 * 2)
        assert (off.k_bytes, off.v_bytes) == (12 * 64 * 256 * 2, 24 * 64 * 256 * 2)

    def test_unknown_words(self) -> None:
        with pytest.raises(InputError, match="cache_type_k"):
            llama_cpp.Settings(cache_type_k="q6_k")
        with pytest.raises(UnsupportedArchitecture, match="'gpt9'"):
            model_configs.read({"general.architecture": "gpt9", "gpt9.block_count": 2})

    def test_a_rollback_that_has_no_effect_is_said(self) -> None:
        metadata = GOLDEN["gguf"]["tiny-mamba"]["metadata"]
        found = allocated(model_configs.read(metadata), n_rs_seq=2)
        assert found.state_bytes == allocated(model_configs.read(metadata)).state_bytes
        assert any("n_rs_seq" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "change",
    [
        {"llama.block_count": 0}, {"llama.block_count": "many"}, {"llama.block_count": 10**9}, {"llama.block_count": None},
        {"llama.attention.head_count_kv": [8] * 31}, {"llama.attention.head_count_kv": -1},
        {"llama.attention.head_count": {"a": 1}},
        {"llama.nextn_predict_layers": 33}, {"llama.embedding_length": None},
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_right(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        model_configs.read({**LLAMA_8B, **change})
