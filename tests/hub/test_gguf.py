"""GGUF files on the Hub: chosen by quantisation, and only their headers read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import model_configs
from model_configs.gguf import split_reference
from model_configs.gguf_hub import choose
from planner.errors import BadContent, Gated, InputError, NotFound, PlannerError, UnsupportedArchitecture
from planner.layers import Full
from tests.gguf_files import BLOCKS, DAMAGED, KV_HEADS, LAYERS, header, split, write

from .conftest import StartHub
from .server import COMMIT, Repo, Seen

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"


@pytest.fixture
def big(tmp_path: Path) -> bytes:
    """A file of 20 MB whose header, with a vocabulary of 60,000 words, is 1.1 MB."""
    path = write(tmp_path / "big.gguf", vocabulary=60_000)
    return path.read_bytes() + bytes(20_000_000)


def ranges(log: Sequence[Seen]) -> list[tuple[int, int]]:
    """First and last byte of each request for a file."""
    asked = [seen.headers.get("Range", "") for seen in log if ".gguf" in seen.path]
    return [(int(first), int(last)) for first, last in (each.removeprefix("bytes=").split("-") for each in asked if each)]


class TestHub:
    """org/repo:Q4_K_M: the list of files, then pieces of one header."""

    def test_a_header_by_ranges(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, big: bytes) -> None:
        """Every request for the file has a range, and together they are a small part of it."""
        files = {"model-Q4_K_M.gguf": big, "model-Q8_0.gguf": b"", "mmproj-Q4_K_M.gguf": b""}
        server = start_hub({"org/model-GGUF": Repo(files)})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        model = model_configs.read("org/model-GGUF:Q4_K_M")
        assert (str(model.source), model.layers[0].caches) == (f"hub:org/model-GGUF:Q4_K_M@{COMMIT}", (Full(KV_HEADS, 64, 64),))
        asked = ranges(server.log)
        assert len(asked) == sum(".gguf" in seen.path for seen in server.log) > 1
        assert asked[0][0] == 0
        assert all(begin == before[1] + 1 for before, begin in zip(asked, [a[0] for a in asked[1:]], strict=False))
        assert asked[-1][1] < 4_000_000 < len(big)
        assert all(f"/resolve/{COMMIT}/" in seen.path for seen in server.log if ".gguf" in seen.path)

    def test_a_second_reading_makes_no_request(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, big: bytes) -> None:
        server = start_hub({"org/m": Repo({"m.Q4_K_M.gguf": big})})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        first = model_configs.read("hub:org/m:Q4_K_M")
        count = len(server.log)
        assert model_configs.read("org/m:Q4_K_M").weights == first.weights
        assert len(server.log) == count

    def test_a_split_model(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        files = {f"Q8_0/{path.name}": path.read_bytes() for path in split(tmp_path)}
        server = start_hub({"org/m": Repo(files)})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert model_configs.read("org/m:Q8_0").weight_bytes == 2 * 64 * 32 * 4

    def test_a_server_that_ignores_ranges(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, big: bytes) -> None:
        """It sends the whole file from its beginning; no more is taken than was asked for."""
        server = start_hub({"org/m": Repo({"m-Q4_K_M.gguf": big}, fault="ignore-range")})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert len(model_configs.read("org/m:Q4_K_M").layers) == LAYERS

    @pytest.mark.parametrize(
        ("repo", "kind"),
        [
            (Repo({"m-Q4_K_M.gguf": b"GGUF"}), BadContent),
            (Repo({"m-Q4_K_M.gguf": DAMAGED["an array of strings without end"]}), BadContent),
            (Repo({"m-Q4_K_M.gguf": b"<html>"}), BadContent),
            (Repo({"m-Q4_K_M.gguf": header(BLOCKS)}), UnsupportedArchitecture),
            (Repo({"m-Q8_0.gguf": b"", "m-BF16.gguf": b""}), InputError),
            (Repo({"a-Q4_K_M.gguf": b"", "b-Q4_K_M.gguf": b""}), InputError),
            (Repo({"m-Q4_K_M-00001-of-00003.gguf": b""}), InputError),
            (Repo({"config.json": b"{}"}), InputError),
            (Repo({"m-Q4_K_M.gguf": b""}, gated=True, needs=TOKEN), Gated),
            (Repo({"m-Q4_K_M.gguf": b""}, fault="no-api"), NotFound),
        ],
    )
    def test_each_failure_is_one_error(
        self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, repo: Repo, kind: type[PlannerError]
    ) -> None:
        server = start_hub({"org/m": repo})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(kind) as failure:
            model_configs.read("org/m:Q4_K_M")
        assert "\n" not in failure.value.message

    def test_a_gated_file_with_a_token(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, big: bytes) -> None:
        """A person's token opens it for this call; nothing of it is kept for others."""
        server = start_hub({"org/m": Repo({"m-Q4_K_M.gguf": big}, gated=True, needs=TOKEN)})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert model_configs.read("org/m:Q4_K_M", token=TOKEN).layers
        with pytest.raises(Gated):
            model_configs.read("org/m:Q4_K_M")


class TestChoosing:
    """Which file a quantisation means."""

    FILES = (
        "Model-Q4_K_M.gguf", "Model-Q4_K_S.gguf", "Model-UD-Q4_K_XL.gguf", "Model-IQ4_XS.gguf", "Model.f16.gguf",
        "mmproj-BF16.gguf", "BF16/Model-BF16-00002-of-00002.gguf", "BF16/Model-BF16-00001-of-00002.gguf",
        "Model-Q4_K_M.imatrix.gguf",
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("wanted", "files"),
        [
            ("Q4_K_M", ["Model-Q4_K_M.gguf"]),
            ("q4_k_s", ["Model-Q4_K_S.gguf"]),
            ("Q4_K_XL", ["Model-UD-Q4_K_XL.gguf"]),
            ("UD-Q4_K_XL", ["Model-UD-Q4_K_XL.gguf"]),
            ("F16", ["Model.f16.gguf"]),
            ("BF16", ["BF16/Model-BF16-00001-of-00002.gguf", "BF16/Model-BF16-00002-of-00002.gguf"]),
            ("Model-IQ4_XS.gguf", ["Model-IQ4_XS.gguf"]),
        ],
    )
    def test_whole_words(self, wanted: str, files: list[str]) -> None:
        assert choose(self.FILES, wanted, "org/m") == files

    def test_what_there_is_instead(self) -> None:
        with pytest.raises(InputError, match="it has BF16, F16, IQ4_XS, Q4_K_M, Q4_K_S, UD-Q4_K_XL"):
            choose(self.FILES, "Q4_K", "org/m")

    @pytest.mark.parametrize(
        ("name", "reference"),
        [
            ("org/repo:Q4_K_M", ("org/repo", "Q4_K_M")),
            ("org/repo:sub/file.gguf", ("org/repo", "sub/file.gguf")),
            ("org/repo", None),
            ("repo:Q4_K_M", None),
            ("org/repo:", None),
            ("org/repo:../x", None),
        ],
    )
    def test_references(self, name: str, reference: tuple[str, str] | None) -> None:
        assert split_reference(name) == reference
