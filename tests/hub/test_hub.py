"""config.json and search, against a real HTTP server: what is returned, what is asked for, and what is never sent."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from model_configs import hub
from model_configs.hub import Hub, Suggestion, fetch
from planner import errors

from .conftest import StartHub
from .server import COMMIT, OTHER_COMMIT, Repo, config_repo

LLAMA = {"model_type": "llama", "num_hidden_layers": 32}
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
OTHER_TOKEN = "hf_Zz01234567AbCdEfGhIjKlMnOpQrStUvWx"
BEARER = f"Bearer {TOKEN}"


def test_a_config_comes_with_its_name_and_commit(start_hub: StartHub) -> None:
    """One request gives the object, the commit that "main" meant, and the name."""
    server = start_hub({"org/model": config_repo(LLAMA)})
    found = fetch("org/model", endpoint=server.url)
    assert (found.id, found.requested_id, found.commit, found.revision) == ("org/model", "org/model", COMMIT, "main")
    assert found.config == {"model_type": "llama", "num_hidden_layers": 32}
    assert (found.gated, found.from_cache) == (False, False)
    assert server.paths == ["/org/model/resolve/main/config.json"]


def test_a_revision_with_a_slash_is_one_path_segment(start_hub: StartHub) -> None:
    """refs/pr/1 is asked for as refs%2Fpr%2F1, and the name is still read from the path."""
    server = start_hub({"org/model": config_repo(LLAMA, branches=("main", "refs/pr/1"))})
    assert fetch("org/model", "refs/pr/1", endpoint=server.url).id == "org/model"
    assert server.paths == ["/org/model/resolve/refs%2Fpr%2F1/config.json"]


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


class TestNames:
    """Redirects: renames, the Hub's own cache path, CDNs, mirrors."""

    def test_a_renamed_repository_gives_its_new_name(self, start_hub: StartHub) -> None:
        """The old name is kept as requested_id, and the commit hit works under both names."""
        server = start_hub({"old/name": Repo(renamed_to="new/name"), "new/name": config_repo(LLAMA)})
        one = Hub(server.url)
        found = one.config("old/name")
        assert (found.id, found.requested_id) == ("new/name", "old/name")
        assert one.config("old/name", COMMIT).id == "new/name"
        assert one.config("new/name", COMMIT).from_cache
        assert server.paths == ["/old/name/resolve/main/config.json", "/new/name/resolve/main/config.json"]

    def test_a_rename_is_seen_on_a_mirror_under_a_path(self, start_hub: StartHub) -> None:
        """The mirror's own path is not part of the new name."""
        repos = {"old/name": Repo(renamed_to="new/name"), "new/name": config_repo(LLAMA)}
        assert fetch("old/name", endpoint=start_hub(repos, prefix="/some/mirror").url).id == "new/name"

    def test_a_token_follows_a_rename_on_the_same_host(self, start_hub: StartHub) -> None:
        """A private model that was renamed is still readable."""
        server = start_hub({"old/name": Repo(renamed_to="new/name"), "new/name": config_repo(LLAMA, needs=TOKEN)})
        assert fetch("old/name", token=TOKEN, endpoint=server.url).id == "new/name"

    def test_the_hubs_own_cache_path_is_followed(self, start_hub: StartHub) -> None:
        """huggingface.co sends small files from /api/resolve-cache/models/{id}/{commit}/."""
        server = start_hub({"gpt2": config_repo(LLAMA, fault="resolve-cache")})
        found = fetch("gpt2", endpoint=server.url)
        assert (found.id, found.commit) == ("gpt2", COMMIT)
        assert server.paths[1] == f"/api/resolve-cache/models/gpt2/{COMMIT}/config.json"

    def test_a_token_does_not_follow_a_redirect_to_another_host(self, start_hub: StartHub) -> None:
        """The CDN gets no Authorization; the commit is the Hub's, which the CDN does not send."""
        server = start_hub({"org/model": config_repo(LLAMA, needs=TOKEN, fault="cdn")})
        found = fetch("org/model", token=TOKEN, endpoint=server.url)
        assert (found.config, found.commit, found.id) == (LLAMA, COMMIT, "org/model")
        hosts = [(seen.headers["Host"].partition(":")[0], seen.token) for seen in server.log]
        assert hosts == [("127.0.0.1", None), ("127.0.0.1", BEARER), ("localhost", None)]

    def test_hf_endpoint_is_read_when_a_hub_is_made(self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirror under a path, and with a closing slash, answers; the argument wins over the environment."""
        mirror = start_hub({"org/model": config_repo(LLAMA, fault="resolve-cache")}, prefix="/some/mirror")
        other = start_hub({"org/model": config_repo({"model_type": "gpt2"})})
        monkeypatch.setenv("HF_ENDPOINT", mirror.url + "/")
        assert fetch("org/model").config == LLAMA
        assert fetch("org/model").id == "org/model"
        assert mirror.paths[0] == "/some/mirror/org/model/resolve/main/config.json"
        assert fetch("org/model", endpoint=other.url).config == {"model_type": "gpt2"}
        monkeypatch.delenv("HF_ENDPOINT")
        assert Hub().endpoint == "https://huggingface.co"

    def test_another_commit_than_the_one_asked_for_is_refused(self, start_hub: StartHub) -> None:
        """A mirror that ignores the revision must not be taken for the pinned commit."""
        server = start_hub({"org/model": config_repo(LLAMA, fault="wrong-commit")})
        with pytest.raises(errors.NotAHub, match=OTHER_COMMIT):
            fetch("org/model", COMMIT, endpoint=server.url)


class TestCache:
    """Public texts are shared; what a token opened is not."""

    def test_a_kept_commit_needs_no_request(self, start_hub: StartHub) -> None:
        """After main was read, its commit is answered from memory."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        one = Hub(server.url)
        assert one.config("org/model").commit == COMMIT
        again = one.config("org/model", COMMIT)
        assert (again.from_cache, again.config, again.revision, again.gated) == (True, LLAMA, COMMIT, False)
        assert len(server.log) == 1

    def test_a_branch_is_believed_for_a_while_and_then_asked_again(
        self, start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Within the time to live no request; after it, the new commit and the new config."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        one = Hub(server.url)
        one.config("org/model")
        server.repos["org/model"] = config_repo({"model_type": "gpt2"}, commit=OTHER_COMMIT)
        assert one.config("org/model").commit == COMMIT
        assert len(server.log) == 1
        monkeypatch.setattr(hub._BRANCHES, "ttl_s", 0.0)
        later = one.config("org/model")
        assert (later.commit, later.config, later.from_cache) == (OTHER_COMMIT, {"model_type": "gpt2"}, False)
        assert one.config("org/model", COMMIT).config == LLAMA

    def test_changing_a_config_changes_nobody_elses(self, start_hub: StartHub) -> None:
        """Each caller gets a config of its own."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        first = fetch("org/model", endpoint=server.url)
        first.config["num_hidden_layers"] = 1
        second = fetch("org/model", endpoint=server.url)
        second.config.clear()
        assert fetch("org/model", endpoint=server.url).config == LLAMA

    @pytest.mark.parametrize("gated", [True, False])
    def test_what_a_token_opened_is_given_to_nobody_else(self, start_hub: StartHub, gated: bool) -> None:
        """After A read a gated or private config, B without a token is refused, by branch and by commit."""
        server = start_hub({"org/secret": config_repo(LLAMA, needs=TOKEN, gated=gated)})
        found = Hub(server.url, TOKEN).config("org/secret")
        assert (found.config, found.gated) == (LLAMA, gated)
        refusal = errors.Gated if gated else errors.NotFound
        for revision in ("main", COMMIT):
            for token in (None, OTHER_TOKEN):
                with pytest.raises(refusal):
                    Hub(server.url, token).config("org/secret", revision)
        asked = [(seen.path.split("/")[4], seen.token) for seen in server.log]
        stranger, other = None, f"Bearer {OTHER_TOKEN}"
        assert asked == [
            ("main", stranger), ("main", BEARER),
            ("main", stranger), ("main", stranger), ("main", other),
            (COMMIT, stranger), (COMMIT, stranger), (COMMIT, other),
        ]  # fmt: skip

    def test_a_token_is_not_sent_where_it_is_not_needed(self, start_hub: StartHub) -> None:
        """A public model read with a token is asked for without it, and so may be shared."""
        server = start_hub({"org/model": config_repo(LLAMA)})
        Hub(server.url, TOKEN).config("org/model")
        assert Hub(server.url).config("org/model").from_cache
        assert [seen.token for seen in server.log] == [None]

    def test_a_rate_limited_stranger_with_a_token_uses_it(self, start_hub: StartHub) -> None:
        """The limit is per address without a token and per account with one; what comes is then not shared."""
        server = start_hub({"org/model": config_repo(LLAMA, fault='429 RateLimit: "resolvers";r=0;t=9')})
        with pytest.raises(errors.RateLimited):
            Hub(server.url, TOKEN).config("org/model")
        assert [seen.token for seen in server.log] == [None, BEARER]

    def test_a_cookie_of_one_answer_is_not_sent_with_the_next(self, start_hub: StartHub) -> None:
        """The HTTP session is shared by all users, so a cookie would carry one person's login to another."""
        server = start_hub({"org/model": config_repo(LLAMA, fault="cookie")})
        fetch("org/model", endpoint=server.url)
        hub.clear_cache()
        fetch("org/model", endpoint=server.url)
        assert [seen.headers.get("Cookie") for seen in server.log] == [None, None]

    def test_endpoints_do_not_share(self, start_hub: StartHub) -> None:
        """The same id and commit on another Hub is another model."""
        one = start_hub({"org/model": config_repo(LLAMA)})
        two = start_hub({"org/model": config_repo({"model_type": "gpt2"})})
        assert fetch("org/model", endpoint=one.url).config == LLAMA
        assert fetch("org/model", COMMIT, endpoint=two.url).config == {"model_type": "gpt2"}

    def test_the_cache_is_bounded_and_drops_the_least_used(self) -> None:
        """Above its total cost the value that was used longest ago goes first."""
        kept: hub._Kept[str] = hub._Kept(max_cost=10)
        kept.put("a", "A", cost=4)
        kept.put("b", "B", cost=4)
        assert kept.get("a") == "A"
        kept.put("c", "C", cost=4)
        assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("A", None, "C")
        kept.put("a", "A2", cost=1)
        kept.put("d", "D", cost=5)
        assert (kept.get("a"), kept.get("c"), kept.get("d")) == ("A2", "C", "D")
        kept.put("huge", "H", cost=11)
        assert kept.get("huge") is None

    def test_many_threads_get_the_same_answer(self, start_hub: StartHub) -> None:
        """24 callers at once, with and without a token, over public and private models."""
        server = start_hub(
            {f"org/m{n}": config_repo({"n": n}, needs=TOKEN if n % 2 else None) for n in range(4)}
        )  # fmt: skip

        def ask(turn: int) -> int:
            value: int = Hub(server.url, TOKEN).config(f"org/m{turn % 4}").config["n"]
            return value

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(24))) == [0, 1, 2, 3] * 6
        with pytest.raises(errors.NotFound):
            Hub(server.url).config("org/m1")


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


def test_importing_the_client_does_not_import_huggingface_hub() -> None:
    """The library costs 0.4 s, so it is imported by the first call."""
    code = "import sys, model_configs.hub; sys.exit('huggingface_hub' in sys.modules)"
    root = Path(hub.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
