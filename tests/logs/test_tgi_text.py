"""TGI's start-up text: launcher, router and shards, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from tests.logs.checked import check, entries, said
from tests.logs.paged_text import text as written
from tests.logs.wrapped import WRAPPERS
from validation.logs import explain, read

LOGS = entries("tgi")
TWO_SHARDS = """\
2025-06-01T10:00:00.000000Z  INFO text_generation_launcher: Args {
    model_id: "meta-llama/Llama-3.1-8B",
    num_shard: Some(
        2,
    ),
    kv_cache_dtype: None,
    cuda_memory_fraction: 1.0,
}
2025-06-01T10:00:01.000000Z  INFO text_generation_launcher: Using attention flashinfer - Prefix caching true
2025-06-01T10:00:02.000000Z  INFO text_generation_launcher: Default `max_batch_prefill_tokens` to 4096
2025-06-01T10:00:09.000000Z  INFO text_generation_launcher: Using prefill chunking = True
2025-06-01T10:00:12.000000Z  INFO text_generation_launcher: KV-cache blocks: 400000, size: 1
2025-06-01T10:00:15.000000Z  INFO text_generation_router_v3: backends/v3/src/lib.rs:137: Setting max batch total tokens to 399488
"""


@pytest.mark.parametrize("name", LOGS)
def test_rows_of_public_logs(name: str) -> None:
    """Models without a flash implementation: the router's own 16,000."""
    entry = LOGS[name]
    log, found = check(written(entry, {"reported": entry["printed"], "model": "google/flan-t5-base"}))
    assert (log.engine, log.figures["max_batch_total_tokens"]) == ("tgi", 16_000)
    assert found.agrees
    assert "no memory arithmetic" in said(found)


def test_the_least_shard_is_the_limit() -> None:
    """Rank 0 prints 400,000 blocks of one token; the router's 399,488 is another shard's."""
    log, found = check(TWO_SHARDS)
    assert (log.model, log.settings["num_shard"], log.settings["attention"]) == ("meta-llama/Llama-3.1-8B", 2, "flashinfer")
    assert found.agrees
    assert "the least of 2 shards" in said(found)
    # 32 layers x 2 x 4 heads x 128 x 2 B = 65,536 B; x 400,000 = 24.41 GiB.
    assert "400,000 tokens x 65,536 B" in said(found)
    assert "24.41 GiB" in said(found)
    assert any("Free memory" in text for text in found.missing)


def test_more_than_rank_0_has_cannot_be() -> None:
    _, found = check(TWO_SHARDS.replace("399488", "500000"))
    assert not found.agrees


def test_one_shard_must_agree_exactly() -> None:
    _, found = check(TWO_SHARDS.replace("num_shard: Some(\n        2,\n    )", "num_shard: None"))
    assert not found.agrees


def test_json_lines() -> None:
    """Router lines have the message at the top, shard lines below `fields`; both are read."""
    lines = [
        {"timestamp": "2025-06-01T10:00:12Z", "level": "INFO", "fields": {"message": "KV-cache blocks: 123449, size: 1"},
         "target": "text_generation_launcher", "span": {"rank": 0, "name": "shard-manager"}},
        {"timestamp": "2025-06-01T10:00:15Z", "level": "INFO", "message": "Setting max batch total tokens to 123449",
         "target": "text_generation_router"},
    ]  # fmt: skip
    log, found = check("\n".join(json.dumps(line) for line in lines) + "\n")
    assert log.figures["blocks"] == log.figures["max_batch_total_tokens"] == 123_449
    assert found.agrees


def test_a_warm_up_that_does_not_fit() -> None:
    text = TWO_SHARDS.split("2025-06-01T10:00:12")[0] + (
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"
    )
    log, found = check(text)
    assert log.figures["refused_prefill_tokens"] == 4096
    assert "refused" in said(found)
    assert any("--max-batch-prefill-tokens" in text for text in found.advice)


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped(name: str) -> None:
    plain, log = read(TWO_SHARDS), read(WRAPPERS[name](TWO_SHARDS))
    assert log.figures == plain.figures
    assert explain(log).agrees
