"""Who sees a token? The Hub only the one that the person gave, not the machine's own; messages and logs none at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_configs.hub import Hub, fetch
from planner import errors

from .accounts import BEARER, LLAMA, OTHER_TOKEN, TOKEN
from .conftest import StartHub
from .server import config_repo


def test_the_request_says_who_asks_and_carries_no_saved_token(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host's own token, from HF_TOKEN or its file, is not sent for a stranger; the user agent is the planner's."""
    monkeypatch.setenv("HF_TOKEN", OTHER_TOKEN)
    (tmp_path / "token").write_text(OTHER_TOKEN)
    server = start_hub({"org/model": config_repo(LLAMA)})
    fetch("org/model", endpoint=server.url)
    assert [seen.token for seen in server.log] == [None]
    assert server.log[0].headers["User-Agent"].startswith("kv-cache-planner/")


class TestToken:
    """The token is nowhere that people or logs can see."""

    def test_no_error_or_repr_shows_the_token(self, start_hub: StartHub, caplog: pytest.LogCaptureFixture) -> None:
        """Messages, fields, reprs, chained causes and debug logs of every refusal with a token."""
        caplog.set_level("DEBUG")
        faults = ("500", "403", "drop", "loop", "bad-token", "no-commit", '429 RateLimit: "api";r=0;t=1')
        repos = {f"org/m{n}": config_repo(LLAMA, needs=TOKEN, fault=fault) for n, fault in enumerate(faults)}
        server = start_hub(repos | {"org/gated": config_repo(LLAMA, needs=OTHER_TOKEN, gated=True)})
        one = Hub(server.url, TOKEN)
        shown = [repr(one), str(one)]
        for name in (*repos, "org/gated", "org/missing"):
            with pytest.raises(errors.PlannerError) as caught:
                one.config(name)
            error: BaseException | None = caught.value
            while error is not None:
                shown += [str(error), repr(error), repr(getattr(error, "fields", ""))]
                error = error.__cause__ or error.__context__
        assert BEARER in {seen.token for seen in server.log}
        assert not [text for text in (*shown, caplog.text) if TOKEN in text]
