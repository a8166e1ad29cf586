"""The line of validation runs: one at a time, places, cancelling, the time limit, and what a run leaves."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ui import validate_runs
from ui.validate_runs import Run, Runs

#: A stand-in for `python -m validation`: says two steps, waits for as long as it is told, writes a report.
STAND_IN = """
import json, sys, time
words = sys.argv[1:]
target = words[words.index("--json") + 1]
def say(**event): print(json.dumps(event), file=sys.stderr, flush=True)
say(event="start", model="m", device="cpu", steps=2)
with open(target, "w") as file: file.write('{"partial": true}')
say(event="step", done=1, steps=2, what="grid", detail="")
time.sleep(float(words[0]))
if words[1] == "fail":
    say(event="error", message="no such model", exit_status=2); sys.exit(2)
with open(target, "w") as file: file.write('{"partial": false}')
say(event="step", done=2, steps=2, what="grid", detail="")
say(event="done", agrees=words[1] == "agrees", exit_status=0)
sys.exit(0 if words[1] == "agrees" else 1)
"""


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    return Runs((sys.executable, str(script)))


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it did not come to that")


def started(runs: Runs, *words: str) -> Run:
    run = runs.start(words)
    assert run is not None
    return run


@pytest.mark.parametrize("word", ["agrees", "differs"])
def test_a_run_leaves_its_report_whatever_the_verdict(runs: Runs, word: str) -> None:
    run = started(runs, "0", word)
    until(lambda: run.over)
    assert (run.state, run.report, run.share) == ("done", '{"partial": false}', 1.0)
    assert run.events[-1]["event"] == "done"


def test_a_failed_run_says_why(runs: Runs) -> None:
    run = started(runs, "0", "fail")
    until(lambda: run.over)
    assert (run.state, run.message) == ("failed", "no such model")


def test_others_wait_with_their_place(runs: Runs) -> None:
    """One runs, the next are first and second in line, and each gets its turn."""
    first, second, third = started(runs, "60", "agrees"), started(runs, "0", "agrees"), started(runs, "0", "agrees")
    until(lambda: len(first.events) > 1)
    assert [runs.place(run) for run in (first, second, third)] == [0, 1, 2]
    runs.cancel(second)
    assert (second.state, runs.place(third)) == ("cancelled", 1)
    runs.cancel(first)
    until(lambda: third.over)
    assert (first.state, third.state) == ("cancelled", "done")
    assert first.report == '{"partial": true}'


def test_a_full_line_takes_no_more(runs: Runs) -> None:
    first = started(runs, "60", "agrees")
    waiting = [started(runs, "0", "agrees") for _ in range(validate_runs.MOST_WAITING)]
    assert runs.start(["0", "agrees"]) is None
    for run in (*waiting, first):
        runs.cancel(run)


def test_a_run_that_takes_too_long_is_ended(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_runs, "minutes", lambda: 0.05)
    run = started(runs, "60", "agrees")
    until(lambda: run.over)
    assert (run.state, run.report) == ("too_long", '{"partial": true}')


def test_a_server_that_ends_leaves_no_process(runs: Runs) -> None:
    run = started(runs, "60", "agrees")
    until(lambda: bool(run.events))
    runs.close()
    until(lambda: run.process is not None and run.process.poll() is not None)
    assert run.state == "cancelled"


def test_the_memory_limit_is_the_operators(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="this system has no resource limits")
    monkeypatch.setenv("KV_PLANNER_VALIDATION_GIB", "3")
    run = started(runs, "60", "agrees")
    until(lambda: run.process is not None and bool(run.events))
    assert run.process is not None
    assert resource.prlimit(run.process.pid, resource.RLIMIT_AS)[0] == 3 * 2**30
    runs.cancel(run)


def test_the_operator_can_switch_runs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLANNER_VALIDATION", "off")
    assert validate_runs.off_because() == "off"
    monkeypatch.setenv("KV_PLANNER_VALIDATION", "on")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert validate_runs.off_because() == "torch"
