"""Sizes of checkpoints: the Hub's counts where they are bytes, file headers where they are not, and hostile files."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

import model_configs
import planner
from model_configs.hub import Hub
from model_configs.safetensors import TensorTotal, from_counts
from planner import errors

from .conftest import StartHub
from .server import COMMIT, HubServer, Repo, header_only

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"

# 2 layers of a tiny model: 100 * 16 embedding, 2 * (16 * 16) projections, a 16-wide norm in F32.
TINY = {
    "model.embed_tokens.weight": ("BF16", [100, 16], 3200),
    "model.layers.0.q_proj.weight": ("BF16", [16, 16], 512),
    "model.layers.1.q_proj.weight": ("BF16", [16, 16], 512),
    "model.norm.weight": ("F32", [16], 64),
    "lm_head.weight": ("BF16", [100, 16], 3200),
}
# GPTQ: 16 x 16 weights of 4 bits in 2 x 16 words of 32 bits, with F16 scales.
PACKED = {"model.layers.0.q_proj.qweight": ("I32", [2, 16], 128), "model.layers.0.q_proj.scales": ("F16", [1, 16], 32)}


def weights(server: HubServer, token: str | None = None) -> Any:
    return Hub(server.url, token).weights("org/model", COMMIT)


def shards(**names: bytes) -> dict[str, bytes]:
    """An index with one tensor a file, and the files."""
    files = {f"{name}.safetensors": body for name, body in names.items()}
    index = {"weight_map": {f"t{at}": name for at, name in enumerate(files)}}
    return {"model.safetensors.index.json": json.dumps(index).encode(), **files}


class TestCounts:
    """One request where the Hub has counted."""

    def test_the_hubs_counts_of_whole_floats_are_bytes(self, start_hub: StartHub) -> None:
        """8,030,261,248 BF16 parameters are 16,060,522,496 bytes, from one request at the commit."""
        server = start_hub({"org/model": Repo(parameters={"BF16": 8_030_261_248})})
        found = weights(server)
        assert (found.params, found.bytes, found.commit) == (8_030_261_248, 16_060_522_496, COMMIT)
        assert (found.params_by_dtype, found.bytes_by_dtype) == ({"BF16": 8_030_261_248}, {"BF16": 16_060_522_496})
        assert (found.source, found.tensors) == ("safetensors counts in the Hub's API", {})
        assert server.paths == [f"/api/models/org/model/revision/{COMMIT}?expand=safetensors&expand=sha"]

    def test_a_second_question_makes_no_request(self, start_hub: StartHub) -> None:
        """A commit does not change, so its sizes are kept for everybody."""
        server = start_hub({"org/model": Repo(parameters={"F32": 10})})
        assert weights(server) == weights(server)
        assert len(server.log) == 1

    def test_sizes_that_a_token_opened_are_not_kept(self, start_hub: StartHub) -> None:
        """A stranger is refused after somebody with access has read them."""
        server = start_hub({"org/model": Repo(parameters={"F32": 10}, needs=TOKEN, gated=True)})
        assert weights(server, TOKEN).bytes == 40
        with pytest.raises(errors.Gated):
            weights(server)

    @pytest.mark.parametrize("dtype", ["I32", "U8", "I8", "F8_E4M3", "F4", "U32", "NEW"])
    def test_quantised_counts_are_not_trusted_for_bytes(self, dtype: str) -> None:
        """The Hub counts logical weights of packed tensors and leaves scales out, so bytes would be wrong."""
        assert from_counts({dtype: 1000, "BF16": 10}, COMMIT) is None

    @pytest.mark.parametrize("counts", [None, [], {}, {"BF16": -1}, {"BF16": True}, {"BF16": 1.5}, {"BF16": "1"}])
    def test_counts_that_are_none_are_not_used(self, counts: object) -> None:
        """Whatever a mirror answers, only whole numbers of parameters are counts."""
        assert from_counts(counts, COMMIT) is None

    @pytest.mark.parametrize("fault", ["no-api", "api-not-pinned"])
    def test_without_pinned_counts_the_headers_are_read(self, start_hub: StartHub, fault: str) -> None:
        """A mirror without the API, or one that answers for another commit, costs one more request."""
        repo = Repo(files={"model.safetensors": header_only(TINY)}, parameters={"BF16": 1}, fault=fault)
        assert weights(start_hub({"org/model": repo})).source == "safetensors headers of 1 file"


class TestHeaders:
    """Headers by ranged reads: exact bytes, names and shapes."""

    def test_a_single_file_gives_exact_bytes_and_prefixes(self, start_hub: StartHub) -> None:
        """3,728 parameters in 7,488 bytes, and which module holds them, from one range of one file."""
        server = start_hub({"org/model": Repo(files={"model.safetensors": header_only(TINY)})})
        found = weights(server)
        assert (found.params, found.bytes) == (3728, 7488)
        assert found.params_by_dtype == {"BF16": 3712, "F32": 16}
        assert found.bytes_by_dtype == {"BF16": 7424, "F32": 64}
        assert found.tensors == {
            "model.embed_tokens": TensorTotal(1600, 3200),
            "model.layers": TensorTotal(512, 1024),
            "model.norm": TensorTotal(16, 64),
            "lm_head": TensorTotal(1600, 3200),
        }
        assert server.log[1].headers["Range"] == "bytes=0-99999"
        assert len(server.log) == 2

    def test_prefixes_stop_at_numbers_and_after_two_names(self, start_hub: StartHub) -> None:
        """h.0.attn is in h, a vision tower is apart from the language model, a bare name is its own."""
        tensors = {
            "h.0.attn.c_attn.weight": ("F16", [2], 4),
            "model.vision_tower.blocks.1.weight": ("F16", [3], 6),
            "0.weight": ("F16", [1], 2),
            "scale": ("F32", [], 4),
        }
        server = start_hub({"org/model": Repo(files={"model.safetensors": header_only(tensors)})})
        assert weights(server).tensors == {
            "h": TensorTotal(2, 4),
            "model.vision_tower": TensorTotal(3, 6),
            "0.weight": TensorTotal(1, 2),
            "scale": TensorTotal(1, 4),
        }

    def test_packed_checkpoints_count_stored_elements(self, start_hub: StartHub) -> None:
        """256 weights of 4 bits are 32 stored words: bytes are exact and params are what is stored."""
        repo = Repo(files={"model.safetensors": header_only(PACKED)}, parameters={"I32": 256, "F16": 0})
        found = weights(start_hub({"org/model": repo}))
        assert (found.params, found.bytes, found.params_by_dtype) == (48, 160, {"I32": 32, "F16": 16})

    def test_half_byte_and_unknown_dtypes_have_exact_bytes(self, start_hub: StartHub) -> None:
        """3 values of F4 round up to 2 bytes; a dtype newer than the table has its offsets."""
        tensors = {"a.w": ("F4", [3], 2), "b.w": ("F8_E8M0", [5], 5), "c.w": ("F2_NEW", [8], 2)}
        found = weights(start_hub({"org/model": Repo(files={"model.safetensors": header_only(tensors)})}))
        assert found.bytes_by_dtype == {"F4": 2, "F8_E8M0": 5, "F2_NEW": 2}

    def test_shards_are_added_up(self, start_hub: StartHub) -> None:
        """The index names the files, each file's own header is read, tensors of every file count."""
        one, two = dict(list(TINY.items())[:2]), dict(list(TINY.items())[2:])
        files = shards(a=header_only(one), b=header_only(two))
        server = start_hub({"org/model": Repo(files=files)})
        found = weights(server)
        assert (found.params, found.bytes, found.source) == (3728, 7488, "safetensors headers of 2 files")
        assert found.tensors["model.layers"] == TensorTotal(512, 1024)
        assert len(server.log) == 5  # counts, single file (missing), index, two shards

    def test_forty_shards_are_read(self, start_hub: StartHub) -> None:
        """More shards than parallel readers."""
        body = header_only({"a.w": ("BF16", [1000], 2000)})
        server = start_hub({"org/model": Repo(files=shards(**{f"s{at}": body for at in range(40)}))})
        assert weights(server).bytes == 80_000

    def test_a_header_longer_than_the_first_range_takes_one_more(self, start_hub: StartHub) -> None:
        """The second range goes on where the first ended."""
        body = header_only(TINY, pad=220_000)
        server = start_hub({"org/model": Repo(files={"model.safetensors": body})})
        assert weights(server).bytes == 7488
        ranges = [seen.headers["Range"] for seen in server.log[1:]]
        assert ranges == ["bytes=0-99999", f"bytes=100000-{len(body) - 1}"]

    @pytest.mark.parametrize("pad", [0, 220_000])
    def test_a_server_that_ignores_range_does_not_make_us_read_the_file(self, start_hub: StartHub, pad: int) -> None:
        """A 200 MB file answered whole is left as soon as the header is there."""
        body = header_only(TINY, pad=pad) + bytes(200_000_000)
        server = start_hub({"org/model": Repo(files={"model.safetensors": body}, fault="ignore-range")})
        assert weights(server).bytes == 7488
        assert server.sent < 40_000_000

    def test_another_range_than_asked_for_is_refused(self, start_hub: StartHub) -> None:
        """Bytes from somewhere else in the file are not a header."""
        repo = Repo(files={"model.safetensors": header_only(TINY)}, fault="other-range")
        with pytest.raises(errors.BadContent, match="another byte range"):
            weights(start_hub({"org/model": repo}))

    def test_a_cdn_gets_the_range_and_no_token(self, start_hub: StartHub) -> None:
        """Large files are redirected to another host."""
        repo = Repo(files={"model.safetensors": header_only(TINY)}, needs=TOKEN, gated=True, fault="cdn")
        server = start_hub({"org/model": repo})
        assert weights(server, TOKEN).bytes == 7488
        last = server.log[-1]
        assert last.path.startswith("/cdn/")
        assert (last.token, last.headers["Range"]) == (None, "bytes=0-99999")

    def test_a_token_is_tried_without_once_not_once_a_shard(self, start_hub: StartHub) -> None:
        """After one refusal every further request of that call carries the token."""
        files = shards(**{f"s{at}": header_only(TINY) for at in range(3)})
        server = start_hub({"org/model": Repo(files=files, needs=TOKEN, gated=True)})
        assert weights(server, TOKEN).bytes == 3 * 7488
        assert [seen.token for seen in server.log].count(None) == 1


class TestRefusals:
    """What is no safetensors checkpoint, and what only pretends."""

    def test_a_repository_without_safetensors_has_no_weights_here(self, start_hub: StartHub) -> None:
        """GGUF or .bin repositories give NoWeights, which says what was looked for."""
        server = start_hub({"org/model": Repo(files={"pytorch_model.bin": b"x"})})
        with pytest.raises(errors.NoWeights, match=r"no model\.safetensors"):
            weights(server)

    @pytest.mark.parametrize(
        ("repo", "kind"),
        [
            (Repo(files={"model.safetensors": header_only(TINY)}, needs=TOKEN), errors.NotFound),
            (Repo(files={"model.safetensors": header_only(TINY)}, needs=TOKEN, gated=True), errors.Gated),
            (Repo(files={}, commit="f" * 40), errors.NoRevision),
            (Repo(fault="500"), errors.Unavailable),
            (Repo(fault="429 Retry-After: 5"), errors.RateLimited),
        ],
    )
    def test_refusals_are_those_of_the_files(self, start_hub: StartHub, repo: Repo, kind: type[errors.HubError]) -> None:
        """The same classes as for a config."""
        server = start_hub({"org/model": repo})
        with pytest.raises(kind):
            weights(server)

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"", "shorter than its header says"),
            (b"1234567", "too small"),
            (struct.pack("<Q", 2**63) + b"{}", "claims a header of 9,223,372,036,854,775,808 bytes"),
            (struct.pack("<Q", 25_000_001) + b"{}", "claims a header of 25,000,001 bytes"),
            (struct.pack("<Q", 1000) + b"{}", "shorter than its header says"),
            (struct.pack("<Q", 200_000) + b" " * 150_000, "ends inside its own header"),
            (struct.pack("<Q", 4) + b"oops", "not JSON"),
            (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
            (struct.pack("<Q", 8) + b'{"a": 1}', "without dtype, shape and offsets"),
            (header_only({"a": ("F32", [2, 2], 8)}), "gives 'a' 8 bytes for 4 F32"),
            (header_only({"a": ("F32", [-2, -2], 16)}), "without dtype, shape and offsets"),
            (header_only({"a": ("F32", [2**62] * 65, 16)}), "without dtype, shape and offsets"),
            (header_only({"a": ("NEW", [1], -5)}), "without dtype, shape and offsets"),
        ],
    )
    def test_a_file_that_contradicts_itself_is_bad_content(self, start_hub: StartHub, body: bytes, words: str) -> None:
        """Each lie is named, and none of them makes the reader read or compute much."""
        server = start_hub({"org/model": Repo(files={"model.safetensors": body})})
        with pytest.raises(errors.BadContent, match=words):
            weights(server)

    def test_a_huge_header_claim_is_refused_before_it_is_read(self, start_hub: StartHub) -> None:
        """25,000,001 claimed bytes cost one first range, not 25 MB."""
        body = struct.pack("<Q", 25_000_001) + bytes(30_000_000)
        server = start_hub({"org/model": Repo(files={"model.safetensors": body})})
        with pytest.raises(errors.BadContent):
            weights(server)
        assert server.sent < 200_000

    def test_shards_together_have_a_limit_too(self, start_hub: StartHub) -> None:
        """Three shards that claim 24 MB of header each are refused at 64 MB, although each alone is allowed."""
        body = struct.pack("<Q", 24_000_000) + b"{}"
        padded = body + b" " * 24_000_000
        server = start_hub({"org/model": Repo(files=shards(a=padded, b=padded, c=padded))})
        with pytest.raises(errors.TooLarge, match="64,000,000 bytes"):
            weights(server)

    @pytest.mark.parametrize(
        "index",
        [
            b"[]",
            b"{}",
            b'{"weight_map": {}}',
            b'{"weight_map": {"a": 1}}',
            b'{"weight_map": {"a": "../../other/model/resolve/main/model.safetensors"}}',
            b'{"weight_map": {"a": "/etc/model.safetensors"}}',
            b'{"weight_map": {"a": "pytorch_model.bin"}}',
            b'{"weight_map": {"a": "not-there.safetensors"}}',
            json.dumps({"weight_map": {str(n): f"{n}.safetensors" for n in range(1001)}}).encode(),
        ],
    )
    def test_an_index_that_leads_nowhere_is_bad_content(self, start_hub: StartHub, index: bytes) -> None:
        """Its file names become URLs, so they stay inside the repository."""
        server = start_hub({"org/model": Repo(files={"model.safetensors.index.json": index})})
        with pytest.raises(errors.BadContent):
            weights(server)
        assert not [path for path in server.paths if "other" in path or "etc" in path]

    @pytest.mark.parametrize("commit", ["main", "0123abc", COMMIT.upper()])
    def test_weights_are_asked_for_at_a_commit(self, start_hub: StartHub, commit: str) -> None:
        """A branch moves, so its size would be of nothing in particular."""
        server = start_hub({"org/model": Repo(parameters={"F32": 10})})
        with pytest.raises(errors.InputError) as caught:
            Hub(server.url).weights("org/model", commit)
        assert caught.value.fields["field"] == "commit"
        assert server.log == []


CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
BESIDE = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


class TestQuantizationFile:
    """ModelOpt says in hf_quant_config.json, beside config.json, how weights and cache are stored."""

    def files(self, dtype: str, **more: object) -> dict[str, bytes]:
        tensors = {"model.layers.0.mlp.up_proj.weight": (dtype, [512, 256], 512 * 256 * (1 if dtype == "F8_E4M3" else 2))}
        texts = {"config.json": CONFIG, **more}
        return {"model.safetensors": header_only(tensors), **{name: json.dumps(text).encode() for name, text in texts.items()}}

    def read(self, server: HubServer, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        return model_configs.read("hub:org/model")

    def test_it_is_read_where_weights_are_narrow(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
        """`auto` then stores the cache in fp8, as vLLM does with that file: 2 layers x 2 x 4 heads x 64 x 1 B x 16 tokens."""
        server = start_hub({"org/model": Repo(files=self.files("F8_E4M3", **{"hf_quant_config.json": BESIDE}))})
        model = self.read(server, monkeypatch)
        assert model.config["hf_quant_config"] == BESIDE
        pool = planner.engine("vllm").pool(model, budget_bytes=planner.GIB, gpu="h100")
        assert pool.bytes_per_block == 2 * 2 * 4 * 64 * 16

    def test_whole_floats_cost_no_further_request(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
        server = start_hub({"org/model": Repo(files=self.files("BF16", **{"hf_quant_config.json": BESIDE}))})
        assert "hf_quant_config" not in self.read(server, monkeypatch).config
        assert not any("hf_quant_config" in path for path in server.paths)

    def test_narrow_weights_without_it_are_read_all_the_same(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
        server = start_hub({"org/model": Repo(files=self.files("F8_E4M3"))})
        model = self.read(server, monkeypatch)
        assert (model.weight_bytes, model.notes) == (512 * 256, ())
        assert server.paths[-1].endswith("/hf_quant_config.json")
