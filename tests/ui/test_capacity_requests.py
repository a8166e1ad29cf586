"""Requests that vary, and figures that the person knows: the page's numbers are the shell's, and what is wrong is one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from ui.capacity_given import TERMS, key
from ui.capacity_upload import safe_name

from .conftest import OpenPage
from .reading import LLAMA, data, printed, shell, terms, verdict
from .test_plan_page import faults, texts

LOGNORMAL = {
    "vary": "log-normal", "prompt": 800, "prompt_p95": 4000, "prompt_max": 16000, "output": 300, "output_p95": 1200,
    "output_max": 4000,
}  # fmt: skip
TRACE = b"prompt_tokens,output_tokens\n" + b"".join(b"%d,%d\n" % (200 + 37 * i % 3000, 20 + 11 * i % 400) for i in range(500))


def metrics(page: object) -> dict[str, str]:
    return {metric.label: metric.value for metric in page.metric}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "link",
    [
        LOGNORMAL,
        {**LOGNORMAL, "server": "sglang", "load": 80},
        {"vary": "log-normal", "prompt": 800, "prompt_p95": 4000, "output": 0, "load": 300},
        {"vary": "percentiles", "prompts": "p50=800, p90=3000, p99=9000, max=16000", "outputs": "200", "load": 150},
        {"shared": 1024, "images": 576, "draft": 3, "beams": 2},
        {"occupancy": "typical", "load": 60},
        {**LOGNORMAL, "occupancy": "worst"},
        {"given.weights": 15.5, "given.cuda_graphs": 0, "given.non-torch": 1.25},
        {"given.kv": 10, "load": 4},
        {"fill": "true", "load": 2, "shared": 2048, "vary": "log-normal"},
    ],
    ids=["log-normal", "sglang", "no answers", "percentiles", "shared", "typical", "worst", "given", "given kv", "full"],
)
def test_the_page_says_what_the_shell_says(open_capacity: OpenPage, link: dict[str, object]) -> None:
    page = open_capacity(**link)
    line = shell(page)
    said = printed(line)
    assert verdict(page) == said.splitlines()[0]
    found = data(line)
    assert terms(page) == [(term["bytes"], term["confidence"]) for term in found["terms"]]
    assert metrics(page)["Most requests"] == f"{found['max_requests']:,}"
    assert not [fault for fault in faults(page) if "could not be drawn" in fault]


def test_what_varies_is_simulated_as_the_shell_does(open_capacity: OpenPage) -> None:
    page = open_capacity(**LOGNORMAL, load=240)
    found = data(shell(page))["simulation"]
    told = metrics(page)
    assert told["Time with preemption"] == f"{found['preempted']:.1%}"
    for row in found["curve"]:
        assert told[f"Fit in {row['share_of_time']:.0%} of the time"] == f"{row['requests']:,}"


def test_alike_requests_are_not_simulated(open_capacity: OpenPage) -> None:
    assert "Time with preemption" not in metrics(open_capacity())


def test_an_engine_that_cannot_be_simulated_says_why(open_capacity: OpenPage) -> None:
    page = open_capacity(**LOGNORMAL, server="transformers", load=2)
    assert verdict(page)
    assert any("pads a batch" in str(info.value) for info in page.info)


def test_an_engine_that_reserves_makes_requests_wait(open_capacity: OpenPage) -> None:
    page = open_capacity(**LOGNORMAL, server="tgi", load=40)
    assert "Time with waiting" in metrics(page)


# A file of observed lengths


def test_observed_lengths_are_the_shells(open_capacity: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_capacity(vary="observed", load=100)
    assert any("inputs above are complete" in str(caption.value) for caption in page.caption)
    page.file_uploader(key="lengths").upload("my trace (1).csv", TRACE).run()
    assert "500 requests from" in texts(page)
    line = shell(page)
    assert "--lengths my-trace-1-.csv" in line
    (tmp_path / "my-trace-1-.csv").write_bytes(TRACE)
    monkeypatch.chdir(tmp_path)
    assert verdict(page) == printed(line).splitlines()[0]
    assert metrics(page)["Time with preemption"] == f"{data(line)['simulation']['preempted']:.1%}"


def test_another_file_is_another_question(open_capacity: OpenPage) -> None:
    page = open_capacity(vary="observed", load=100)
    page.file_uploader(key="lengths").upload("a.csv", TRACE).run()
    first = verdict(page)
    page.file_uploader(key="lengths").upload("a.csv", TRACE.replace(b"200,", b"9000,")).run()
    assert verdict(page) != first


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "no lengths in it"),
        ("a.csv", b"one,two\n1,2\n", "no columns called prompt_tokens"),
        ("a.csv", b"prompt_tokens,output_tokens\n5,many\n", "line 2: 'many' is not a number of tokens"),
        ("a.jsonl", b'{"prompt_tokens": 5}\n', "line 1: it needs prompt_tokens and output_tokens"),
        ("a.jsonl", b"\xff\xfe\n", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_message(open_capacity: OpenPage, name: str, content: bytes, words: str) -> None:
    page = open_capacity(vary="observed")
    page.file_uploader(key="lengths").upload(name, content).run()
    assert len(faults(page)) == 1
    assert words in faults(page)[0].replace("\\", "")
    assert not page.metric


def test_a_link_without_its_file_asks_for_it(open_capacity: OpenPage) -> None:
    page = open_capacity(vary="observed")
    assert faults(page) == []
    assert any("no part of the page's link" in str(caption.value) for caption in page.caption)


@pytest.mark.parametrize(
    ("name", "safe"),
    [("../../etc/passwd", "etc-passwd"), ("a b;rm -rf.csv", "a-b-rm--rf.csv"), ("", "lengths.csv"), ("-x.csv", "x.csv")],
)
def test_a_file_name_is_only_a_name(name: str, safe: str) -> None:
    assert safe_name(name) == safe


# What cannot be


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"vary": "log-normal", "prompt": 9000, "prompt_p95": 100}, "prompt: p95 is 100, below the median"),
        ({"vary": "log-normal", "output_max": 2}, "output: longest is 2"),
        ({"vary": "percentiles", "prompts": "p50=3"}, "prompt: percentiles other than p50,p95 need max="),
        ({"vary": "percentiles", "outputs": "many"}, "output: 'many' is neither a count"),
        ({"shared": 9000}, "a prefix is part of it"),
    ],
)
def test_lengths_that_cannot_be_are_one_message(open_capacity: OpenPage, link: dict[str, object], words: str) -> None:
    page = open_capacity(model=LLAMA, **link)
    assert len(faults(page)) == 1
    assert words in faults(page)[0].replace("\\", "")
    assert not page.metric


# Figures that the person knows


@pytest.mark.parametrize("term", TERMS)
def test_a_given_figure_wins_and_is_marked(open_capacity: OpenPage, term: str) -> None:
    page = open_capacity(**{key(term): 2.5})
    assert verdict(page) == printed(shell(page)).splitlines()[0]
    given = [count for count, confidence in terms(page) if confidence == "given"]
    if term != "kv":  # which is the cache's budget and no use of it
        assert given == [5 * 2**29]
    else:
        assert any(metric.delta == "of 2.50 GiB" for metric in page.metric)


def test_an_empty_figure_is_planned_again(open_capacity: OpenPage) -> None:
    page = open_capacity(**{"given.kv": 10})
    before = verdict(page)
    page.number_input(key="given.kv").set_value(None).run()
    assert verdict(page) != before
    assert "--given" not in shell(page)
