"""GGUF files as a source of models: real files written with the gguf package, and damaged ones."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import model_configs
from model_configs.gguf import read_gguf
from model_configs.gguf_words import families
from planner.engines import llama_cpp
from planner.engines.llama_cpp_table import architectures
from planner.errors import ConfigError, InputError, PlannerError, UnsupportedArchitecture
from planner.layers import Full, Sliding

from .gguf_files import DAMAGED, FF, HIDDEN, KV_HEADS, LAYERS, split, write


class TestLocalFiles:
    """A file on this machine: dimensions from its metadata, weights from its list of tensors."""

    def test_layers_and_weights(self, tmp_path: Path) -> None:
        """Three layers of 2 x 64; q4_K takes 144 bytes for 256 weights, q8_0 34 for 32."""
        model = model_configs.read(write(tmp_path / "tiny.gguf", vocabulary=5000))
        assert model.layers == (model.layers[0],) * LAYERS
        assert model.layers[0].caches == (Full(KV_HEADS, 64, 64),)
        assert (model.model_type, model.max_context, model.source.kind) == ("llama", 4096, "path")
        assert model.weights is not None
        sizes = {item.name: (item.params, item.bytes) for item in model.weights.items}
        assert sizes == {
            "F16 tensors": (1000 * HIDDEN, 1000 * HIDDEN * 2),
            "Q8_0 tensors": (LAYERS * FF * HIDDEN, LAYERS * FF * HIDDEN // 32 * 34),
            "Q4_K tensors": (LAYERS * HIDDEN * HIDDEN, LAYERS * HIDDEN * HIDDEN // 256 * 144),
            "F32 tensors": (LAYERS * HIDDEN, LAYERS * HIDDEN * 4),
        }
        assert (model.weights_confidence, model.weight_bytes) == ("exact", sum(size for _, size in sizes.values()))

    def test_the_reader_of_the_gguf_package_agrees(self, tmp_path: Path) -> None:
        """Names, shapes, types and bytes of every tensor, and every scalar of the metadata, as the package reads them."""
        path = write(tmp_path / "tiny.gguf", vocabulary=100)
        model, reader = read_gguf(path), gguf.GGUFReader(path)
        assert model.weight_bytes == sum(int(tensor.n_bytes) for tensor in reader.tensors)
        assert model.params == sum(int(tensor.n_elements) for tensor in reader.tensors)
        scalars = {name: field.contents() for name, field in reader.fields.items() if name.startswith(("llama.", "general.arch"))}
        assert {name: model.config[name] for name in scalars} == scalars

    def test_what_llama_cpp_allocates_for_it(self, tmp_path: Path) -> None:
        found = llama_cpp.cache_bytes(read_gguf(write(tmp_path / "tiny.gguf")), llama_cpp.Settings(n_ctx=1024))
        assert found.total_bytes == LAYERS * 1024 * 2 * (KV_HEADS * 64) * 2

    def test_only_the_header_is_read(self, tmp_path: Path) -> None:
        """A file cut off after its header gives the same model: nothing of the data is looked at."""
        path = write(tmp_path / "tiny.gguf", vocabulary=100)
        whole = read_gguf(path)
        data = gguf.GGUFReader(path).data_offset
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(path.read_bytes()[:data])
        assert read_gguf(cut).layers == whole.layers
        assert read_gguf(cut).weights == read_gguf(cut).weights
        assert read_gguf(cut).weight_bytes == whole.weight_bytes

    def test_per_layer_words(self, tmp_path: Path) -> None:
        """Arrays give a layer its own heads; a scalar pattern and a flag for each layer say which slide."""
        metadata: dict[str, Any] = {
            "general.architecture": "gemma4", "gemma4.block_count": 3, "gemma4.embedding_length": 512,
            "gemma4.context_length": 1024, "gemma4.attention.head_count": 8, "gemma4.attention.head_count_kv": [4, 2, 4],
            "gemma4.attention.key_length": 128,
            "gemma4.attention.value_length": 128, "gemma4.attention.key_length_swa": 64, "gemma4.attention.value_length_swa": 64,
            "gemma4.attention.sliding_window": 512, "gemma4.attention.sliding_window_pattern": [True, False, True],
            "gemma4.attention.shared_kv_layers": 1,
        }  # fmt: skip
        first, second, third = model_configs.read(metadata).layers
        assert first.caches == (Sliding(4, 64, 64, window=512),)
        assert second.caches == (Full(2, 128, 128),)
        assert third.kind == "shared"

    def test_draft_layers_are_apart(self, tmp_path: Path) -> None:
        """A draft layer's weights are loaded on request, and only the draft context caches it."""
        model = read_gguf(write(tmp_path / "tiny.gguf", arch="glm4moe", draft=1))
        assert [layer.kind for layer in model.layers] == ["full"] * LAYERS
        assert model.weights is not None
        drafts = {f"{name} tensors of the draft layers" for name in ("Q4_K", "Q8_0", "F32")}
        assert {item.name for item in model.weights.extra} == drafts
        main, draft = (
            llama_cpp.cache_bytes(model, llama_cpp.Settings(n_ctx=512, ctx_type=kind)) for kind in ("default", "mtp")
        )
        assert main.total_bytes == LAYERS * draft.total_bytes

    def test_big_endian(self, tmp_path: Path) -> None:
        """A file written for s390x gives the same layers and bytes."""
        big, little = write(tmp_path / "big.gguf", endian=gguf.GGUFEndian.BIG), write(tmp_path / "little.gguf")
        assert read_gguf(big).layers == read_gguf(little).layers
        assert read_gguf(big).weight_bytes == read_gguf(little).weight_bytes

    def test_a_split_model(self, tmp_path: Path) -> None:
        """All parts count, whichever is named; a missing part is named."""
        names = split(tmp_path)
        weights = {read_gguf(path).weight_bytes for path in names}
        assert weights == {2 * 64 * 32 * 4}
        assert read_gguf(names[1]).layers[0].caches == (Full(KV_HEADS, 64, 64),)
        names[1].unlink()
        with pytest.raises(InputError, match=r"model-00002-of-00002\.gguf is not beside it"):
            model_configs.read(names[0])

    def test_paths_that_are_no_file(self, tmp_path: Path) -> None:
        for name in ("absent.gguf", str(tmp_path / "absent.gguf")):
            with pytest.raises(InputError, match="no file"):
                model_configs.read(name)

    def test_the_package_is_imported_only_for_tensors(self) -> None:
        """model_configs stays light: gguf and numpy are loaded when a file's tensors are summed."""
        code = "import sys, model_configs; assert 'gguf' not in sys.modules and 'numpy' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestDamagedFiles:
    """Whatever a file says, reading it ends at once with one typed error."""

    @pytest.mark.parametrize("name", DAMAGED)
    def test_one_error(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "model.gguf"
        path.write_bytes(DAMAGED[name])
        with pytest.raises((ConfigError, UnsupportedArchitecture)) as failure:
            model_configs.read(path)
        assert "\n" not in failure.value.message
        assert failure.value.exit_status == 2

    def test_every_truncation(self, tmp_path: Path) -> None:
        """A header cut anywhere is refused, and never read as another model."""
        path = write(tmp_path / "tiny.gguf", vocabulary=10)
        whole, end = path.read_bytes(), gguf.GGUFReader(path).data_offset
        for size in range(0, end - 32, 7):
            path.write_bytes(whole[:size])
            with pytest.raises(ConfigError):
                read_gguf(path)

    @hypothesis_settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(at=st.integers(0, 400), value=st.integers(0, 255))
    def test_any_byte_changed(self, at: int, value: int, tmp_path: Path) -> None:
        """One byte of a header changed gives a model or a PlannerError, nothing else."""
        path = tmp_path / "changed.gguf"
        if not (tmp_path / "good.gguf").exists():
            write(tmp_path / "good.gguf")
        body = bytearray((tmp_path / "good.gguf").read_bytes())
        body[at] = value
        path.write_bytes(body)
        with contextlib.suppress(PlannerError):
            assert read_gguf(path).layers


def test_tables_agree() -> None:
    """Every architecture that the engine knows has a row of metadata rules, and the other way round but for what is refused."""
    rows = families()
    read = {arch for arch, family in rows.items() if not family.refused}
    refused = {arch for arch, family in rows.items() if family.refused}
    assert read == set(architectures().since) - refused
    none = {arch for arch, family in rows.items() if family.cache == "none"}
    assert none == set(architectures().facts["no_cache"])


def test_architectures_that_are_refused() -> None:
    for arch in ("clip", "eagle3", "gptj"):
        with pytest.raises(UnsupportedArchitecture, match=arch):
            read_gguf({"general.architecture": arch})

