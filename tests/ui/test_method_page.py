"""The Method page: sections by link, families by model type, engines by version, and figures that are those of the documents."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from model_configs.families import table
from planner.engines import ENGINES
from planner.layers import Full
from ui import method_docs, method_engines, method_families, method_notes, method_parts, method_versions
from ui.i18n import texts
from ui.method_docs import Piece

from .conftest import opening

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("kinds", "families", "engines", "budget", "accuracy", "formats")


def opened(**link: str) -> AppTest:
    page = opening(60, "ui/method.py")(**link)
    assert not page.exception, page.exception[0].stack_trace
    assert not page.error, page.error[0].value
    return page


def said(page: AppTest) -> str:
    """All Markdown of the page without its escapes."""
    return re.sub(r"\\(.)", r"\1", "\n".join(str(block.value) for block in page.markdown))


def headings(page: AppTest) -> list[str]:
    return [str(heading.value) for heading in page.header]


# Sections and their links


@pytest.mark.parametrize("section", SECTIONS)
def test_a_link_opens_one_section_alone(section: str) -> None:
    shown = headings(opened(section=section))
    titles = {name: texts()["method.formats" if name == "formats" else f"method.{name}.title"] for name in SECTIONS}
    assert [name for name, title in titles.items() if title in shown] == [section]


def test_a_section_goes_into_the_link_by_its_code() -> None:
    page = opened()
    page.button_group(key="section").set_value("engines").run()
    page.button_group(key="rules").set_value("sglang").run()
    assert {name: page.query_params[name] for name in ("section", "rules")} == {"section": "engines", "rules": "sglang"}
    page.button_group(key="section").set_value("kinds").run()  # the default leaves the link, and an engine is none of its choices
    assert {"section", "rules"} & set(page.query_params) == set()


def test_the_same_link_opens_the_section_in_another_language() -> None:
    page = opened(lang="zh-TW", section="engines", rules="sglang")
    assert texts("zh-TW")["method.engines.title"] in headings(page)
    assert page.subheader[0].value == "SGLang"
    assert texts("zh-TW")["method.english"] in [str(caption.value) for caption in page.caption]


@pytest.mark.parametrize("link", [{"section": "nonsense"}, {"section": "families", "family": "no_such_type"}])
def test_what_a_link_asks_for_in_vain_is_reported(link: dict[str, str]) -> None:
    name, asked = list(link.items())[-1]
    boxes = [str(warning.value).replace("\\", "") for warning in opened(**link).warning]
    assert any(name in box and asked in box for box in boxes)


# Kinds


def test_each_kind_says_who_keeps_it() -> None:
    page = opened()
    assert "Kept by **2** model types, such as `deepseek_ref`, `deepseek_v4`." in said(page)
    assert "`openai/whisper-large-v3`" in said(page)
    assert not [caption for caption in page.caption if caption.value == texts()["method.english"]]
    page.button(key="go_formats").click().run()
    assert texts()["method.formats"] in headings(page)


# Families


def test_a_family_is_opened_by_a_type_with_its_answer_worked_out_again() -> None:
    """Gemma 3 27B: 10 full layers of 10,000 and 52 sliding ones of 1,023 positions, 16 heads of 128, 2 bytes, K and V."""
    page = opened(section="families", family="gemma3")
    need = (10 * 10_000 + 52 * 1_023) * 16 * 128 * 2 * 2
    assert f"**{need:,} bytes** by the source, **{need:,} bytes** by the planner" in said(page)
    assert "`gemma3` is read by the row of its decoder, `gemma3_text`." in said(page)
    rules = " ".join(str(cell) for table in page.table for cell in table.value.to_numpy().ravel())
    assert "schedule: {every: 6}" in rules
    assert page.dataframe[0].value.iloc[0].to_list()[:3] == ["gemma3", "equal", "5 sliding, 1 full"]
    page.button(key="families_all").click().run()
    assert len(page.dataframe[0].value) == len(method_families.all_rows())
    assert "family" not in page.query_params


def test_every_row_of_both_tables_is_listed_with_kinds_and_found_by_all_its_names() -> None:
    rows = method_families.all_rows()
    assert [row.row.name for row in rows[: len(table().families)]] == [family.name for family in table().families]
    assert sum(len(row.names) + len(row.others) for row in rows) == len(method_families.by_name())
    assert all(row.kinds for row in rows)
    wanted = {
        "llama": ("full",), "gemma3": ("full", "sliding"), "llama4": ("full", "chunked"), "mamba": ("state",),
        "falcon-h1": ("full+state",),
    }  # fmt: skip
    assert {name: method_families.by_name()[f"gguf:{name}"].kinds for name in wanted} == wanted
    for name in ("falcon", "gguf:deepseek4", "gguf:clip", "albert"):
        opened(section="families", family=name)


def test_the_table_is_searched_and_says_when_nothing_is_found() -> None:
    page = opened(section="families")
    page.text_input(key="find_families").set_value("MAMBA gguf").run()
    assert {row["Read from"] for row in page.dataframe[0].value.to_dict("records")} == {"GGUF"}
    page.text_input(key="find_families").set_value("zzz_none").run()
    assert len(page.dataframe) == 0
    assert any("zzz_none" in str(caption.value).replace("\\", "") for caption in page.caption)


# Engines


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_shows_its_rules_its_versions_and_all_its_files(engine: str) -> None:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    page.query_params["section"], page.query_params["rules"] = "engines", engine
    page.switch_page("ui/method.py")
    for module in method_engines.modules(engine)[1:]:
        page.session_state[f"file_{module.__name__}"] = True
    for name in method_engines.tables(engine):
        page.session_state[f"table_{name}"] = True
    page.run()
    assert not page.exception, page.exception[0].stack_trace
    assert not page.error, page.error[0].value
    assert "**`cache_bytes`**" in said(page)
    assert "Source:" in said(page)
    assert len(page.table[0].value) == len(method_engines.EXAMPLES)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_reasons_beside_an_example_add_up(engine: str) -> None:
    found = {one.kind: one for one in method_engines.examples(engine)}
    assert found["full"].own_bytes == 32 * 8 * 10_000 * (128 + 128) * 2  # Llama-3.1-8B: 32 layers, 8 heads of 128 in 2 bytes
    for one in found.values():
        assert (one.bytes is None) == bool(one.refusal)
        assert one.bytes is None or one.bytes == one.own_bytes + sum(reason.bytes for reason in one.reasons)


def test_versions_follow_each_other_and_say_what_changed() -> None:
    for engine in method_versions.TABLES:
        rows = method_versions.changes(engine)
        assert [row.until for row in rows] == [*(row.first for row in rows[1:]), ""]
        assert all(row.fields or row.said for row in rows)
    sglang = {row.first: row for row in method_versions.changes("sglang")}
    assert sglang["0.5.20"].fields == {"states": "ratio_padded", "state_stage": "largest"}
    llama_cpp = {row.first: row for row in method_versions.changes("llama.cpp")}
    assert llama_cpp["b8665"].fields["swa"] == {"batch": "n_ubatch", "plus": 0, "pad": 256, "capped": "before"}
    assert llama_cpp["b5140"].fields["equal_heads"] is None  # a row that lacks a field takes it back
    assert "12801" in llama_cpp["b5140"].source


# Budget and accuracy


def test_the_budget_has_every_constant_and_gpu_with_its_source() -> None:
    constants, gpus = (one.value for one in opened(section="budget").dataframe)
    assert (constants["Source"].str.len() > 0).all()
    assert set(constants["Engine"]) == {"vLLM", "TensorRT-LLM", "TGI", "transformers", "llama.cpp", "all with CUDA"}
    h100 = gpus[gpus["GPU"] == "H100 80GB SXM5"].iloc[0]
    assert h100["Low, GiB"] <= h100["Planned with, GiB"] <= h100["High, GiB"] <= h100["Driver's total, GiB"]


def test_the_accuracy_is_that_of_the_documents() -> None:
    page = opened(section="accuracy")
    tables = [one.value for one in page.table]
    text = (ROOT / "docs/COVERAGE.md").read_text("utf-8")
    for name in ("vLLM 0.33.0's own classes over real configs", "static cache, the same"):
        count = re.search(rf"\| {re.escape(name)} \| ([\d,]+)", text)
        assert count
        row = tables[0][tables[0]["Compared with"] == name].iloc[0]
        assert row["Equal"] == f"{int(count[1].replace(',', '')):,} of {int(count[1].replace(',', '')):,} (100%)"
    (sweep,) = [one for one in tables if "Mapped as" in one]
    counts = re.search(r"\| all \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", text)
    assert counts
    assert [*sweep.iloc[-1]][1:] == list(counts.groups())
    page.text_input(key="find_sweep").set_value("gemma3n").run()
    assert page.dataframe[2].value["Model type"].to_list() == ["gemma3n", "gemma3n_text"]


# A deployment


def test_an_image_has_all_that_the_page_reads(tmp_path: Path) -> None:
    """With what the Dockerfile copies and no truth sets, every section is drawn, without torch and transformers."""
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    for name in (name for line in copied for name in line.split()):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    program = (
        "import sys; from streamlit.testing.v1 import AppTest\n"
        f"for section in {SECTIONS}:\n"
        "    page = AppTest.from_file('app.py', default_timeout=60)\n"
        "    page.query_params['section'] = section\n"
        "    page.switch_page('ui/method.py').run()\n"
        "    assert not page.exception and not page.error, (section, page.error, page.exception)\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    environment = {"PLANNER_TRUTH": str(tmp_path / "none"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.strip() == "[]"


# What the page is read from


def test_a_docstring_is_taken_apart() -> None:
    assert method_docs.pieces(method_docs.of(Full))[1:3] == [
        Piece("formula", "elements = kv_heads x positions x (k_dim + v_dim)"),
        Piece("text", "kv_heads: heads that are really cached (MHA: all query heads, MQA: one). k_dim, v_dim: width of one "
              "head's key and value; they differ in some models (MiMo-V2-Flash 192 and 128)."),
    ]  # fmt: skip
    doc = "cut off before the next\nrows = 2.5 x a. The rest\n\nErrors: none. Source: file.py 3.5.\nof two lines."
    assert method_docs.pieces(doc) == [
        Piece("text", "Cut off before the next:"), Piece("formula", "rows = 2.5 x a"), Piece("text", "The rest."),
        Piece("small", "Errors: none."), Piece("small", "Source: file.py 3.5. of two lines."),
    ]  # fmt: skip


def test_web_addresses_and_papers_are_links_and_paths_are_text() -> None:
    assert method_docs.sourced("https://a.io/x_y, arXiv 2405.04434; `f.py` src/a_b.py [x](y) --tp") == (
        r"[https\:\/\/a\.io\/x\_y](https://a.io/x_y), [arXiv 2405\.04434](https://arxiv.org/abs/2405.04434); `f.py` src/a\_b\.py "
        r"\[x\]\(y\) `--tp`"
    ).replace(r"\/", "/")


def test_a_tables_comment_is_taken_apart() -> None:
    lines = [
        "What it is.", "  one      the first", "           goes on", "  second_one its meaning", "Source: a file,", "another.",
    ]  # fmt: skip
    assert method_notes.note([f"# {line}" for line in lines]) == method_notes.Note(
        "What it is.", (("one", "the first goes on"), ("second_one", "its meaning")), "a file, another."
    )


def test_a_saved_table_is_csv() -> None:
    text = method_parts.as_csv([{"a": 'x, "y"', "b": None}, {"a": [1, 2], "b": 0.5}])
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": 'x, "y"', "b": ""}, {"a": "[1, 2]", "b": "0.5"}]
