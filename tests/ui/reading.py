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
    """The line of the shell that the page shows below its answer; reasons ask for JSON."""
    lines = [str(code.value) for code in page.code if str(code.value).startswith("python -m planner plan")]
    return next(line for line in lines if not line.endswith(" --json"))


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
    """(bytes, confidence) of each use of the memory: the table, and what the reason of each ends with."""
    told = page.table[0].value.to_dict("records")
    reasons = [block for block in page.get("popover") if "terms[" in "".join(str(text.value) for text in block.markdown)]
    sizes = [str(block.code[0].value).splitlines()[-1].rpartition("= ")[2] for block in reasons]
    labels = [block.proto.popover.label.replace("\\", "") for block in reasons]
    assert labels == [f"{row['Use']} {row['Size']}".replace("\\", "") for row in told]
    return [(int(size.replace(",", "")), row["Confidence"]) for size, row in zip(sizes, told, strict=True)]


def pressed(page: AppTest, ending: str) -> AppTest:
    """The page after the first button whose key ends like this."""
    buttons = {str(button.key): button for button in page.button if button.key}
    return next(button for name, button in buttons.items() if name.endswith(ending)).click().run()
