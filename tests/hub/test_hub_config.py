"""Under which name, commit and address does a config come, and what is asked for, also after redirects?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model_configs import hub
from model_configs.hub import Hub, fetch
from planner import errors

from .accounts import BEARER, LLAMA, TOKEN
from .conftest import StartHub
from .server import COMMIT, OTHER_COMMIT, Repo, config_repo


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


def test_importing_the_client_does_not_import_huggingface_hub() -> None:
    """The library costs 0.4 s, so it is imported by the first call."""
    code = "import sys, model_configs.hub; sys.exit('huggingface_hub' in sys.modules)"
    root = Path(hub.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
