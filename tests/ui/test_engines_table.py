"""What does the table say of all engines side by side, and of which model is it kept?"""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from planner.cache import architecture_bytes
from ui import engine_dtypes, side_by_side
from ui import format as fmt
from ui.engine_fields import LABELS
from ui.model_input import from_catalogue

from .asked import CHOICES, GEMMA, MODELS, asked, has_encoder
from .conftest import OpenPage
from .test_plan_page import config, pasted


def side_table(page: AppTest) -> dict[str, dict[str, str]]:
    rows = next(table.value for table in page.table if "Engine" in table.value.columns).to_dict("records")
    return {row["Engine"]: row for row in rows}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("word", ["auto", "fp8"])
def test_the_table_has_the_librarys_figures(open_page: OpenPage, model: str, word: str) -> None:
    page = open_page(model=model, kv=word, tokens=4_000, requests=3)
    table = side_table(page)
    assert list(table) == ["architecture", *LABELS.values()]
    column = next(name for name in table["architecture"] if name.startswith("KV cache"))
    scale = {"GiB": 2**30, "MiB": 2**20}[column[10:13]]
    plain = architecture_bytes(
        from_catalogue(model), 4_000, 3, kv_cache_dtype=None if word == "auto" else word, encoder_tokens=has_encoder(model)
    ).total_bytes
    for option in CHOICES:
        row = table[LABELS[option]]
        values = engine_dtypes.settings_for(option, word)
        wanted = asked(option, model, encoder=has_encoder(model), **(values or {}))
        if isinstance(wanted, str):
            assert row[column] == "–"
            assert wanted[5:40] in row["Against the architecture"].replace("\\", "")
            continue
        assert row[column] == f"{wanted / scale:,.2f}"
        change = fmt.size(abs(wanted - plain)) if wanted != plain else "the same"
        assert change in row["Against the architecture"]
        assert ("default KV dtype" in row["Against the architecture"]) == (values is None)


def test_two_pasted_models_are_not_taken_for_each_other(open_page: OpenPage) -> None:
    """Both are called the same; the table is kept by content."""
    page = pasted(open_page(tokens=1_024), config())
    first = side_table(page)["vLLM"]
    page.text_area(key="paste").set_value(config(num_key_value_heads=4)).run()
    assert side_table(page)["vLLM"] != first


def test_a_model_read_with_a_token_is_kept_by_its_content_only() -> None:
    """What is kept for all sessions is named by commit or content, never by anything a person typed."""
    key = side_by_side.identity(from_catalogue(GEMMA))
    assert GEMMA in key
    assert "hf_" not in key
