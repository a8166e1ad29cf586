"""Every figure's reason is one click away: arithmetic that ends in the figure, and a shell command that prints it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import cli
from tests.arithmetic import calculated
from tests.ui.conftest import OpenPage
from tests.ui.reading import DEEPSEEK, GEMMA, LLAMA, NEXT
from ui.i18n import NAMES, texts
from ui.reason import linked

LANGUAGES = tuple(NAMES)


@dataclass(frozen=True)
class Shown:
    """A popover: the button's words, what it says, its arithmetic, and the command with the figure's name in its JSON."""

    label: str
    said: str
    lines: tuple[str, ...]
    command: str
    name: str

    def end(self) -> Any:
        """What a calculator makes of the last line; the page's own result stands behind the last =."""
        *_, numbers, result = (part.strip() for part in self.lines[-1].split("="))
        found = calculated(numbers or result)
        assert float(found) == pytest.approx(float(result.replace(",", "")), rel=1e-9)
        return found

    def printed(self) -> Any:
        """The figure of this name in what the command prints."""
        words = shlex.split(self.command)
        assert words[:3] == ["python", "-m", "planner"]
        assert words[-1] == "--json"
        found: Any = cli.answer(words[3:])
        for step in re.findall(r"\w+", self.name):
            found = found[int(step) if step.isdigit() else step]
        return found


def shown(page: AppTest) -> list[Shown]:
    """The page's reasons in their order."""
    assert not page.exception, page.exception[0].stack_trace
    return list(_shown(page))


def _shown(page: AppTest) -> Iterator[Shown]:
    for block in page.get("popover"):
        codes = [str(code.value) for code in block.code]
        if len(codes) == 2 and codes[1].startswith("python -m planner"):
            said = "\n".join(str(text.value) for text in block.markdown)
            name = re.findall(r"`([^`]+)`", said)[-1]
            yield Shown(str(block.proto.popover.label), said, tuple(codes[0].splitlines()), codes[1], name)


def exact(text: object) -> int:
    """The whole number in a text like "10,737,418,240 bytes"."""
    return int(re.sub(r"\D", "", str(text)))


QUESTIONS: tuple[dict[str, object], ...] = (
    {}, {"model": GEMMA, "tokens": 131072, "requests": 3, "kv": "int4"}, {"model": DEEPSEEK, "kv": "fp8"},
    {"model": NEXT, "requests": 8}, {"model": "openai/whisper-large-v3", "tokens": 448},
)  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_each_tile_of_the_plan_page_says_why(open_page: OpenPage, question: dict[str, object]) -> None:
    page = open_page(**question)
    total, request, token, share = shown(page)
    assert total.end() == total.printed() == exact(page.metric[0].delta)
    assert request.end() == request.printed() == exact(page.metric[1].delta)
    assert float(token.end()) == pytest.approx(token.printed(), rel=1e-12)
    assert f"{float(share.end()):,.1f} %" == page.metric[3].value == f"{share.printed():,.1f} %"
    for one, tile in zip((total, request, token, share), page.metric, strict=True):
        assert str(tile.value) in one.label.replace("\\", "")


@pytest.mark.parametrize(
    ("engine", "more"),
    [("vllm", {"vllm.tensor_parallel_size": 8}), ("sglang", {}), ("tensorrt-llm", {}), ("tgi", {}), ("llama.cpp", {}),
     ("transformers", {}), ("ollama", {})],
)  # fmt: skip
def test_each_tile_of_an_engine_says_why(open_page: OpenPage, engine: str, more: dict[str, object]) -> None:
    page = open_page(model=LLAMA, engine=engine, requests=3, **more)
    own, architecture, request, share = shown(page)
    for one, tile in ((own, 0), (architecture, 1), (request, 2)):
        assert one.end() == one.printed() == exact(page.metric[tile].delta)
    assert f"{share.printed():,.1f} %" == page.metric[3].value


@pytest.mark.parametrize(
    "question",
    [
        {}, {"model": GEMMA, "server": "llama.cpp", "node": "4090", "gpus": 2, "gguf": "Q4_K_M"},
        {"model": DEEPSEEK, "node": "8xh200", "price": 3}, {"model": NEXT, "gpus": 4, "server": "sglang", "price": 2},
        {"server": "tensorrt-llm"}, {"server": "tgi", "gpus": 2}, {"server": "transformers"},
        {"given.weights": 15.02, "given.other processes": 2, "vary": "log-normal", "prompt": 800, "prompt_p95": 4000},
    ],
    ids=str,
)  # fmt: skip
def test_each_figure_of_the_capacity_page_says_why(open_capacity: OpenPage, question: dict[str, object]) -> None:
    """Tiles, uses of memory, times and cost; the answer of one command is asked for once."""
    page = open_capacity(**question)
    reasons = shown(page)
    most, longest, headroom, need, *rest = reasons
    data: Any = cli.answer(shlex.split(most.command)[3:])
    assert {one.command for one in reasons} == {most.command}
    assert (most.end(), most.name) == (data["max_requests"], "max_requests")
    assert (longest.end(), longest.name) == (data["max_context"], "max_context")
    assert (headroom.end(), headroom.name) == (data["headroom_bytes"], "headroom_bytes")
    assert (need.end(), need.name) == (data["kv_need_bytes"], "kv_need_bytes")
    terms = [one for one in rest if one.name.startswith("terms[")]
    assert [one.end() for one in terms] == [term["bytes"] for term in data["terms"]]
    for one in rest:
        if one.name.startswith("times."):
            assert float(one.end()) == pytest.approx(data["times"][one.name.split(".")[1]]["high"], rel=1e-9)
        if one.name.startswith("cost."):
            assert float(one.end()) == pytest.approx(data["cost"][one.name.split(".")[1]], rel=1e-9)
    times = 0 if "note" in data["times"] else 4
    costs = 0 if data["cost"] is None else 1 + 2 * (data["cost"]["per_million_low"] is not None)
    assert len(rest) == len(data["terms"]) + times + costs


@pytest.mark.parametrize("language", LANGUAGES)
def test_reasons_are_said_in_each_language(open_page: OpenPage, open_capacity: OpenPage, language: str) -> None:
    """How sure, the source and the shell are named; a Chinese reader finds no English word in the arithmetic but a setting's."""
    spoken = texts(language)
    found = [*shown(open_page(lang=language, model=GEMMA)), *shown(open_capacity(lang=language))]
    assert len(found) > 12
    for one in found:
        for key in ("reason.sure", "reason.source", "reason.shell"):
            head = spoken[key].partition("{")[0].strip()
            fitted = spoken["reason.fitted"].partition("{")[0].strip()
            assert head in one.said or (key == "reason.source" and fitted in one.said)
    if language != "en":
        kept = {"ceil", "floor", "max", "min", "gpu_memory_utilization"}
        english = {word for one in found for line in one.lines for word in re.findall(r"(?<![\w])[a-z_]{3,}(?!\w)", line)}
        assert english - kept == set()


def test_what_can_be_followed_in_a_source_is_a_link() -> None:
    assert linked("vLLM 0.33.0, v1/core/kv_cache_planning.py and more") == (
        "[vLLM 0\\.33\\.0, v1/core/kv\\_cache\\_planning\\.py]"
        "(https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/core/kv_cache_planning.py) and more"
    )
    assert linked("seen in arXiv 2211.05102") == "seen in [arXiv 2211\\.05102](https://arxiv.org/abs/2211.05102)"
    assert "](https://github.com/noonghunna/club-3090)" in linked("log; github.com/noonghunna/club-3090 issue 1")
    assert linked("public logs") == "public logs"
    assert linked("[x](javascript:1)") == "\\[x\\]\\(javascript\\:1\\)"
