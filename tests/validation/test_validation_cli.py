"""`python -m validation` as a person and as another program use it: exit status, files, progress, interruption."""

from __future__ import annotations

import argparse
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError, Unavailable
from tests.validation.models import MODELS
from tests.validation.test_compare import FRONTIER, point, report
from validation import __main__ as command
from validation import measure, request
from validation.compare import read_json
from validation.progress import Progress

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**MODELS["grouped"], "torch_dtype": "float32"}), "utf-8")
    return str(path)


def test_a_real_run_writes_both_files_and_exits_with_0(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / "report.json"), str(tmp_path / "report.html")]
    words = [config, "--device", "cpu", "--grid", "batch=1,2", "tokens=10,20", "new=4", "--json", files[0], "--html", files[1]]
    assert command.main([*words, "--threads", "1", "--progress", "json"]) == 0
    shell = capsys.readouterr()
    assert "AGREES" in shell.out
    events = [json.loads(line) for line in shell.err.splitlines()]
    assert events[0] == {"event": "start", "model": "config.json", "device": "cpu", "steps": 5}
    assert [event["done"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    # 3 layers x K and V x 2 heads x 16 x 4 bytes = 768 bytes a token.
    sizes = [(e["batch"], e["tokens"], e["measured"]) for e in events if e["event"] == "point"]
    assert sizes == [(1, 10, 7680), (1, 20, 15360), (2, 10, 15360), (2, 20, 30720)]
    assert events[-1] == {"event": "done", "agrees": True, "exit_status": 0}
    found = read_json(Path(files[0]).read_bytes())
    assert found.agrees
    assert not found.partial
    assert len(found.points) == 4
    page = Path(files[1]).read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "30,720" in page
    assert not list(tmp_path.glob(".*.part"))


def _pretend(monkeypatch: pytest.MonkeyPatch, *reports: Any) -> None:
    def run(wanted: Any, progress: Any) -> Iterator[Any]:
        for found in reports:
            if isinstance(found, BaseException):
                raise found
            yield found

    monkeypatch.setattr(measure, "run", run)


@pytest.mark.parametrize(
    ("ends", "status", "says"),
    [
        ((report(point()),), 0, ""),
        ((report(point(measured=6401)),), 1, ""),
        ((report(frontier=FRONTIER),), 0, ""),
        ((InputError("that is no model"),), 2, "error: that is no model\n"),
        ((Unavailable("the Hub does not answer"),), 3, "error: the Hub does not answer\n"),
        ((report(point()), KeyboardInterrupt()), 130, "error: interrupted"),
        ((), 2, "error: nothing was asked"),
    ],
)
def test_exit_status(
    ends: tuple[Any, ...], status: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pretend(monkeypatch, *ends)
    assert command.main(["llama", "--progress", "none"]) == status
    assert capsys.readouterr().err.startswith(says)


def test_an_interrupted_run_leaves_what_it_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _pretend(monkeypatch, report(point(), partial=True), KeyboardInterrupt())
    assert command.main(["llama", "--json", str(tmp_path / "r.json"), "--progress", "none"]) == 130
    found = read_json((tmp_path / "r.json").read_text("utf-8"))
    assert found.partial
    assert len(found.points) == 1


def test_json_on_standard_output_is_json_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _pretend(monkeypatch, report(point(), partial=True), report(point()))
    assert command.main(["llama", "--json", "-"]) == 0
    assert read_json(capsys.readouterr().out).agrees


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "arguments"),
        (["llama", "--grid", "batch"], "NAME=VALUE"),
        (["llama", "--grid", "batch=0"], "whole numbers"),
        (["llama", "--grid", "tokens=1e3"], "whole numbers"),
        (["llama", "--grid", "depth=3"], "grid has no 'depth'"),
        (["llama", "--cache", "paged"], "invalid choice"),
        (["llama", "--cache-config", "nbits=4"], "say --cache quantized"),
        (["llama", "--cache", "quantized", "--cache-config", "nbits=5"], "nbits"),
        (["llama", "--cache", "quantized", "--cache-config", "backend=fp8", "nbits=4"], "fp8 backend has no settings"),
        (["llama", "--limit", "4"], "--find-limit"),
        (["llama", "--find-limit", "--limit", "much"], "amount of memory"),
        (["llama", "--threads", "0"], "threads"),
        (["llama", "--speed", "--speed-lengths", "0"], "speed_lengths"),
        (["llama", "--json", "/nowhere/at/all.json"], "no folder"),
    ],
)
def test_bad_words_are_refused_before_anything_is_loaded(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_bare_number_limits_in_gib() -> None:
    assert command._limit("2") == command._limit("2GiB") == 2 * 2**30
    with pytest.raises(argparse.ArgumentTypeError):
        command._limit("-1")


def test_defaults_are_those_of_the_device() -> None:
    assert request.Request("x").filled("cuda")["tokens"] == (512, 4096)
    assert request.Request("x", grid={"tokens": (64,)}).filled("cpu")["tokens"] == (64,)


def test_progress_for_a_person_is_lines_and_silent_when_not_wanted() -> None:
    stream = io.StringIO()
    progress = Progress("text", stream)
    progress.start("a model", "cpu", 1)
    progress.step("grid", "batch 1")
    progress.step("grid")
    progress.note("a note")
    assert "[1/1] grid: batch 1" in stream.getvalue()
    assert "[2/2] grid" in stream.getvalue()
    silent = io.StringIO()
    Progress("none", silent).note("nothing")
    assert silent.getvalue() == ""


def test_ctrl_c_ends_a_real_run_with_130_and_no_traceback(config: str, tmp_path: Path) -> None:
    """The signal is sent when the first point is measured; the report of that point stays."""
    words = [config, "--device", "cpu", "--grid", "batch=1", f"tokens={','.join(map(str, range(10, 70)))}", "new=4"]
    file = tmp_path / "report.json"
    command_line = [sys.executable, "-m", "validation", *words, "--threads", "1", "--progress", "json", "--json", str(file)]
    with subprocess.Popen(command_line, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if file.exists() and json.loads(line)["event"] == "step":
                process.send_signal(signal.SIGINT)
                break
        *_, last = process.stderr.read().splitlines()
    assert process.returncode == 130
    assert json.loads(last)["exit_status"] == 130
    assert read_json(file.read_text("utf-8")).partial
