"""Which release of vLLM wrote a log: as it says, by the line of the source that printed a message, or between which it must lie.

A message names its line of code, and release sources tell which line that was; nightly builds lie in between. Where neither is
there, the shapes of messages and the tags of processes bound it. The date of a log tells nothing: old images are still run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planner.engines.vllm import VERSIONS
from planner.engines.vllm_tables import version_key
from validation.logs.lines import Line
from validation.logs.shapes import Found

_NUMBER: Final = r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:[.+-]?[a-z]{1,8}[\w.+]{0,40})?)(?![\d.])"
_SAID: Final = re.compile(
    r"(?:LLM engine \(v|API server version:? v?|\bvllm[ =:]{1,3}v?|\bversion:? {1,3}v?)" + _NUMBER, re.IGNORECASE
)
_IMAGE: Final = re.compile(r"\bvllm-openai:v" + _NUMBER)
_ENGINE: Final = re.compile(r"(V0|V1) LLM engine|LLM engine \(v0\.[0-5]\.")
#: Line numbers by release of five messages: the tokens of the pool, the available memory, the model's load, the graphs' end, and
#: the engine's configuration. A dash: another file, or no such message.
#: Source: the release sources of vLLM, read by syntax tree.
_LINES: Final = """
0.8.5    634       -    1347  1686  58
0.9.0.1  637       -    1549  1933  65
0.9.2    716/873   232  1801  2326  69
0.10.0   833/997   255  1892  2485  71
0.10.2   864/1028  298  2392  3118  76
0.11.0   1087      298  2653  3480  77
0.11.2   1229      359  3338  4244  93
0.13.0   1291      375  3659  4587  93
0.16.0   1307      373  4221  5246  97
0.19.1   1319      436  4820  6046  105
0.20.0   1710      480  -     6243  -
0.22.1   1733      466  5132  6456  112
0.23.0   1744      480  5187  6585  113
0.24.0   2146      508  5255  6656  114
0.27.1   2235      563  5405  6913  121
0.30.0   2395      640  5416  6929  123
0.33.0   1147      772  5088  6516  139
"""
_FILES: Final = ("kv_cache_utils.py", "gpu_worker.py", "gpu_model_runner.py", "gpu_model_runner.py", "core.py")
_MESSAGES: Final = ("KV cache size:", "Available KV cache memory", "Model loading took", "Graph capturing finished", "LLM engine")
#: What the second runner's lines say: (load, graphs).
_SECOND_RUNNER: Final = {"0.27.1": (329, 791), "0.30.0": (428, 1066), "0.33.0": (428, 1163)}
#: Lines of tracebacks by function. Source: https://github.com/vllm-project/vllm/issues/27508
_TRACES: Final = {("check_enough_kv_cache_memory", "716"): "0.11.0", ("get_kv_cache_configs", "1243"): "0.11.0"}
_TRACE: Final = re.compile(r'kv_cache_utils\.py", line (\d{1,6}), in (\w{1,60})')
#: Tags of processes: pattern, first release, first that no longer has it.
_TAGS: Final = (
    (re.compile(r"EngineCore$"), "0.19.0", ""),
    (re.compile(r"EngineCore_DP\d"), "0.10.0", ""),
    (re.compile(r"APIServer$"), "0.10.0", ""),
    (re.compile(r"Worker_\w*[A-Z]\d"), "0.10.0", ""),
    (re.compile(r"VllmWorker$"), "0.8.0", "0.10.0"),
    (re.compile(r"EngineCore_\d"), "0.8.0", "0.10.0"),
    (re.compile(r"VllmWorkerProcess$"), "0.4.0", "0.11.1"),
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """version: as printed, or as the line numbers have it, None where neither is known. source: how it is known.

    since, until: the bounds where it is not ("" is none); until is the first release that it cannot be. old_engine: engine V0.
    """

    version: str | None
    source: str = ""
    since: str = ""
    until: str = ""
    old_engine: bool = False

    @property
    def candidates(self) -> tuple[str, ...]:
        """A release for each set of rules that the log may follow, the newest first."""
        if self.version:
            own = _engine_version(self.version, self.old_engine)
            if not re.search(r"dev|rc|\+", self.version) or self.old_engine:
                return (own,)
            # A build between two releases may have the rules of the next one.
            after = [row for row in VERSIONS if version_key(row) > version_key(own)]
            return (own, *after[:1])
        rows = list(VERSIONS)
        found = []
        for first, after in zip(rows, [*rows[1:], ""], strict=True):
            low = max((v for v in (first, self.since) if v), key=version_key)
            if (not after or version_key(low) < version_key(after)) and (
                not self.until or version_key(low) < version_key(self.until)
            ):
                found.append(_engine_version(low, self.old_engine))
        return tuple(dict.fromkeys(reversed(found)))


def _engine_version(version: str, old_engine: bool) -> str:
    """The release's numbers; engine V0 kept the rules that V1 left with 0.9.2."""
    match = re.match(r"\d{1,3}\.\d{1,3}(?:\.\d{1,3})?", version)
    numbers = match[0] if match else version
    return "0.9.1" if old_engine and version_key(numbers) >= version_key("0.9.2") else numbers


def release_of(lines: Sequence[Line], found: Iterable[Found]) -> Release:
    """The release that wrote these lines of one start."""
    said = _said(lines)
    old = _old_engine(lines)
    if said:
        return Release(said, "printed", old_engine=old)
    printed = [line for line in lines if line.source]
    exact = _by_lines(printed, lines)
    if exact:
        return Release(exact[0], exact[1], old_engine=old)
    for line in lines:
        if image := _IMAGE.search(line.text):
            return Release(image[1], "the name of its image", old_engine=old)
    bounds = [(each.shape.since, each.shape.until) for each in found]
    for line in lines:
        bounds += [(first, end) for tag, first, end in _TAGS if line.process and tag.match(line.process)]
    bounds += _around(printed)
    since = max((first for first, _ in bounds if first), key=version_key, default="")
    until = min((end for _, end in bounds if end), key=version_key, default="")
    if since and until and version_key(until) <= version_key(since):  # lines of different releases, or of a fork
        until = ""
    return Release(None, "the shapes of its lines" if since or until else "", since, until, old)


def _said(lines: Sequence[Line]) -> str | None:
    for line in lines:
        if "ersion" in line.text or "LLM engine (v" in line.text or "vllm" in line.text:
            for match in _SAID.finditer(line.text[:4000]):
                if match[1].startswith("0.") and not re.match(r"0\.(?:0|1)\.(?:0|dev)", match[1]) and _context(line.text, match):
                    return match[1]
    return None


def _context(text: str, match: re.Match[str]) -> bool:
    """Whether a version is vLLM's own: others have their name before it."""
    before = text[max(0, match.start() - 40) : match.end()].lower()
    return "llm engine" in before or "api server" in before or "vllm" in before or "█" in text


def _old_engine(lines: Sequence[Line]) -> bool:
    """Whether the older engine wrote it: it says so, or prints blocks of the CPU."""
    for line in lines:
        if match := _ENGINE.search(line.text):
            return match[1] != "V1"
        if "CPU blocks:" in line.text or "PyTorch activation peak memory takes" in line.text:
            return True
    return False


@functools.cache
def _rows() -> list[tuple[str, list[set[int]]]]:
    rows = []
    for row in _LINES.strip().splitlines():
        version, *cells = row.split()
        rows.append((version, [{int(n) for n in cell.split("/") if n != "-"} for cell in cells]))
    return rows


def _numbers(lines: Iterable[Line]) -> list[tuple[int, int, str]]:
    """Column of the table, line number and source of each message that the table has."""
    found = []
    for line in lines:
        file, _, number = (line.source or "").rpartition(":")
        for column, (name, message) in enumerate(zip(_FILES, _MESSAGES, strict=True)):
            if message in line.text and file.endswith(name) and number.isdigit():
                found.append((column, int(number), f"{name}:{number}"))
    return found


def _by_lines(lines: Sequence[Line], traces: Sequence[Line]) -> tuple[str, str] | None:
    """The release whose line numbers these are; more of them win, then the newest."""
    votes: dict[str, list[str]] = {}
    for column, number, source in _numbers(lines):
        for version, cells in _rows():
            if number in cells[column]:
                votes.setdefault(version, []).append(source)
    for line in lines:
        file, _, at = (line.source or "").rpartition(":")
        for version, pair in _SECOND_RUNNER.items():
            wanted = dict(zip(_MESSAGES[2:4], pair, strict=True))
            if file.rpartition("/")[2] == "model_runner.py" and any(m in line.text and at == str(n) for m, n in wanted.items()):
                votes.setdefault(version, []).append(line.source or "")
    for line in traces:
        for at, function in _TRACE.findall(line.text):
            if (function, at) in _TRACES:
                votes.setdefault(_TRACES[function, at], []).append(f"kv_cache_utils.py:{at}")
    # The load's line of the second runner is the same in two releases: it alone decides nothing.
    sure = {version: found for version, found in votes.items() if len(votes) == 1 or len(found) > 1}
    if not sure:
        return None
    best = max(sure, key=lambda version: (len(sure[version]), version_key(version)))
    return best, ", ".join(dict.fromkeys(sure[best]))


def _around(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Between which releases a build lies whose line number is none of theirs: numbers grew up to 0.30 with the files."""
    found = []
    rows = [(version, cells) for version, cells in _rows() if version != "0.33.0"]
    for column, number, _ in _numbers(lines):
        if column not in (0, 2, 3):
            continue
        known = [(version, max(cells[column])) for version, cells in rows if cells[column]]
        below = [version for version, at in known if at < number]
        above = [version for version, at in known if at > number]
        if below and above:
            found.append((below[-1], above[0] if above[0] != "0.9.2" else ""))
    return found
