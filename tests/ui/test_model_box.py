"""The model box: what each kind of text means, what it reads, and what it never does."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from model_configs import hub
from planner.errors import InputError, Unavailable
from ui.model_text import Named, matching, named

from .. import gguf_files
from ..hub.server import HubServer, config_repo
from .conftest import OpenPage
from .test_plan_page import ROOT, config, faults, texts, total

GEMMA = "google/gemma-3-27b-it"
BYTES = f"{4 * 2 * 1_024 * 128 * 2:,} bytes"  # config() at 1,024 tokens: layers x heads x tokens x (K and V of 64) x 2 B


def typed(page: AppTest, text: str) -> AppTest:
    """The page after somebody wrote `text` into the box, which may be none of its options."""
    box = page.selectbox(key="model")
    box.options.append(text)
    return box.set_value(text).run()


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (GEMMA, Named("catalogue", GEMMA)),
        (" GEMMA-3-27B-IT ", Named("catalogue", GEMMA)),
        (f"hub:{GEMMA}", Named("hub", GEMMA)),
        ("owner/name", Named("hub", "owner/name")),
        ("owner/name:Q4_K_M", Named("hub", "owner/name:Q4_K_M")),
        ("https://huggingface.co/owner/name", Named("hub", "owner/name")),
        ("hf.co/owner/name:Q4_K_M", Named("hub", "owner/name:Q4_K_M")),
        (f"https://huggingface.co/{GEMMA}/tree/main", Named("catalogue", GEMMA)),
        (f"https://huggingface.co/{GEMMA}/tree/refs%2Fpr%2F1", Named("hub", GEMMA, "refs/pr/1")),
        (f"https://huggingface.co/{GEMMA}/blob/abc123/config.json", Named("hub", GEMMA, "abc123")),
        ("https://huggingface.co/o/n/blob/main/sub/m-Q4_K_M.gguf?download=true", Named("hub", "o/n:sub/m-Q4_K_M.gguf")),
        ('{"model_type": "llama"}', Named("content", '{"model_type": "llama"}')),
        ("/etc/passwd", Named("path", "/etc/passwd")),
        ("~/models/x", Named("path", "~/models/x")),
        ("C:\\models\\x.gguf", Named("path", "C:\\models\\x.gguf")),
        ("model.gguf", Named("path", "model.gguf")),
        ("llama 70b", Named("words", "llama 70b")),
    ],
)
def test_what_a_text_means(text: str, means: Named) -> None:
    assert named(text) == means


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/owner/name", "https://huggingface.co/datasets/owner/name", "https://huggingface.co/owner", "x" * 201,
        "", "  ", "http://[::1", "https://", "catalogue:no such model",
    ],
)  # fmt: skip
def test_what_is_no_model_is_said(text: str) -> None:
    with pytest.raises(InputError) as error:
        named(text)
    assert error.value.fields["field"] == "model"


@given(st.text(max_size=60), st.sampled_from(["", "https://huggingface.co/", "http://[", "hub:", "catalogue:", "hf.co/", "./"]))
def test_no_text_breaks_the_box(text: str, before: str) -> None:
    """Any text is a meaning, or an error of the planner's own."""
    with contextlib.suppress(InputError):
        assert named(before + text).name


def test_words_find_catalogue_models_that_hold_each_of_them() -> None:
    found = matching("llama 70b")
    assert "meta-llama/Llama-3.3-70B-Instruct" in found
    assert all("llama" in name.lower() for name in found)
    assert matching("no such words") == []


def test_an_address_is_shortened_to_the_model(open_page: OpenPage) -> None:
    page = typed(open_page(), f"https://huggingface.co/{GEMMA}")
    assert page.selectbox(key="model").value == GEMMA
    assert total(page) == "2.91 GiB"
    assert page.query_params["model"] == GEMMA


def test_words_offer_names_and_one_is_picked(open_page: OpenPage) -> None:
    page = typed(open_page(), "gemma 27b")
    assert faults(page) == []
    assert not page.metric
    page.pills(key="catalogue_pick").set_value(GEMMA).run()
    assert total(page) == "2.91 GiB"


def test_a_config_goes_into_the_box_and_not_into_the_link(open_page: OpenPage) -> None:
    page = typed(open_page(tokens=1_024), config())
    assert page.selectbox(key="model").value == "config.json"
    assert page.metric[0].delta == BYTES
    assert page.query_params["model"] == "config.json"
    typed(page, "Qwen/Qwen2.5-72B")
    assert "model" not in page.query_params
    page.selectbox(key="model").set_value("config.json").run()  # it is kept beside the catalogue
    assert page.metric[0].delta == BYTES


def test_a_link_to_somebody_elses_config_says_so(open_page: OpenPage) -> None:
    page = open_page(model="config.json")
    assert faults(page) == []
    assert "a link does not carry" in str(page.info[0].value)
    assert not page.metric


def test_the_header_of_a_gguf_file_is_enough(open_page: OpenPage, tmp_path: Path) -> None:
    data = gguf_files.write(tmp_path / "tiny.gguf").read_bytes()
    page = open_page(tokens=1_024)
    page.file_uploader(key="upload").upload("tiny.gguf", data[: len(data) // 2]).run()
    assert faults(page) == []
    layers, heads, width = gguf_files.LAYERS, gguf_files.KV_HEADS, gguf_files.HIDDEN // gguf_files.HEADS
    assert page.metric[0].delta == f"{layers * heads * 1_024 * 2 * width * 2:,} bytes"
    page.file_uploader(key="upload").upload("other.gguf", data[:100]).run()
    (message,) = faults(page)
    assert "other" in message


def test_a_path_of_the_server_is_read_only_where_it_is_ones_own(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(config())
    page = open_page(model=path, tokens=1_024)
    (message,) = faults(page)
    assert "upload the file" in message
    monkeypatch.setenv("KV_PLANNER_LOCAL_FILES", "1")
    page = open_page(model=path, tokens=1_024)
    assert faults(page) == []
    assert page.metric[0].delta == BYTES


# The Hub


def read_again(page: AppTest) -> AppTest:
    return next(button for button in page.button if button.label == "Read again").click().run()


@pytest.mark.parametrize("link", [{"model": "org/model"}, {"hub": "org/model"}])
def test_an_unreachable_hub_is_one_message_that_names_what_works(open_page: OpenPage, link: dict[str, str]) -> None:
    page = open_page(**link)
    (message,) = faults(page)
    assert "catalogue works offline" in message
    typed(page, "Qwen/Qwen2.5-72B")
    assert faults(page) == []
    assert total(page) == "10.00 GiB"


def test_a_bad_token_is_refused_and_not_repeated(open_page: OpenPage) -> None:
    page = open_page(model="org/model")
    page.text_input(key="hub_token").set_value("hf_ bad\ntoken")
    read_again(page)
    (message,) = faults(page)
    assert "access token" in message
    assert "bad" not in message.replace("bad input", "")


def test_names_are_offered_and_one_is_read_once(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def search(self: hub.Hub, text: str, limit: int = 8) -> tuple[hub.Suggestion, ...]:
        return (hub.Suggestion("org/some_model_7b", 5, False),)

    def fetch(self: hub.Hub, model_id: str, revision: str = "main") -> hub.HubConfig:
        asked.append(model_id)
        return hub.HubConfig(model_id, model_id, "a" * 40, revision, json.loads(config()), False, False)

    monkeypatch.setattr(hub.Hub, "search", search)
    monkeypatch.setattr(hub.Hub, "config", fetch)
    page = typed(open_page(tokens=1_024), "some model")
    assert asked == []
    assert faults(page) == []
    page.pills(key="hub_pick").set_value("org/some_model_7b").run()
    assert asked == ["org/some_model_7b"]
    assert page.metric[0].delta == BYTES
    page.number_input(key="tokens").set_value(2_048).run()
    assert asked == ["org/some_model_7b"]  # a change of the numbers asks the Hub nothing


def test_a_hub_error_is_kept_until_it_is_asked_again(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(self: hub.Hub, model_id: str, revision: str = "main") -> hub.HubConfig:
        asked.append(model_id)
        raise Unavailable("the Hub did not answer")

    monkeypatch.setattr(hub.Hub, "config", fetch)
    page = open_page(model="org/model")
    page.number_input(key="tokens").set_value(2_048).run()
    assert len(asked) == 1
    read_again(page)
    assert len(asked) == 2


def test_an_address_with_a_revision_asks_for_it(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def fetch(self: hub.Hub, model_id: str, revision: str = "main") -> hub.HubConfig:
        asked.append((model_id, revision))
        return hub.HubConfig(model_id, model_id, "a" * 40, revision, json.loads(config()), False, False)

    monkeypatch.setattr(hub.Hub, "config", fetch)
    page = typed(open_page(tokens=1_024), f"https://huggingface.co/{GEMMA}/tree/v2")
    assert asked == [(GEMMA, "v2")]
    assert page.metric[0].delta == BYTES
    line = next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner"))
    assert f"hub:{GEMMA} --revision v2" in line


def test_a_token_reaches_the_hub_and_nothing_else(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_" + "s" * 34
    with HubServer({"org/gated": config_repo(json.loads(config()), gated=True, needs=token)}) as server:
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        page = open_page(model="org/gated", tokens=1_024)
        (message,) = faults(page)
        assert "Give an access token" in message
        page.text_input(key="hub_token").set_value(token)
        read_again(page)
        assert faults(page) == []
        assert page.metric[0].delta == BYTES
        assert token not in texts(page)
        assert token not in str(dict(page.query_params))
        another = open_page(model="org/gated", tokens=1_024)  # what a token fetched is nobody else's
        assert len(faults(another)) == 1


def test_a_file_of_the_server_is_not_told_about(open_page: OpenPage) -> None:
    there, missing = (faults(open_page(model=path)) for path in (ROOT / "pyproject.toml", ROOT / "no_such_file.toml"))
    assert there == missing
