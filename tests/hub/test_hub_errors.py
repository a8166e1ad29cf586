"""How does a request for a config end that cannot be answered: with which error, how soon, and what was sent?

Each fault is a real HTTP server's own.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from typing import Any

import pytest

from model_configs.hub import Hub, fetch
from planner import errors

from .accounts import LLAMA, OTHER_TOKEN, TOKEN
from .conftest import StartHub
from .server import COMMIT, Repo, config_repo


class TestErrors:
    """Each situation has its own class and one line."""

    @pytest.mark.parametrize(
        ("repo", "token", "kind", "words"),
        [
            (None, None, errors.NotFound, "private model needs an access token"),
            (None, TOKEN, errors.NotFound, "seen with this token"),
            (config_repo(LLAMA, needs=TOKEN), None, errors.NotFound, "seen without a token"),
            (config_repo(LLAMA, needs=TOKEN), OTHER_TOKEN, errors.NotFound, "seen with this token"),
            (config_repo(LLAMA, needs=TOKEN, gated=True), None, errors.Gated, "accept its licence on http"),
            (config_repo(LLAMA, needs=TOKEN, gated=True), OTHER_TOKEN, errors.Gated, "account that did"),
            (config_repo(LLAMA, disabled=True), None, errors.Disabled, "has been disabled"),
            (Repo(files={"model.gguf": b""}), None, errors.NoConfig, "only GGUF files"),
            (config_repo(LLAMA, branches=("dev",)), None, errors.NoRevision, "no branch, tag or commit main"),
            (config_repo(LLAMA, fault="401"), None, errors.NotFound, "check the spelling"),
            (config_repo(LLAMA, fault="404"), None, errors.NotFound, "check the spelling"),
            (config_repo(LLAMA, fault="403"), None, errors.Gated, "restricted"),
            (config_repo(LLAMA, fault="400"), None, errors.Unavailable, "status 400"),
            (config_repo(LLAMA, fault="500"), None, errors.Unavailable, "status 500"),
            (config_repo(LLAMA, fault="502"), None, errors.Unavailable, "status 502"),
            (config_repo(LLAMA, fault="503"), None, errors.Unavailable, "status 503"),
            (config_repo(LLAMA, fault="407"), None, errors.Unavailable, "status 407"),
            (config_repo(LLAMA, fault="304"), None, errors.Unavailable, "network"),
            (config_repo(LLAMA, fault="drop"), None, errors.Unavailable, "broke off"),
            (config_repo(LLAMA, fault="truncated"), None, errors.Unavailable, "broke off"),
            (config_repo(LLAMA, fault="loop"), None, errors.Unavailable, "redirected more than 5 times"),
            (config_repo(LLAMA, fault="redirect-nowhere"), None, errors.Unavailable, "network"),
            (config_repo(LLAMA, fault="no-commit"), None, errors.NotAHub, "no X-Repo-Commit"),
            (config_repo(LLAMA, fault="html"), None, errors.NotAHub, "check HF_ENDPOINT"),
            (Repo(files={"config.json": b" " * (4 * 1024**2 + 1)}), None, errors.TooLarge, "4194304 bytes"),
            (config_repo(LLAMA, fault="endless-body"), None, errors.TooLarge, "4194304 bytes"),
        ],
    )
    def test_every_situation_has_its_class(
        self, start_hub: StartHub, repo: Repo | None, token: str | None, kind: type[errors.HubError], words: str
    ) -> None:
        """The error is of exactly that class, says what to do in one line, and names the model in its fields."""
        server = start_hub({"org/model": repo} if repo else {})
        with pytest.raises(errors.HubError) as caught:
            fetch("org/model", token=token, endpoint=server.url)
        assert type(caught.value) is kind
        assert words in caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.fields["model_id"] == "org/model"
        assert caught.value.exit_status == 3

    @pytest.mark.parametrize(
        ("header", "seconds", "words"),
        [
            ('RateLimit: "resolvers";r=0;t=37', 37, "try again in 37 s"),
            ("Retry-After: 120", 120, "try again in 120 s"),
            ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None, "try again in a few minutes"),
            ('RateLimit: "resolvers";r=12;t=37', None, "try again in a few minutes"),
            (f'RateLimit: "api";r=0;t={"9" * 5000}', None, "try again in"),
        ],
    )
    def test_a_rate_limit_says_how_long_to_wait(self, start_hub: StartHub, header: str, seconds: int | None, words: str) -> None:
        """The seconds are the Hub's own, in the fields and in the text; nothing waits for them here."""
        server = start_hub({"org/model": config_repo(LLAMA, fault=f"429 {header}")})
        begun = time.monotonic()
        with pytest.raises(errors.RateLimited) as caught:
            fetch("org/model", endpoint=server.url)
        assert time.monotonic() - begun < 30
        assert words in caught.value.message
        if "999" not in header:
            assert caught.value.fields["retry_after_s"] == seconds
        assert len(server.log) == 1

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"", "empty"),
            (b"  \n", "empty"),
            (b"{'model_type': 'llama'}", "not JSON"),
            (b'{"a": 1', "not JSON"),
            (b'{"rope_theta": NaN}', "NaN"),
            (b'{"rope_theta": 1e999}', "beyond any number"),
            (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
            (b'["llama"]', "holds a list"),
            (b"null", "holds a NoneType"),
            (b"\xff\xfe{\x00}\x00", "not JSON"),
            (b"version https://git-lfs.github.com/spec/v1", "not JSON"),
            (b'{"a":' * 100_000, "nested too deeply"),
        ],
    )
    def test_a_config_that_is_not_one_is_refused(self, start_hub: StartHub, body: bytes, words: str) -> None:
        """Bad content is BadContent with the reason, never a Python error of the parser."""
        server = start_hub({"org/model": Repo(files={"config.json": body})})
        with pytest.raises(errors.BadContent, match=words) as caught:
            fetch("org/model", endpoint=server.url)
        assert caught.value.fields["model_id"] == "org/model"

    def test_an_infinite_limit_is_read_as_from_a_file(self, start_hub: StartHub) -> None:
        """Mamba-2 configs carry `time_step_limit: [0.0, Infinity]`, which JSON does not have."""
        body = b'{"model_type": "mamba2", "time_step_limit": [0.0, Infinity]}'
        server = start_hub({"org/model": Repo(files={"config.json": body})})
        assert fetch("org/model", endpoint=server.url).config["time_step_limit"] == [0.0, math.inf]

    def test_a_byte_order_mark_and_repeated_keys_are_fine(self, start_hub: StartHub) -> None:
        """A config saved by a Windows editor is read; of two equal keys the last counts."""
        server = start_hub({"org/model": Repo(files={"config.json": b'\xef\xbb\xbf{"a": 1, "a": 2}'})})
        assert fetch("org/model", endpoint=server.url).config == {"a": 2}

    @pytest.mark.parametrize(
        "model_id",
        [
            "",
            "a/b/c",
            "../x",
            "org/../x",
            "org/",
            "/x",
            "-x",
            "org/na me",
            "org/模型",
            "org/x\n",
            "x" * 97,
            TOKEN,
            None,
            7,
        ],
    )
    def test_a_bad_model_id_is_refused_before_any_request(self, start_hub: StartHub, model_id: Any) -> None:
        """The field is named; a token typed into the wrong field is not repeated."""
        server = start_hub({})
        with pytest.raises(errors.InputError) as caught:
            fetch(model_id, endpoint=server.url)
        assert caught.value.fields["field"] == "model_id"
        assert TOKEN not in caught.value.message
        assert server.log == []

    @pytest.mark.parametrize("revision", ["", "..", ".", "a..b", "ma in", "main\n", "a?b", "x" * 201])
    def test_a_bad_revision_is_refused_before_any_request(self, start_hub: StartHub, revision: str) -> None:
        """What git cannot have as a name never becomes part of a URL."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        with pytest.raises(errors.InputError) as caught:
            fetch("org/model", revision, endpoint=server.url)
        assert caught.value.fields["field"] == "revision"
        assert server.log == []

    @pytest.mark.parametrize("token", [TOKEN + "\n", " " + TOKEN, "hf_", "", "sk-secret", "hf_密钥", "hf_a b", 5, True])
    def test_a_bad_token_is_refused_before_any_request(self, start_hub: StartHub, token: Any) -> None:
        """A token that no header could carry is the person's to correct, and is not in the message."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        with pytest.raises(errors.InputError) as caught:
            fetch("org/model", token=token, endpoint=server.url)
        assert caught.value.fields["field"] == "token"
        assert "secret" not in caught.value.message
        assert TOKEN not in caught.value.message
        assert server.log == []

    def test_a_token_that_the_hub_does_not_know_is_the_persons_error(self, start_hub: StartHub) -> None:
        """An expired token is InputError(field="token"), not a missing model."""
        server = start_hub({"org/model": config_repo(LLAMA, fault="bad-token")})
        with pytest.raises(errors.InputError) as caught:
            fetch("org/model", token=TOKEN, endpoint=server.url)
        assert caught.value.fields["field"] == "token"

    def test_nobody_listening_is_unavailable(self) -> None:
        """Connection refused ends at once, without a retry."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        with pytest.raises(errors.Unavailable, match="could not be reached"):
            Hub(f"http://127.0.0.1:{port}", deadline_s=5).config("org/model")

    def test_a_proxy_that_is_not_there_is_unavailable(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
        """HTTP_PROXY is honoured, and its failure is not the model's."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "")
        with pytest.raises(errors.Unavailable):
            Hub(server.url, deadline_s=5).config("org/model")
        assert server.log == []

    @pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
    def test_offline_mode_makes_no_request(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """The switch is read at each call, and a config that is kept is still given."""
        server = start_hub({"org/model": config_repo(LLAMA), "org/other": config_repo(LLAMA)})
        one = Hub(server.url)
        one.config("org/model")
        monkeypatch.setenv(name, "1")
        with pytest.raises(errors.Offline, match="HF_HUB_OFFLINE"):
            one.config("org/other")
        assert one.config("org/model", COMMIT).from_cache
        assert len(server.log) == 1

    def test_an_endless_error_page_is_not_read(self, start_hub: StartHub) -> None:
        """The status and headers of a refusal are enough; its body has no end."""
        server = start_hub({"org/model": config_repo(LLAMA, fault="endless-error")})
        with pytest.raises(errors.Unavailable, match="status 500"):
            fetch("org/model", endpoint=server.url)
        assert server.sent < 20_000_000

    def test_an_endless_redirect_body_is_not_read(self, start_hub: StartHub) -> None:
        """A redirect is followed by its header alone."""
        server = start_hub({"org/model": config_repo(LLAMA, fault="endless-redirect")})
        with pytest.raises(errors.Unavailable):
            fetch("org/model", endpoint=server.url)
        assert server.sent < 20_000_000

    @pytest.mark.parametrize("endpoint", ["hf-mirror.com", "ftp://x", "https://", "http://u:p@x", "http://x?a=1", "http://x:y"])
    def test_an_endpoint_that_is_no_address_is_refused(self, endpoint: str) -> None:
        """HF_ENDPOINT without https:// is a common slip; a password in it would be shown."""
        with pytest.raises(errors.InputError) as caught:
            Hub(endpoint)
        assert caught.value.fields["field"] == "endpoint"


class TestDeadline:
    """A call ends at its deadline, whatever the server does."""

    @pytest.mark.parametrize("fault", ["silent", "drip-headers", "drip-body"])
    def test_a_slow_server_ends_at_the_deadline(self, start_hub: StartHub, fault: str) -> None:
        """Silence, headers a byte at a time and a body a byte at a time: each would take 10 s or more here."""
        server = start_hub({"org/model": config_repo(LLAMA, fault=fault)})
        begun = time.monotonic()
        with pytest.raises(errors.Unavailable, match=r"in time|within 0\.5 s"):
            Hub(server.url, deadline_s=0.5).config("org/model")
        assert time.monotonic() - begun < 9

    def test_a_slow_name_lookup_ends_at_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """socket timeouts do not cover getaddrinfo, the deadline does."""
        released = threading.Event()

        def slow(*args: Any, **kwargs: Any) -> Any:
            released.wait(10)
            raise socket.gaierror("no such host")

        monkeypatch.setattr(socket, "getaddrinfo", slow)
        begun = time.monotonic()
        with pytest.raises(errors.Unavailable, match=r"within 0\.5 s"):
            Hub("http://hub.invalid", deadline_s=0.5).config("org/model")
        assert time.monotonic() - begun < 9
        released.set()
