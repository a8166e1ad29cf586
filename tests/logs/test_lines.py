"""Messages out of pastes: what containers, collectors, terminals and web pages put around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.units import GIB
from tests.logs.wrapped import WRAPPERS
from validation.logs.lines import MAX_CHARACTERS, MAX_LINES, clean
from validation.logs.shapes import figure, scan, shape

_TOKENS = "GPU KV cache size: 26,800 tokens"
_HEADED = f"(EngineCore_DP1 pid=118) INFO 09-16 12:14:27 [kv_cache_utils.py:2146] {_TOKENS}"


@pytest.mark.parametrize(
    ("text", "message", "rank", "source"),
    [
        (_HEADED, _TOKENS, "DP1", "kv_cache_utils.py:2146"),
        (f"INFO 05-01 10:00:00 kv_cache_utils.py:634] {_TOKENS}", _TOKENS, None, "kv_cache_utils.py:634"),
        (f"(Worker_DP0_PP1_TP3 pid=7) INFO 05-01 10:00:00 [a.py:1] {_TOKENS}", _TOKENS, "DP0 PP1 TP3", "a.py:1"),
        (f"(VllmWorker rank=2 pid=7) INFO 05-01 10:00:00 [a.py:1] {_TOKENS}", _TOKENS, "rank 2", "a.py:1"),
        (f"(RayWorkerWrapper pid=7, ip=10.0.0.2) INFO 05-01 10:00:00 a.py:1] {_TOKENS}", _TOKENS, None, "a.py:1"),
        (f"(RayX pid=7) (EngineCore_DP2 pid=9) INFO 05-01 10:00:00 [a.py:1] {_TOKENS}", _TOKENS, "DP2", "a.py:1"),
        ("[2026-09-12 00:22:48 DP0 TP1] Memory pool end. avail mem=8 GB", "Memory pool end. avail mem=8 GB", "DP0 TP1", None),
        ("[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.19 GiB", "[MemUsageChange] Allocated 0.19 GiB", None, None),
        ("[12/16/2025-06:47:10] [TRT-LLM] [RANK 3] [I] max_seq_len=1", "max_seq_len=1", "rank 3", None),
        (f"> > - {_TOKENS}", _TOKENS, None, None),
        (f"[pod/vllm-0/main] {_HEADED}", _TOKENS, "DP1", "kv_cache_utils.py:2146"),
        (f"oct. 30 12:00:00 host vllm[12]: {_TOKENS}", _TOKENS, None, None),
        (f"{_TOKENS} \x1b[0m", _TOKENS, None, None),
        (f"#033[32m{_TOKENS}#033[0m", _TOKENS, None, None),
    ],
)  # fmt: skip
def test_a_message_without_what_stood_before_it(text: str, message: str, rank: str | None, source: str | None) -> None:
    (line,) = clean(text)
    assert (line.text, line.rank, line.source, line.number) == (message, rank, source, 1)


def test_names_in_brackets_are_no_colours() -> None:
    """A lost escape leaves [0;36m, and [model_runner.py:1] is none of it."""
    (line,) = clean("[0;36m(EngineCore pid=1)[0;0m [model_runner.py:1] loads [m]")
    assert (line.text, line.process, line.pid) == ("[model_runner.py:1] loads [m]", "EngineCore", "1")


def test_a_line_that_two_processes_wrote_is_two_messages() -> None:
    text = "(Worker_TP0 pid=1) INFO 01-31 10:00:00 [a.py:1] one(Worker_TP1 pid=2) INFO 01-31 10:00:00 [a.py:1] two"
    assert [(line.rank, line.text) for line in clean(text)] == [("TP0", "one"), ("TP1", "two")]


def test_json_and_logfmt_keep_their_pairs() -> None:
    """The message is the text; what else a record has stays beside it, as Ollama's devices and TGI's ranks."""
    texts = [
        '{"timestamp": "t", "fields": {"message": "KV-cache blocks: 9"}, "span": {"rank": 2, "name": "shard"}}',
        'time=t level=INFO source=device.go:256 msg="kv cache" device=CPU size="384.0 MiB" "model layers"=49',
        '{"log": "{\\"message\\": \\"inner\\"}\\n", "stream": "stderr"}',
        '{"message": "first\\nsecond"}',
        '{"message": "cut after \\"this\\" and',
    ]
    found = clean("\n".join(texts))
    assert [line.text for line in found] == [
        "KV-cache blocks: 9", "kv cache", "inner", "first", "second", '{"message": "cut after "this" and'
    ]  # fmt: skip
    assert found[0].rank == "rank 2"
    assert (found[1].fields["size"], found[1].fields["model layers"]) == ("384.0 MiB", "49")
    assert [line.number for line in found] == [1, 2, 3, 4, 4, 5]


def test_parts_of_a_container_record_are_one_line() -> None:
    stamp = "2026-05-20T12:00:00.123456789Z stderr"
    (line,) = clean(f"{stamp} P GPU KV cache \n{stamp} P size: 26,8\n{stamp} F 00 tokens")
    assert line.text == _TOKENS


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper_comes_off(name: str) -> None:
    messages = [line.text for line in clean(WRAPPERS[name](f"{_HEADED}\n"))]
    assert _TOKENS in "".join(messages).replace("  ", " ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"), (" \n\t", "empty"), ("a" * (MAX_CHARACTERS + 1), "characters"), ("\n" * (MAX_LINES + 1) + "a", "lines"),
        ("MZ\0\0\0\0\x01", "not text"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_one_clear_error(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        clean(text)
    assert error.value.fields["field"] == "log"


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    """Numbers of lines only grow, and no message is empty."""
    try:
        found = clean(text)
    except InputError:
        return
    assert all(line.text.strip() for line in found)
    assert [line.number for line in found] == sorted(line.number for line in found)


_ROW = shape("KV cache size:", r"KV cache size: {gpu_kv_cache_tokens:N} tokens", "tokens")
_NEED = shape("max seq len (", r"max seq len \({length:N}\), \({kv_needed_bytes:X} GiB KV cache is needed", "a refusal", digits=2)


@pytest.mark.parametrize(
    "text",
    [
        _TOKENS, "GPU KV cache size: 26 800 tokens", "GPU KV cache size: 26800 tokens", "GPU KV cac\nhe size: 26,800 tokens",
        "GPU KV cache size: 26,8\n00 tokens", "GPU KV cache\nsize: 26,800\ntokens", "GPU KV cache size:      \n26,800 tokens",
        f"GPU KV cache size: (Worker_TP1 pid=2) INFO 01-31 10:00:00 [a.py:1] other\n{_TOKENS[-13:]}",
    ],
)  # fmt: skip
def test_a_wrapped_message_is_put_together(text: str) -> None:
    (found,) = scan(clean(text), (_ROW, _NEED)).found
    assert found.figure("gpu_kv_cache_tokens").value == 26_800


@pytest.mark.parametrize("text", ["KV cache size: 26,8", "GPU KV cache size: 1,23 tokens of", "GPU KV cache size: 26,800 tok"])
def test_a_cut_number_is_none(text: str) -> None:
    found = scan(clean(text), (_ROW,))
    assert not found.found
    assert [line.number for _, line in found.cut] == [1]


def test_the_source_of_a_message_has_no_figures() -> None:
    """A traceback prints the line of code with its placeholders."""
    assert not scan(clean('f"max seq len ({max_len}), ({need:.2f} GiB KV cache is needed"'), (_NEED,)).found


def test_what_digits_are_worth() -> None:
    """%.2f and round(x, 2) both hide half a hundredth; bytes and whole numbers hide nothing."""
    (line,) = clean("x")
    assert figure("a_bytes", "5.33", line).slack == figure("a_bytes", "5.0", line, digits=2).slack == 0.005 * GIB
    assert figure("a_bytes", "5", line, digits=2).slack == 0.005 * GIB
    assert (figure("a_bytes", "5", line).value, figure("a_bytes", "5", line).slack) == (5 * GIB, 0.5 * GIB)
    assert (figure("a_bytes", "39207879578", line, "B").value, figure("a_bytes", "7", line, "B").slack) == (39207879578, 0)
    assert (figure("tokens", "268,560", line, digits=2).value, figure("tokens", "268,560", line).slack) == (268_560, 0)
    assert (figure("share", "0.9", line).value, figure("max_concurrency", "1.15", line).slack) == (0.9, 0.005)
