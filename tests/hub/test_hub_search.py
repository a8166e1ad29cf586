"""Which names does a search give while a person types, and what is asked for them?"""

from __future__ import annotations

import json

import pytest

from model_configs.hub import Hub, Suggestion
from planner import errors

from .accounts import LLAMA
from .conftest import StartHub
from .server import Repo, config_repo


class TestSearch:
    """Names while a person types."""

    def test_search_lists_public_models_by_downloads(self, start_hub: StartHub) -> None:
        """Gated models are marked, and one request asks for no more than the limit."""
        server = start_hub(
            {
                "org/qwen-small": config_repo(LLAMA, downloads=5),
                "org/qwen-big": config_repo(LLAMA, downloads=50, gated=True),
                "org/llama": config_repo(LLAMA, downloads=99),
            }
        )
        assert Hub(server.url).search("Qwen") == (
            Suggestion("org/qwen-big", 50, True),
            Suggestion("org/qwen-small", 5, False),
        )
        assert Hub(server.url).search("qwen", limit=1) == (Suggestion("org/qwen-big", 50, True),)
        assert server.paths[0] == (
            "/api/models?search=Qwen&limit=8&pipeline_tag=text-generation&sort=downloads"
            "&expand=gated&expand=downloads"
        )  # fmt: skip

    def test_a_blank_search_asks_nothing(self, start_hub: StartHub) -> None:
        """An empty box makes no request."""
        server = start_hub({})
        assert Hub(server.url).search("  ") == ()
        assert server.log == []

    def test_text_is_sent_as_data(self, start_hub: StartHub) -> None:
        """What is typed cannot add parameters to the query."""
        server = start_hub({})
        assert Hub(server.url).search("a&limit=1000#x 模") == ()
        assert server.paths[0].startswith("/api/models?search=a%26limit%3D1000%23x+%E6%A8%A1&limit=8&")

    def test_rows_that_are_no_models_are_left_out(self, start_hub: StartHub) -> None:
        """A list with odd rows gives the good ones; what is no list is not a Hub's."""
        rows = [{"id": "org/ok", "downloads": None, "gated": "auto"}, {"downloads": 3}, "x", {"id": 4}]
        server = start_hub({"search-fault": Repo(files={"answer": json.dumps(rows).encode()})})
        assert Hub(server.url).search("x") == (Suggestion("org/ok", 0, True),)
        server.repos["search-fault"].files["answer"] = b'{"error": "x"}'
        with pytest.raises(errors.NotAHub):
            Hub(server.url).search("x")

    def test_a_server_without_a_search_is_not_a_hub(self, start_hub: StartHub) -> None:
        """A 404 from the list of models is about the address, not about a model."""
        server = start_hub({}, prefix="/mirror")
        with pytest.raises(errors.NotAHub, match="HF_ENDPOINT"):
            Hub(server.url.removesuffix("/mirror")).search("x")
