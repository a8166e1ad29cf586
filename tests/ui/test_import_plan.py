"""Opening a saved plan: each bad file is one error that changes nothing, and each input's rule is the input's own."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import cli
from planner.cli_asked import shell_line
from ui import import_plan
from ui.engine_fields import LABELS
from ui.import_values import Path, Wrong, names, option_of, rules

from .conftest import OpenPage
from .reading import LLAMA
from .taking import brought
from .test_plan_page import faults

#: What JavaScript counts up to, where an input has no limit of its own.
END = 2**53 - 1

# Files that cannot be opened


def changed(saved: dict[str, Any], **query: object) -> str:
    return json.dumps({**saved, "page": {**saved["page"], "query": {**saved["page"]["query"], **query}}})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda saved: "{not json", "It is not JSON"),
        (lambda saved: "[1, 2]", "no plan of this planner"),
        (lambda saved: '{"schema_version": true}', "no plan of this planner"),
        (lambda saved: json.dumps({**saved, "schema_version": 2}), "this planner reads up to 1"),
        (lambda saved: json.dumps({"schema_version": 1, "model": {}}), "does not say what was asked"),
        (lambda saved: json.dumps({**saved, "page": {"path": "elsewhere", "query": {}}}), "does not say what was asked"),
        (lambda saved: changed(saved, nonsense="1"), "called nonsense"),
        (lambda saved: changed(saved, load="0"), "is 0. It is from 1 to 1,000,000"),
        (lambda saved: changed(saved, load="many"), "no whole number"),
        (lambda saved: changed(saved, price="inf"), "is inf. It is from 0 to"),
        (lambda saved: changed(saved, load=5), "no text of one line"),
        (lambda saved: changed(saved, prompts="a\nb"), "no text of one line"),
        (lambda saved: changed(saved, server="nginx"), "not on offer"),
        (lambda saved: changed(saved, fill="perhaps"), "true, false"),
        (lambda saved: changed(saved, node="banana"), "banana"),
        (lambda saved: changed(saved, **{"vllm.gpu_memory_utilization": "7"}), "is 7. It is from"),
        (lambda saved: changed(saved, model="config.json"), "the file does not have it"),
        (lambda saved: json.dumps({**json.loads(changed(saved, model="config.json")), "config": {"x": float("nan")}}), "config"),
        (lambda saved: shells(saved, gpu="banana"), "banana"),
        (lambda saved: shells(saved, seed=3), "no input"),
        (lambda saved: shells(saved, lengths="/etc/passwd"), "no input"),
        (lambda saved: shells(saved, help=True), "called help"),
        (lambda saved: shells(saved, requests="x"), "whole number"),
        (lambda saved: shells(saved, weights="Q4_K_M"), "no input"),
        (lambda saved: shells(saved, command="log"), "no question"),
        (lambda saved: shells(saved, command=["plan"]), "no question"),
        (lambda saved: shells(saved, given=[f"kv={'9' * 400}GiB"]), "It is from 0 to"),
        (lambda saved: json.dumps({**saved, "page": {"path": [], "query": {}}}), "does not say what was asked"),
        (lambda saved: shells({**saved, "model": {"source": "path:m.gguf"}}, model="m.gguf"), "The model was the file"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_error_and_changes_nothing(
    open_capacity: OpenPage, files: dict[str, str], bad: Any, words: str
) -> None:
    page = open_capacity(load=42, gpus=2)
    before = dict(files)
    page = brought(page, bad(json.loads(before["plan.json"])))
    told = [re.sub(r"\\(.)", r"\1", fault) for fault in faults(page)]
    assert len(told) == 1
    assert words in told[0]
    assert files == before
    page = brought(page, before["plan.json"])  # and the error goes with the next file
    assert faults(page) == []


def shells(saved: dict[str, Any], **asked: object) -> str:
    """What the shell printed, with other words in its question."""
    found = {**saved, "asked": {**saved["asked"], **asked}}
    del found["page"]
    return json.dumps(found)


def test_no_file_says_more_than_inputs(files: dict[str, str], open_capacity: OpenPage) -> None:
    """Only the page's own inputs are set, whatever a file names: no other key of the session."""
    open_capacity()
    saved = json.loads(files["plan.json"])
    for name in ("language", "hub_token", "own_config", "link", "page", "compare"):
        with pytest.raises(Wrong):
            import_plan.read(changed(saved, **{name: "x"}).encode())
    page = {**saved["page"], "assumed": ["hub_token", "assume:x:y", 5]}
    opened = import_plan.read(json.dumps({**saved, "page": page}).encode())
    assert opened.assumed == ("assume:x:y",)
    assert set(opened.values) <= set(names("capacity"))


def test_no_secret_is_in_a_question() -> None:
    parser = cli.parser_of("plan")
    words = ["plan", LLAMA, "--gpu", "h100", "--token", "hf_secret", "--json"]
    asked = cli.asked_of(words)
    assert "hf_secret" not in json.dumps(asked)
    assert shell_line(asked) == f"python -m planner plan {LLAMA} --gpu h100 --engine vllm"
    assert {"token", "json", "markdown"} <= {action.dest for action in parser._actions}


# Rules of the inputs


@pytest.mark.parametrize("option", LABELS)
def test_the_rules_are_those_of_the_inputs(open_page: OpenPage, open_capacity: OpenPage, option: str) -> None:
    """Limits, choices and defaults of every input that is drawn are those that a file is held to."""
    pages: dict[Path, AppTest] = {
        "plan": open_page(engine=option), "capacity": open_capacity(server=option, vary="log-normal", apart="true"),
    }  # fmt: skip
    for path, page in pages.items():
        known, seen = rules(path), 0
        said = {"engine", "server", "vary", "apart"}
        for kind in ("number_input", "selectbox", "text_input", "toggle"):
            for widget in getattr(page, kind):
                rule = known.get(str(widget.key))
                if rule is None or widget.key == "model":
                    continue
                seen += 1
                if kind == "number_input":
                    assert rule.kind == ("count" if widget.step >= 1 else "number"), widget.key
                    ends = (max(widget.proto.min, -END), min(widget.proto.max, END))
                    assert ends == (rule.low, rule.high) or not widget.proto.has_min, widget.key
                elif kind == "selectbox" and rule.kind == "choice":
                    assert tuple(widget.options) == tuple(map(str, rule.choices)), widget.key
                if widget.key not in said:
                    assert widget.value == rule.default or (widget.value in ("", None) and rule.default in ("", None)), widget.key
        assert seen > 8
        assert {name for name in names(path) if name not in known} == set()
        assert {option_of(name) for name in known} >= {None, option}
