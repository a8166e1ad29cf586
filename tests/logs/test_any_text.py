"""Start-up logs that are damaged, mixed up or no logs at all: figures, warnings or one clear error come of them."""

from __future__ import annotations

import math
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError, PlannerError
from tests.logs import test_llama_cpp_text as llama_cpp
from tests.logs import test_ollama_text as ollama
from tests.logs import test_sglang_text as sglang
from tests.logs import test_tensorrt_llm_text as tensorrt_llm
from tests.logs import test_tgi_text as tgi
from tests.logs.wrapped import WRAPPERS
from validation.logs import Check, Log, explain, read

TEXTS = {
    "llama.cpp": llama_cpp.QWEN36_MTP, "llama.cpp windows": llama_cpp.GPT_OSS_65K, "llama.cpp 2025": llama_cpp.R1_OLLAMA,
    "ollama": ollama.own_engine(4, 16384, "f16", "2.0 GiB"), "ollama 0.33": ollama.LLAMA_SERVER,
    "sglang": sglang.RANKS.format(rank=0, free="23.40", end="11.20"),
    "tensorrt-llm": tensorrt_llm.TWO, "tgi": tgi.TWO_SHARDS,
}  # fmt: skip
#: Edits of a text at a place: what a paste, a person or a collector does to it.
ODD = ("\x1b[31m", "\x00", "…", '"', "{", "9" * 40, "\r", " = ", "NaN", "é")
EDITS = ("cut line", "cut text", "drop", "repeat", "swap", "digit", "insert", "join", "blank", "case")


def edited(text: str, seed: int, count: int) -> str:
    """The text after so many random edits."""
    dice = random.Random(seed)
    for _ in range(count):
        lines = text.split("\n")
        at = dice.randrange(len(lines))
        line = lines[at]
        spot = dice.randrange(len(line) + 1)
        edit = dice.choice(EDITS)
        if edit == "cut line":
            lines[at] = line[:spot]
        elif edit == "cut text":
            lines = lines[: at + 1]
        elif edit == "drop":
            del lines[at]
        elif edit == "repeat":
            lines.insert(at, line)
        elif edit == "swap":
            other = dice.randrange(len(lines))
            lines[at], lines[other] = lines[other], line
        elif edit == "digit":
            lines[at] = line[:spot] + dice.choice("0123456789,. -") + line[spot + 1 :]
        elif edit == "insert":
            lines[at] = line[:spot] + dice.choice(ODD) + line[spot:]
        elif edit == "join" and at + 1 < len(lines):
            lines[at : at + 2] = [line + lines[at + 1]]
        elif edit == "blank":
            lines[at] = line[:spot] + " " * dice.randrange(200) + line[spot:]
        elif edit == "case":
            lines[at] = line.upper()
        text = "\n".join(lines)
    return text


def held(text: str) -> tuple[Log, Check] | None:
    """The log and its check, both of finite numbers; None where the text is refused with one clear line."""
    refused = ""
    try:
        log = read(text)
        found = explain(log)
    except PlannerError as error:
        refused = error.message
    if refused:
        assert "\n" not in refused
        return None
    for figure in log.all:
        assert math.isfinite(figure.value)
        assert figure.slack >= 0
    for line in found.lines:
        assert math.isfinite(line.printed)
        assert math.isfinite(line.ours)
        assert line.rule
    assert found.agrees <= bool(found.lines)
    return log, found


@pytest.mark.parametrize("name", TEXTS)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12))
@settings(max_examples=25)
def test_damaged(name: str, seed: int, count: int) -> None:
    held(edited(TEXTS[name], seed, count))


@pytest.mark.parametrize("name", TEXTS)
@given(seed=st.integers(0, 10**6), wrapper=st.sampled_from(sorted(WRAPPERS)))
@settings(max_examples=15)
def test_damaged_and_wrapped(name: str, seed: int, wrapper: str) -> None:
    held(WRAPPERS[wrapper](edited(TEXTS[name], seed, 4)))


@given(st.text(max_size=2000))
@settings(max_examples=100)
def test_no_log_at_all(text: str) -> None:
    held(text)


@given(st.lists(st.sampled_from(sorted(TEXTS)), min_size=2, max_size=3))
@settings(max_examples=30)
def test_several_engines_in_one_paste(names: list[str]) -> None:
    assert held("\n".join(TEXTS[name] for name in names)) is not None


@pytest.mark.parametrize("name", TEXTS)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    """Ten times the lines take no more than thirty times as long: no pattern looks back over the text."""

    def seconds(times: int) -> float:
        text = TEXTS[name] * times
        started = time.perf_counter()
        read(text)
        return time.perf_counter() - started

    seconds(1)
    small = min(seconds(5) for _ in range(3))
    assert seconds(50) < 30 * small + 1


@pytest.mark.parametrize("line", ["size = " * 4000, "KV Cache is allocated. " * 2000, " " * 40_000 + "x", "[" * 40_000])
def test_a_line_without_an_end(line: str) -> None:
    held(line + "\n" + TEXTS["llama.cpp"])


def test_an_empty_paste_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        read(" \n ")
