"""What the tests read off the Capacity page, and what the shell says to the line that the page shows."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from typing import Any

from streamlit.testing.v1 import AppTest

from planner import cli

LLAMA, GEMMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"
WHISPER, NEXT = "openai/whisper-large-v3", "Qwen/Qwen3-Next-80B-A3B-Instruct"


def verdict(page: AppTest) -> str:
    """The page's first line below the inputs, without Markdown."""
    assert not page.exception, page.exception[0].stack_trace
    boxes = [str(box.value) for box in (*page.success, *page.warning, *page.error)]
    found = [text for text in boxes if re.match(r"\*\*(Starts|Does not start)", text)]
    assert len(found) == 1, found
    return re.sub(r"\\(.)", r"\1", found[0].split("**")[1])


def shell(page: AppTest) -> str:
    """The line of the shell that the page shows."""
    return next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner plan"))


def printed(line: str) -> str:
    """What the shell prints for a line of the page."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = cli.main(shlex.split(line)[3:])
    assert status in (0, 1), line
    return out.getvalue()


def data(line: str) -> dict[str, Any]:
    """The same as data."""
    found: dict[str, Any] = json.loads(printed(f"{line} --json"))
    return found


def terms(page: AppTest) -> list[tuple[int, str]]:
    """(bytes, confidence) of each use of the memory, which are two tables."""
    told, exact = (page.table[place].value.to_dict("records") for place in (0, 1))
    assert [row["Use"] for row in told] == [row["Use"] for row in exact]
    return [(int(b["Bytes"].replace(",", "")), a["Confidence"]) for a, b in zip(told, exact, strict=True)]


def pressed(page: AppTest, ending: str) -> AppTest:
    """The page after the first button whose key ends like this."""
    buttons = {str(button.key): button for button in page.button if button.key}
    return next(button for name, button in buttons.items() if name.endswith(ending)).click().run()
