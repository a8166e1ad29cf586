"""The measured figures in README.md and docs/COVERAGE.md, section by section: `python -m validation.documents --write`.

Each section is what a truth set says today, and the test suite fails when the page says something else. The same figures go to
results/agreement.yaml as data, which the web page shows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from validation import accuracy, agreement, coverage, coverage_llama_cpp, coverage_logs, coverage_sweep, coverage_vllm

COVERAGE = coverage.ROOT / "docs/COVERAGE.md"
ACCURACY = coverage.ROOT / "docs/ACCURACY.md"
README = coverage.ROOT / "README.md"

#: Section: how it is measured from a truth folder, and what each page says of it.
SECTIONS: dict[str, tuple[Callable[[Path], Any], dict[Path, Callable[[Any], str]]]] = {
    "transformers": (coverage.measure, {README: coverage.summary, COVERAGE: coverage.document}),
    "vllm": (coverage_vllm.tallies, {README: coverage_vllm.summary, COVERAGE: coverage_vllm.markdown}),
    "llama-cpp": (coverage_llama_cpp.measure, {README: coverage_llama_cpp.summary, COVERAGE: coverage_llama_cpp.document}),
    "accuracy": (accuracy.measure, {ACCURACY: accuracy.document}),
    "sweep": (lambda truth: coverage_sweep.read(), {README: coverage_sweep.summary, COVERAGE: coverage_sweep.document}),
    "logs": (coverage_logs.tallies, {README: coverage_logs.summary, COVERAGE: coverage_logs.document}),
}
#: The same as plain data, of the sections that do not keep their own.
DATA: dict[str, Callable[[Any], agreement.Data]] = {
    "transformers": agreement.transformers, "vllm": agreement.vllm, "llama-cpp": agreement.llama_cpp, "logs": agreement.logs,
    "accuracy": lambda found: agreement.accuracy(
        found, {name: accuracy.figures(getattr(found, name)) for name in ("stated", "own", "presumed")}
    ),
}  # fmt: skip


def replace_between(text: str, marker: str, body: str) -> str:
    """`text` with what stands between the marker's two comments replaced."""
    start, end = f"<!-- {marker}:start -->", f"<!-- {marker}:end -->"
    head, rest = text.split(start)
    return f"{head}{start}\n{body.strip()}\n{end}{rest.split(end)[1]}"


def stale(section: str, figures: Any) -> list[str]:
    """The pages, and the data, that do not say what `figures` say."""
    pages = SECTIONS[section][1]
    texts = {page: page.read_text("utf-8") for page in pages}
    found = [page.name for page, render in pages.items() if replace_between(texts[page], section, render(figures)) != texts[page]]
    if section in DATA and agreement.read().get(section, {}).get("figures") != DATA[section](figures):
        found.append(agreement.RESULTS.name)
    return found


def rewrite(section: str, figures: Any) -> None:
    """Makes the pages, and the data, say what `figures` say."""
    for page, render in SECTIONS[section][1].items():
        page.write_text(replace_between(page.read_text("utf-8"), section, render(figures)), "utf-8")
    if section in DATA:
        agreement.keep(section, DATA[section](figures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="only these sections")
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    arguments = parser.parse_args()
    truth = coverage.truth_folder()
    if truth is None:
        print("error: the truth sets are not here; set PLANNER_TRUTH", file=sys.stderr)
        return 3
    for section in arguments.sections or SECTIONS:
        measure, pages = SECTIONS[section]
        figures = measure(truth)
        if arguments.write:
            rewrite(section, figures)
        if README in pages:
            print(pages[README](figures).strip(), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
