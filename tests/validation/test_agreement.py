"""The measured agreement as data: the same figures as the documents, written only when they change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from validation import agreement, documents

ROOT = Path(__file__).resolve().parents[2]
COVERAGE = (ROOT / "docs/COVERAGE.md").read_text("utf-8")
ACCURACY = (ROOT / "docs/ACCURACY.md").read_text("utf-8")


def table(text: str, section: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head; a number's share and its commas left out."""
    part = text.split(f"<!-- {section}:start -->")[1].split(f"<!-- {section}:end -->")[0]
    rows = [line.strip("|").split("|") for line in re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)[0].splitlines()]  # type: ignore[index]
    return [[re.sub(r"(?<=\d),(?=\d{3})| \(.*%\)", "", cell.strip()) for cell in row] for row in rows[2:]]


def figures(section: str) -> dict:  # type: ignore[type-arg]
    found: dict = agreement.read()[section]["figures"]  # type: ignore[type-arg]
    return found


def test_transformers() -> None:
    ours = [
        [str(one[name]) if name in one else "" for name in ("rows", "read", "equal", "layers_equal")]
        for one in figures("transformers").values()
    ]
    assert ours == [row[1:] for row in table(COVERAGE, "transformers")]


def test_vllm() -> None:
    ours = [[str(one["rows"]), str(one["equal"]), str(sum(one["left_out"].values()))] for one in figures("vllm").values()]
    assert ours == [row[1:] for row in table(COVERAGE, "vllm")]


def test_llama_cpp() -> None:
    kept = figures("llama-cpp")
    ours = [
        [str(one["rows"]), str(one["accepted"]), str(one["equal"]), f"{one['refused_by_both']} of {one['refused']}"]
        for one in (kept["gguf"], kept["configs"], kept["older"])
    ]
    assert ours == [row[1:] for row in table(COVERAGE, "llama-cpp")]
    assert all(f"- not read from config.json: {name}:" in COVERAGE for name in kept["unread"])


def test_logs() -> None:
    names = ("rows", "compared", "figures", "equal")
    ours = [[engine, *(str(one[name]) for name in names)] for engine, one in figures("logs").items()]
    assert ours == table(COVERAGE, "logs")
    assert all(one["rows"] - one["compared"] == sum(one["left_out"].values()) for one in figures("logs").values())


def test_accuracy() -> None:
    """The sums as the document rounds them, and every start-up's error worked out again from its bytes."""
    kept = figures("accuracy")
    ours = [
        [str(one["n"]), *(f"{one[name]:{form}}" for name, form in (("mean", ".1%"), ("median", ".1%"))),
         f"{one['worst']:+.1%} ({one['worst_id']})", f"{one['bias']:+.1%}", str(one["outside"])]
        for one in kept["sets"].values()
    ]  # fmt: skip
    assert ours == [row[1:] for row in table(ACCURACY, "accuracy")]
    errors = [row.rsplit("|", 2)[1].strip() for row in ACCURACY.splitlines() if re.search(r"\| [+-][\d.]+% \|$", row)]
    assert [f"{line['ours'] / line['printed'] - 1:+.1%}" for line in kept["lines"]] == errors
    assert all(f"| {name} | {why} |" in ACCURACY for name, why in kept["left_out"].items())


def test_a_section_is_written_only_when_its_figures_change(tmp_path: Path) -> None:
    path = tmp_path / "agreement.yaml"
    path.write_text(yaml.safe_dump({"logs": {"changed": "2001-01-01", "figures": {"rows": 1}}}))
    agreement.keep("logs", {"rows": 1}, path)
    assert yaml.safe_load(path.read_text())["logs"]["changed"] == "2001-01-01"
    agreement.keep("logs", {"rows": 2}, path)
    kept = yaml.safe_load(path.read_text())["logs"]
    assert kept["figures"] == {"rows": 2}
    assert kept["changed"] > "2001-01-01"


def test_other_figures_make_the_data_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """`documents.stale` names the file beside the pages, so that the test of the documents holds it too."""
    monkeypatch.setitem(documents.SECTIONS, "logs", (lambda truth: {}, {}))
    monkeypatch.setitem(documents.DATA, "logs", lambda found: {"rows": -1})
    assert documents.stale("logs", {}) == ["agreement.yaml"]
