"""The page's texts: every key that the code asks for exists, none is left over, and text from outside stays text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.errors import Gated, HubError, InputError, PlannerError
from ui import i18n, messages

UI = Path(__file__).resolve().parents[2] / "ui"
CODE = "\n".join(path.read_text(encoding="utf-8") for path in (*UI.glob("*.py"), UI.parent / "app.py"))
LITERAL = set(re.findall(r"""["']([a-z_]+(?:\.[a-z0-9_]+)+)["']""", CODE))
PREFIXES = tuple(set(re.findall(r'f"([a-z_]+(?:\.[a-z_]+)*\.)\{', CODE)))


def test_every_key_in_the_code_has_a_text() -> None:
    asked = set(re.findall(r"""\bt\(\s*["']([a-z0-9_.]+)["']""", CODE))
    assert asked - set(i18n.texts()) == set()


def test_every_text_is_used() -> None:
    unused = {key for key in i18n.texts() if key not in LITERAL and not key.startswith(PREFIXES)}
    assert unused == set()


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        i18n.t("no.such.text")


@pytest.mark.parametrize(
    "text",
    ["*bold* _it_ `code`", "[link](http://host)", "![picture](http://host/p.png)", ":material/home: :red[x]", "$x$ <b> & #"],
)
def test_text_from_outside_is_never_markdown(text: str) -> None:
    shown = messages.plain(text)
    assert not re.search(r"(?<!\\)[*_`\[\]()!:$<>&#]", shown)
    assert re.sub(r"\\(.)", r"\1", shown) == text


def test_text_from_outside_is_one_line_of_bounded_length() -> None:
    shown = messages.plain("a\nb\x00\x1b[31m" + "c" * 10_000)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) < 1_300


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("the config has no layers", "The config has no layers."),
        ("num_layers is 0", "num_layers is 0."),
        ("https://hub answered", "https://hub answered."),
        ("Ready!", "Ready!"),
        ("", ""),
    ],
)
def test_a_message_becomes_a_sentence(message: str, sentence: str) -> None:
    assert messages.sentence(message) == sentence


def test_what_to_do_goes_by_the_errors_code() -> None:
    assert "access token" in messages.hint(Gated("x"))
    assert "offline" in messages.hint(HubError("x"))
    assert messages.hint(InputError("x")) == ""
    assert messages.hint(PlannerError("x")) == ""
