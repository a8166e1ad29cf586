"""Validation runs on the server's own device: one at a time in a process of its own, the others waiting in line.

The web process never loads torch. A run has a time limit and a memory limit, can be cancelled, and leaves its report even where
it was stopped. An operator switches runs off with KV_PLANNER_VALIDATION=off, and sets the limits with
KV_PLANNER_VALIDATION_MINUTES and KV_PLANNER_VALIDATION_GIB.
"""

from __future__ import annotations

import atexit
import collections
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
#: Runs that may wait; more are refused, because nobody waits that long.
MOST_WAITING = 8
#: Finished runs that are kept for their owners.
_KEPT = 32
State = Literal["waiting", "running", "done", "failed", "cancelled", "too_long"]


def off_because() -> str | None:
    """Why no run can be started here: "off" by the operator, "torch" where it is not installed; None where one can."""
    if os.environ.get("KV_PLANNER_VALIDATION", "on").lower() in ("off", "0", "false", "no"):
        return "off"
    return None if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers") else "torch"


def minutes() -> float:
    """The longest that a run may take."""
    return _number("KV_PLANNER_VALIDATION_MINUTES", 10)


def gib() -> float:
    """The most address space that a run may take; far more than it uses, because torch maps much."""
    return _number("KV_PLANNER_VALIDATION_GIB", 16)


def _number(name: str, default: float) -> float:
    try:
        return max(0.1, float(os.environ.get(name, default)))
    except ValueError:
        return default


@dataclass(eq=False)
class Run:
    """One run. words: what follows `python -m validation`. events: its progress, see validation/__main__.py. report: JSON."""

    words: tuple[str, ...]
    state: State = "waiting"
    events: list[dict[str, Any]] = field(default_factory=list)
    report: str | None = None
    message: str = ""
    started: float | None = None
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        return self.state not in ("waiting", "running")

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1, by its own count of steps."""
        step = next((event for event in reversed(self.events) if event.get("event") == "step"), None)
        return step["done"] / max(1, step["steps"]) if step else 0.0


class Runs:
    """The line of runs of this server process."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "validation")) -> None:
        self.command = tuple(command)
        self._line: collections.deque[Run] = collections.deque()
        self._finished: collections.deque[Run] = collections.deque(maxlen=_KEPT)
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        atexit.register(self.close)

    def close(self) -> None:
        """Ends every run, because a process would outlive the server that started it."""
        for run in tuple(self._line):
            self.cancel(run)

    def start(self, words: Sequence[str]) -> Run | None:
        """A run in the line; None where too many wait."""
        with self._changed:
            if len(self._line) > MOST_WAITING:
                return None
            run = Run(tuple(words))
            self._line.append(run)
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._work, name="validation", daemon=True)
                self._worker.start()
            return run

    def place(self, run: Run) -> int:
        """How many runs are before this one; 0 for the one that runs."""
        with self._changed:
            return self._line.index(run) if run in self._line else 0

    def cancel(self, run: Run) -> None:
        with self._changed:
            if run.state == "waiting":
                run.state = "cancelled"
                self._line.remove(run)
            elif run.state == "running":
                run.state = "cancelled"
                if run.process is not None:
                    run.process.kill()

    def _work(self) -> None:
        """Runs the line from its head until it is empty."""
        while True:
            with self._changed:
                if not self._line:
                    self._worker = None
                    return
                run = self._line[0]
                run.state, run.started = "running", time.monotonic()
            try:
                self._execute(run)
            except OSError as problem:
                run.state, run.message = "failed", str(problem)
            with self._changed:
                self._line.remove(run)
                self._finished.append(run)

    def _execute(self, run: Run) -> None:
        with tempfile.TemporaryDirectory(prefix="validation-") as folder:
            target = Path(folder) / "report.json"
            words = [*self.command, *run.words, "--json", str(target), "--progress", "json"]
            run.process = subprocess.Popen(
                words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            _limit(run.process.pid)
            clock = threading.Timer(60 * minutes(), self._too_long, (run,))
            clock.start()
            if run.state == "cancelled":  # between being taken from the line and being started
                run.process.kill()
            assert run.process.stderr is not None
            with run.process.stderr as lines:
                for line in lines:
                    _note(run, line)
            status = run.process.wait()
            clock.cancel()
            if target.is_file():
                run.report = target.read_text("utf-8")
            if run.state == "running":
                run.state = "done" if status in (0, 1) and run.report else "failed"
                run.message = run.message or ("" if run.state == "done" else f"the process ended with status {status}")

    def _too_long(self, run: Run) -> None:
        with self._changed:
            if run.state == "running" and run.process is not None:
                run.state = "too_long"
                run.process.kill()


def _limit(pid: int) -> None:
    """Bounds the run's address space where the system can, so that it fails in place of the server."""
    try:
        import resource

        size = int(gib() * 2**30)
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    except (ImportError, AttributeError, OSError, ValueError):
        return


def _note(run: Run, line: str) -> None:
    """One line of progress; what is no event is kept as the last message, for a process that fails before its first."""
    try:
        event = json.loads(line)
    except ValueError:
        run.message = line.strip()[:500] or run.message
        return
    if isinstance(event, dict):
        run.events.append(event)
        if event.get("event") == "error":
            run.message = str(event.get("message", ""))[:500]
