"""What a run says while it goes: lines that a person reads, or one JSON object a line for a program that watches.

The events and their fields are listed in validation/__main__.py.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

FORMS = ("text", "json", "none")


@dataclass
class Progress:
    """Counts finished steps of a run and says each as it ends, on `stream` (stderr, so that stdout stays the report's)."""

    form: str = "text"
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    done: int = 0
    steps: int = 0
    started: float = field(default_factory=time.monotonic)

    def start(self, model: str, device: str, steps: int) -> None:
        self.steps = steps
        self._say(f"{model} on {device}", event="start", model=model, device=device, steps=steps)

    def step(self, what: str, detail: str = "") -> None:
        """One step has ended; a search that takes more steps than were foreseen makes the total grow."""
        self.done += 1
        self.steps = max(self.steps, self.done)
        elapsed = time.monotonic() - self.started
        line = f"[{self.done}/{self.steps}] {what}{': ' if detail else ''}{detail} ({elapsed:.0f} s)"
        self._say(line, event="step", done=self.done, steps=self.steps, what=what, detail=detail)

    def point(self, batch: int, tokens: int, predicted: int, measured: int, agrees: bool) -> None:
        word = "agrees" if agrees else "DIFFERS"
        self._say(
            f"  batch {batch}, {tokens:,} tokens: predicted {predicted:,} bytes, measured {measured:,}: {word}",
            event="point", batch=batch, tokens=tokens, predicted=predicted, measured=measured, agrees=agrees,
        )  # fmt: skip

    def note(self, text: str) -> None:
        self._say(f"  {text}", event="note", text=text)

    def failed(self, message: str, exit_status: int) -> None:
        self._say(f"error: {message}", event="error", message=message, exit_status=exit_status)

    def finished(self, agrees: bool, exit_status: int) -> None:
        self._say("", event="done", agrees=agrees, exit_status=exit_status)

    def _say(self, line: str, **event: Any) -> None:
        if self.form == "json":
            print(json.dumps(event), file=self.stream, flush=True)
        elif line and (self.form == "text" or event["event"] == "error"):
            print(line, file=self.stream, flush=True)
