"""Ways in which people paste a log: each wrapper takes plain text and gives what arrives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

Wrapper = Callable[[str], str]
_HEAD: Final = re.compile(r"^(\([^)]*\) )?(INFO) (\d\d-\d\d \d\d:\d\d:\d\d) (\[?\S+:\d+\]) (.*)$")


def _each(line: Callable[[int, str], str]) -> Wrapper:
    return lambda text: "\n".join(line(i, each) for i, each in enumerate(text.splitlines())) + "\n"


def _coloured(line: str) -> str:
    """As vLLM colours since 0.16: the tag cyan, the level green, time and source grey."""
    match = _HEAD.match(line)
    if not match:
        return line
    tag, level, time, source, message = match.groups()
    tag = f"\x1b[0;36m{tag.strip()}\x1b[0;0m " if tag else ""
    return f"{tag}\x1b[32m{level}\x1b[0m \x1b[90m{time}\x1b[0m \x1b[90m{source}\x1b[0m {message}"


def _json_line(_: int, line: str) -> str:
    match = _HEAD.match(line)
    if not match:
        return json.dumps({"log": line + "\n", "stream": "stderr"})
    return json.dumps({"asctime": match[3], "levelname": match[2], "message": match[5], "processName": "EngineCore"})


def _logfmt_line(_: int, line: str) -> str:
    match = _HEAD.match(line)
    message = (match[5] if match else line).replace("\\", "\\\\").replace('"', '\\"')
    return f'{match[1] if match and match[1] else ""}level=INFO name=vllm.v1 msg="{message}"'


def _wrapped_at(width: int) -> Wrapper:
    """A terminal's hard breaks, in mid-word, padded with blanks as some terminals copy them."""

    def wrap(text: str) -> str:
        rows = []
        for line in text.splitlines():
            pieces = [line[at : at + width] for at in range(0, len(line), width)] or [""]
            # Only short messages: the configuration line is cut at any width and is not what is looked for.
            rows += pieces if len(line) < 4 * width else [line]
        return "\n".join(row.ljust(width) for row in rows) + "\n"

    return wrap


def _mailed(text: str) -> str:
    """Quoted twice, with a fence and entities as a web page copies them."""
    quoted = "\n".join(f"&gt; &gt; {line}" for line in text.splitlines())
    return f"Here is my log:\n\n&gt; &gt; ```console\n{quoted}\n&gt; &gt; ```\nThanks!\n"


def _kubernetes(i: int, line: str) -> str:
    """CRI records, long ones in parts."""
    stamp = f"2026-05-20T12:00:{i % 60:02}.123456789Z stderr"
    half = len(line) // 2
    return f"{stamp} P {line[:half]}\n{stamp} F {line[half:]}" if i % 3 == 0 and line else f"{stamp} F {line}"


WRAPPERS: Final[dict[str, Wrapper]] = {
    "plain": lambda text: text,
    "windows": lambda text: text.replace("\n", "\r\n"),
    "coloured": _each(lambda _, line: _coloured(line)),
    "coloured without escapes": _each(lambda _, line: _coloured(line).replace("\x1b", "")),
    "docker compose": _each(lambda _, line: f"vllm-1      | {line}"),
    "docker with times": _each(lambda i, line: f"2026-05-20T12:00:{i % 60:02}.123456789Z {line}"),
    "kubernetes": _each(_kubernetes),
    "journald": _each(lambda _, line: f"mai 17 12:00:00 gpu-host vllm[4711]: {line}"),
    "mail": _mailed,
    "terminal of 120": _wrapped_at(120),
    "terminal of 90": _wrapped_at(90),
    "json": _each(_json_line),
    "logfmt": _each(_logfmt_line),
    "progress bars": _each(lambda i, line: f"Loading: {i}%\rLoading: 100%\r{line}"),
    "table": _each(lambda _, line: f"| {line} |"),
    "diff": _each(lambda _, line: f"+ {line}"),
    "breaks": lambda text: text.replace("\n", "<br>\n"),
}
