"""The page in each language: every page runs, what the planner says is translated, and the choice is kept with the inputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui import i18n, language, words
from ui.i18n import texts

APP = Path(__file__).resolve().parents[2] / "app.py"
CHINESE = ("zh-CN", "zh-TW")
PAGES = ("plan", "capacity", "compare", "explain", "validate", "learn", "method")
#: A character of Chinese.
HAN = re.compile(r"[\u4e00-\u9fff]")



def opened(code: str, page: str = "plan", **link: str) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=90)
    app.query_params["lang"] = code
    for name, value in link.items():
        app.query_params[name] = value
    return app.run() if page == "plan" else app.switch_page(f"ui/{page}.py").run()


@pytest.mark.parametrize("code", CHINESE)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_runs_in_each_language(code: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    app = opened(code, page)
    assert not app.exception
    assert not app.error
    assert HAN.search(app.title[0].value)
    assert app.title[0].value in texts(code).values()


@pytest.mark.parametrize("code", CHINESE)
@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang"])
def test_an_engines_reasons_are_told_in_each_language(code: str, engine: str) -> None:
    app = opened(code, engine=engine, model="google/gemma-3-27b-it", tokens="8192", requests="3")
    assert not app.exception
    assert not app.error
    told = next(block.value for block in app.markdown if re.match(r"- [\\+-]", block.value))
    assert all(HAN.search(line) for line in told.splitlines())


@pytest.mark.parametrize("code", CHINESE)
def test_a_plan_that_does_not_fit_says_so_and_what_to_change(code: str) -> None:
    """Llama-3.1-8B has 14.96 GiB of weights, so that its whole context of 131,072 tokens (16 GiB) does not fit on 24 GiB."""
    app = opened(code, "capacity", node="l4", fill="true")
    assert not app.exception
    boxes = [str(box.value) for box in (*app.error, *app.warning)]
    assert any(texts(code)["verdict.none"].split("{")[0] in box for box in boxes)
    buttons = [button for button in app.button if str(button.key).startswith("apply_")]
    assert buttons
    assert any("max" in block.value and HAN.search(block.value) for block in app.markdown)


@pytest.mark.parametrize("code", CHINESE)
def test_an_error_is_told_by_its_code_with_the_planners_words_behind_it(code: str) -> None:
    app = opened(code, gpu="banana")
    found = next(str(box.value) for box in app.error)
    assert found.startswith(texts(code)["error.input.invalid"].split("{")[0])
    assert "banana" in found


def test_a_text_without_a_translation_is_the_planners_own() -> None:
    assert words.term("a new term") == "a new term"
    assert words.kind("full+cross") == "full+cross"


# The choice


@pytest.mark.parametrize(
    ("locale", "code"),
    [
        ("zh", "zh-CN"), ("zh-CN", "zh-CN"), ("zh-SG", "zh-CN"), ("zh-Hans", "zh-CN"), ("zh-Hans-TW", "zh-CN"),
        ("zh-Hans-HK", "zh-CN"), ("zh-MY", "zh-CN"), ("zh-TW", "zh-TW"), ("zh-HK", "zh-TW"), ("zh-MO", "zh-TW"),
        ("zh-Hant", "zh-TW"), ("zh-Hant-CN", "zh-TW"), ("zh_TW", "zh-TW"), ("ZH-hk", "zh-TW"), ("en-GB", "en"), ("de", "en"),
        ("zho", "en"), ("", "en"), (None, "en"),
    ],
)  # fmt: skip
def test_the_browsers_locale_chooses(locale: str | None, code: str) -> None:
    """By the script that the locale names, else by its region's (CLDR, likely subtags)."""
    assert language.of_browser(locale) == code


def test_each_language_is_offered_by_its_own_name() -> None:
    assert i18n.languages() == ("en", *CHINESE)
    assert [i18n.NAMES[code] for code in CHINESE] == ["简体中文", "繁體中文"]


def test_the_link_wins_over_the_browser() -> None:
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.context = {"locale": "zh-HK"}
    app.run()
    assert app.session_state.language == "zh-TW"
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.context = {"locale": "zh-HK"}
    app.query_params["lang"] = "en"
    assert app.run().session_state.language == "en"


@pytest.mark.parametrize("asked", ["fr", "zh", "../en", ""])
def test_a_language_that_there_is_none_of_is_reported(asked: str) -> None:
    app = opened(asked)
    assert not app.exception
    assert app.session_state.language == "en"
    assert any("lang" in str(box.value) for box in app.warning)
    app.button_group(key="language_choice").set_value("zh-CN").run()
    assert not app.warning


def test_it_is_reported_on_a_page_without_inputs_too() -> None:
    assert any("lang" in str(box.value) for box in opened("fr", "method").warning)


def test_a_switch_keeps_what_was_put_in() -> None:
    app = opened("zh-CN", engine="vllm", tokens="12345")
    app.number_input(key="requests").set_value(7).run()
    app.selectbox(key="model").set_value("google/gemma-3-27b-it").run()
    app.number_input(key="vllm.max_model_len").set_value(20_000).run()
    for code in ("zh-TW", "en", "zh-CN"):
        app.button_group(key="language_choice").set_value(code).run()
        assert not app.exception
        assert app.title[0].value == texts(code)["plan.title"]
        assert (app.number_input(key="tokens").value, app.number_input(key="requests").value) == (12_345, 7)
        assert app.selectbox(key="model").value == "google/gemma-3-27b-it"
        assert app.number_input(key="vllm.max_model_len").value == 20_000
        assert app.query_params.get("lang") == (None if code == "en" else code)
