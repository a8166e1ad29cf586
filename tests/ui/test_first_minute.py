"""A new visitor: a true answer without a click, and a verdict for a model and a GPU of one's own in three inputs."""

from __future__ import annotations

import contextlib
import io
import json

from planner import cli

from .conftest import OpenPage
from .reading import data, shell, verdict
from .test_model_box import typed
from .test_plan_page import config, faults, texts


def printed(*words: str) -> dict[str, object]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main([*words, "--json"]) in (0, 1)
    found: dict[str, object] = json.loads(out.getvalue())
    return found


def test_the_app_opens_on_an_answer_that_the_shell_gives_too(open_page: OpenPage) -> None:
    page = open_page()
    assert faults(page) == []
    told = printed("kv", "Qwen/Qwen2.5-72B", "--tokens", "32768")
    assert page.metric[0].delta == f"{told['kv_cache_bytes']:,} bytes"
    assert page.metric[0].delta == f"{80 * 2 * 8 * 128 * 32_768 * 2:,} bytes"  # layers x K and V x heads x width x tokens x bf16


def test_three_inputs_on_the_first_page_give_a_verdict(open_page: OpenPage) -> None:
    page = typed(open_page(), config())
    page.selectbox(key="gpu").set_value("L4").run()
    page.number_input(key="tokens").set_value(4_096).run()
    assert faults(page) == []
    assert "**Fits.**" in texts(page)
    page.number_input(key="requests").set_value(100_000).run()
    assert "**Does not fit on one GPU:**" in texts(page)


def test_three_inputs_on_the_capacity_page_give_the_engines_verdict(open_capacity: OpenPage) -> None:
    page = typed(open_capacity(), "google/gemma-3-27b-it")
    page.selectbox(key="node").set_value("L4").run()
    page.selectbox(key="server").set_value("llama.cpp").run()
    said = verdict(page)
    told = data(shell(page))
    assert told["verdict"] == "does_not_fit"
    assert said.startswith("Does not start")
