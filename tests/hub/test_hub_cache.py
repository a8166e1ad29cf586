"""Who is given what was kept, and for how long? Public texts are shared, what a token opened is not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from model_configs import hub
from model_configs.hub import Hub, fetch
from planner import errors

from .accounts import BEARER, LLAMA, OTHER_TOKEN, TOKEN
from .conftest import StartHub
from .server import COMMIT, OTHER_COMMIT, config_repo


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
