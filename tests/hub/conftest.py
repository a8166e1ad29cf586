"""Nothing of the machine's own Hub set-up reaches these tests: no saved token, cache, proxy or offline switch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .server import HubServer, Repo

# Before huggingface_hub is imported anywhere in this process, which is when it reads them.
for _name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_UPDATE_CHECK"):
    os.environ.setdefault(_name, "1")

StartHub = Callable[..., HubServer]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    from huggingface_hub.utils import close_session

    from model_configs import hub

    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    close_session()  # the session takes proxies from the environment when it is made
    hub.clear_cache()
    yield
    hub.clear_cache()
    close_session()


@pytest.fixture
def start_hub(own_environment: None) -> Iterator[StartHub]:
    """Start a local Hub: start_hub({"org/name": Repo(...)}, prefix="/mirror"). Stopped after the test."""
    from huggingface_hub.utils import close_session

    with ExitStack() as stack:

        def start(repos: dict[str, Repo], prefix: str = "") -> HubServer:
            return stack.enter_context(HubServer(repos, prefix))

        yield start
        close_session()  # before the server stops, so that its threads see their connections end
