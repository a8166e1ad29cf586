"""The Explain page: a pasted log beside the rules, what is asked for, and what is no log."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui.i18n import t

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "ui/example_log.txt").read_text(encoding="utf-8")


@pytest.fixture
def explain() -> AppTest:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    return page.switch_page("ui/explain.py").run()


def pasted(page: AppTest, text: str) -> AppTest:
    return page.text_area(key="explain_log").set_value(text).run()


def test_an_empty_page_asks_for_a_log(explain: AppTest) -> None:
    assert not explain.exception
    assert [caption.value for caption in explain.caption] == [t("explain.waiting")]


def test_the_example_agrees(explain: AppTest) -> None:
    """476,016 tokens in 58.11 GiB, as the published run printed: 29,751 blocks of 16 tokens x 131,072 bytes, 58.11 requests."""
    page = next(button for button in explain.button if button.label == t("explain.example")).click().run()
    assert [box.value for box in page.success] == [t("explain.agrees.many", count=2)]
    table = page.table[0].value
    assert [text.replace("\\", "") for text in table[t("explain.column.printed")]] == ["476,016", "58.11"]
    assert set(table[t("explain.column.agrees")]) == {t("explain.yes")}
    assert "29,751 blocks" in table[t("explain.column.rule")].iloc[0]


def test_a_figure_that_cannot_be_is_marked(explain: AppTest) -> None:
    """The same start with half the tokens differs, and the page says which figure."""
    page = pasted(explain, EXAMPLE.replace("476,016", "238,008"))
    assert any("figures differ" in box.value for box in page.warning)
    assert f"**{t('explain.no')}**" in set(page.table[0].value[t("explain.column.agrees")])


def test_a_log_without_a_model_asks_for_one(explain: AppTest) -> None:
    """Chosen on the page, it is used."""
    page = pasted(explain, EXAMPLE.replace("meta-llama/Llama-3.1-8B", "/models/mine"))
    assert not page.exception
    page = page.selectbox(key="explain_model").set_value("meta-llama/Llama-3.1-8B").run()
    assert [box.value for box in page.success] == [t("explain.agrees.many", count=2)]


@pytest.mark.parametrize("text", ["hello", "<script>alert(1)</script>", "\x00\x01\x02", "{" * 10_000, "GPU KV cache size"])
def test_what_is_no_log_is_one_message(explain: AppTest, text: str) -> None:
    page = pasted(explain, text)
    assert not page.exception
    assert len(page.error) == 1 or page.info


def linked(log: str = "", **link: str) -> AppTest:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    page.session_state["explain_log"] = log
    for name, value in link.items():
        page.query_params[name] = value
    return page.switch_page("ui/explain.py").run()


def test_a_link_says_model_and_gpu() -> None:
    """A model that the log calls by a path is that of the link; the shell is told the same."""
    page = pasted(linked(explain_model="meta-llama/Llama-3.1-8B"), EXAMPLE.replace("meta-llama/Llama-3.1-8B", "/models/mine"))
    assert [box.value for box in page.success] == [t("explain.agrees.many", count=2)]
    assert page.code[-1].value == "python -m planner log server.log --model meta-llama/Llama-3.1-8B"


def test_a_typed_model_is_never_read_as_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of the server with a config.json of the log's very shape is no answer, and its content is not told."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text('{"model_type": "secret_of_the_server"}')
    page = linked(log=EXAMPLE, explain_model=str(tmp_path))
    assert not page.exception
    assert len(page.error) == 1
    assert "secret" not in page.error[0].value
    assert not page.success


def test_a_gpu_that_nobody_knows_is_one_message() -> None:
    page = linked(log=EXAMPLE, explain_gpu="banana")
    assert not page.exception
    assert len(page.error) == 1
    assert "banana" in page.error[0].value
