"""A model's config.json, name and weight sizes from the Hugging Face Hub or a mirror of it.

Built on huggingface_hub's session, headers and errors, not on its downloads: hf_hub_download retries for minutes, has
no size limit, and its one disk cache hands a gated file fetched by one person to the next. What holds here instead:

* Every call ends at `deadline_s`, redirects and a dripping server included, and never retries.
* The host's own saved token is never sent. A person's token is sent only where the Hub refused an anonymous request.
* Public config.json texts are shared in memory, keyed by (endpoint, id, commit); nothing fetched with a token is.
  A commit that is kept needs no request. Which commit a branch is at is believed for BRANCH_TTL_S.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong  # the builtin one only since Python 3.11
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from model_configs.gguf_hub import HubGguf, read_files
from model_configs.hub_http import COMMIT, Call, hf_utils
from model_configs.json_text import strict_json
from model_configs.safetensors import HubWeights, from_counts, from_headers
from planner import errors
from planner.errors import HubError, InputError

if TYPE_CHECKING:
    pass

__all__ = ["Hub", "HubConfig", "HubGguf", "HubWeights", "Suggestion", "clear_cache", "fetch"]

# Read by huggingface_hub at its import. Its implicit token needs no switch: every request here passes token=False or a
# person's token, and others in this process (transformers in validation) keep the host's.
for _switch in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK", "HF_HUB_DISABLE_PROGRESS_BARS"):
    os.environ.setdefault(_switch, "1")

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
DEADLINE_S: Final = 8.0  # of one public call
BRANCH_TTL_S: Final = 300.0
GGUF_DEADLINE_S: Final = 30.0  # a header with its vocabulary is up to some 15 MB

_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9]+")
_REVISION: Final = re.compile(r"(?!.*\.\.)(?!\.$)[^\x00-\x20\x7f~^:?*\[\\]{1,200}")  # git check-ref-format, loosely
_TRUE: Final = ("1", "ON", "YES", "TRUE")

T = TypeVar("T")


@dataclass(frozen=True)
class HubConfig:
    """A config.json with its provenance.

    `id` is the repository's name as the Hub answered (the new one after a rename), `commit` is what `revision` meant
    when it was asked. `gated` says that the Hub refused it without a token because of its licence.
    """

    id: str
    requested_id: str
    commit: str
    revision: str
    config: dict[str, Any]
    gated: bool
    from_cache: bool


@dataclass(frozen=True)
class Suggestion:
    """A model that a search found. `downloads` is the Hub's own count, 0 where it gives none."""

    id: str
    downloads: int
    gated: bool


def fetch(model_id: str, revision: str | None = None, token: str | None = None, endpoint: str | None = None) -> HubConfig:
    """`Hub(endpoint, token).config(model_id, revision)`; the revision is "main" unless given."""
    return Hub(endpoint, token).config(model_id, "main" if revision is None else revision)


def clear_cache() -> None:
    """Forget every kept config, commit and weight size, so that the next call asks the Hub."""
    for kept in (_CONFIGS, _BRANCHES, _WEIGHTS, _GGUFS):
        kept.clear()


class Hub:
    """One endpoint seen with one person's rights.

    The endpoint is the argument, else `HF_ENDPOINT` as it is now, else huggingface.co; a mirror under a path works.
    Raises InputError(field="token") for a token that is not hf_ with letters and digits, InputError(field="endpoint")
    for an address that is not http(s)://host[/path].
    """

    def __init__(self, endpoint: str | None = None, token: str | None = None, deadline_s: float = DEADLINE_S) -> None:
        self.endpoint = _checked_endpoint(endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT)
        self.deadline_s = deadline_s
        if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            # The token itself stays out of the message: messages are shown and logged.
            raise InputError("an access token is hf_ followed by letters and digits, nothing else", field="token")
        self._token = token

    def __repr__(self) -> str:
        return f"Hub({self.endpoint!r}, token={'given' if self._token else None})"

    def config(self, model_id: str, revision: str = "main") -> HubConfig:
        """config.json of a model at a branch, tag or commit.

        Raises InputError (field "model_id" or "revision") before any request; NotFound, Gated, NoConfig, NoRevision,
        Disabled, RateLimited, Unavailable, Offline, NotAHub, TooLarge (over 4 MiB) or BadContent otherwise.
        """
        _check_names(model_id, revision)
        commit = _BRANCHES.get((self.endpoint, model_id, revision)) or revision
        kept = _CONFIGS.get((self.endpoint, model_id, commit))
        if kept is not None:
            # Parsed again for each caller, so that nobody can change what another one sees.
            return HubConfig(kept.id, model_id, commit, revision, _config(kept.body), gated=False, from_cache=True)
        return self._within_deadline(self._fetch_config, model_id, revision)

    def weights(self, model_id: str, commit: str) -> HubWeights:
        """Stored parameters and exact bytes of a model's safetensors files at a commit (40 hexadecimal digits).

        From the counts in the Hub's API where nothing is quantised, else from the files' headers; packed checkpoints
        count stored elements: see `model_configs.safetensors`. Raises NoWeights, else what `config` raises.
        """
        _check_names(model_id, commit)
        if not COMMIT.fullmatch(commit):
            raise InputError("weights are read at a commit: 40 hexadecimal digits", field="commit")
        kept = _WEIGHTS.get((self.endpoint, model_id, commit))
        return kept or self._within_deadline(self._fetch_weights, model_id, commit)

    def quantization(self, model_id: str, commit: str) -> dict[str, Any] | None:
        """ModelOpt's hf_quant_config.json at a commit, None where there is none. Raises what `config` raises."""
        return self.beside(model_id, commit, "hf_quant_config.json")

    def beside(self, model_id: str, commit: str, name: str) -> dict[str, Any] | None:
        """The object in a file beside config.json at a commit, None where there is none. Raises what `config` raises."""
        _check_names(model_id, commit)

        def read(call: Call) -> dict[str, Any] | None:
            try:
                return _config(call.get(call.file_url(name), missing=errors.NoConfig).body, name)
            except errors.NoConfig:
                return None

        return self._within_deadline(read, model_id, commit)

    def gguf(self, model_id: str, wanted: str, revision: str = "main") -> HubGguf:
        """The headers of the GGUF file (all parts of a split one) that a quantisation or a file name singles out.

        Raises InputError naming what the repository has, else what `config` raises, and BadContent for a damaged file.
        """
        _check_names(model_id, revision)
        commit = _BRANCHES.get((self.endpoint, model_id, revision)) or revision
        kept = _GGUFS.get((self.endpoint, model_id, commit, wanted))
        if kept is not None:
            return kept

        def read(call: Call) -> HubGguf:
            found = read_files(call, wanted)
            if not call.with_token:
                _GGUFS.put((self.endpoint, model_id, found.commit, wanted), found)
                _BRANCHES.put((self.endpoint, model_id, revision), found.commit)
            return found

        return self._within_deadline(read, model_id, revision)

    def search(self, text: str, limit: int = 8) -> tuple[Suggestion, ...]:
        """Public text-generation models whose name holds `text`, most downloaded first; none for a blank text."""
        text, limit = text.strip()[:100], min(max(limit, 1), 50)
        query = [("search", text), ("limit", limit), ("pipeline_tag", "text-generation"), ("sort", "downloads")]
        url = f"{self.endpoint}/api/models?{urlencode([*query, ('expand', 'gated'), ('expand', 'downloads')])}"

        def find(call: Call) -> tuple[Suggestion, ...]:
            try:
                found = strict_json(call.get(url, missing=errors.NotAHub).body, "the list of models")
            except errors.NotFound as error:
                raise call.error(errors.NotAHub, reason="it has no list of models") from error
            if not isinstance(found, list):
                raise call.error(errors.NotAHub, reason="its list of models is none")
            return tuple(_suggestions(found))[:limit]

        return self._within_deadline(find, "", "") if text else ()

    def _fetch_config(self, call: Call) -> HubConfig:
        answer = call.get(call.file_url("config.json"), missing=errors.NoConfig, wants_commit=True)
        config, name, commit = _config(answer.body), answer.repo or call.model_id, answer.commit
        if not call.with_token:
            for known_as in {name, call.model_id}:
                kept = _KeptConfig(name, answer.body)
                _CONFIGS.put((self.endpoint, known_as, commit), kept, cost=len(answer.body) + 1_000)
            _BRANCHES.put((self.endpoint, call.model_id, call.revision), commit)
        return HubConfig(name, call.model_id, commit, call.revision, config, gated=call.gated, from_cache=False)

    def _fetch_weights(self, call: Call) -> HubWeights:
        def read(name: str, begin: int, end: int) -> bytes:
            return call.get(call.file_url(name), missing=errors.NoWeights, span=(begin, end)).body

        weights = from_counts(self._counts(call), call.revision) or from_headers(read, call.revision)
        if not call.with_token:
            _WEIGHTS.put((self.endpoint, call.model_id, call.revision), weights)
        return weights

    def _counts(self, call: Call) -> object:
        """The Hub's own {dtype: count} at this commit, None where it has none or a mirror has no such API."""
        url = f"{self.endpoint}/api/models/{call.model_id}/revision/{call.revision}?expand=safetensors&expand=sha"
        try:
            about = strict_json(call.get(url, missing=errors.NoWeights).body, "the Hub's answer")
        except HubError:
            return None  # it is the files that were asked for, so their refusal is the one worth telling
        counted = about.get("safetensors") if isinstance(about, dict) and about.get("sha") == call.revision else None
        return counted.get("parameters") if isinstance(counted, dict) else None

    def _within_deadline(self, work: Callable[[Call], T], model_id: str, revision: str) -> T:
        """`work` in a thread of its own, because nothing else ends a slow name lookup or headers that drip in.

        The thread then ends by itself: its reads have timeouts and it looks at the clock between them. Only a server
        that drips headers keeps it, for as long as it drips.
        """
        hf_utils()  # outside the deadline, because the first import takes its time
        call = Call(self.endpoint, self._token, self.deadline_s, model_id, revision)
        if any(os.environ.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")):
            raise call.error(errors.Offline)
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(call))
            except BaseException as error:
                if isinstance(error, HubError):  # the readers of JSON and headers do not know whose it is
                    error.fields = call.about | error.fields
                outcome.set_exception(error)

        threading.Thread(target=run, name="hub", daemon=True).start()
        try:
            return outcome.result(timeout=self.deadline_s)
        except TookTooLong:
            raise call.too_slow() from None


class _Kept(Generic[T]):
    """Least recently used values, up to a total cost and for a time. Shared by every thread of the process."""

    def __init__(self, max_cost: int, ttl_s: float = float("inf")) -> None:
        self.max_cost, self.ttl_s = max_cost, ttl_s
        self._lock, self._cost = threading.Lock(), 0
        self._values: OrderedDict[Hashable, tuple[T, int, float]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key not in self._values or time.monotonic() - self._values[key][2] >= self.ttl_s:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: T, cost: int = 1) -> None:
        with self._lock:
            if key in self._values:
                self._cost -= self._values.pop(key)[1]
            self._values[key] = (value, cost, time.monotonic())
            self._cost += cost
            while self._cost > self.max_cost:
                self._cost -= self._values.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._cost = 0


class _KeptConfig(NamedTuple):
    id: str
    body: bytes


_CONFIGS: Final = _Kept[_KeptConfig](max_cost=32 * 1024**2)
_BRANCHES: Final = _Kept[str](max_cost=2_000, ttl_s=BRANCH_TTL_S)
_WEIGHTS: Final = _Kept[HubWeights](max_cost=500)
_GGUFS: Final = _Kept[HubGguf](max_cost=20)


def _checked_endpoint(text: str) -> str:
    try:
        address = urlsplit(text)
        right = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        right = False
    # A password in it would replace the Authorization header and appear in messages.
    if not right or address.username or address.password or address.query or address.fragment:
        raise InputError("the Hub's endpoint must be like https://huggingface.co, without a password", field="endpoint")
    return text.rstrip("/")


def _check_names(model_id: str, revision: str) -> None:
    shown = repr(str(model_id)[:100])
    if re.fullmatch(r"hf_[A-Za-z0-9]{30,}", str(model_id)):
        raise InputError("that looks like an access token: it belongs in the token field", field="model_id")
    try:
        hf_utils().validate_repo_id(model_id if isinstance(model_id, str) else "")
    except hf_utils().HFValidationError:
        raise InputError(f"{shown} is not a model id: write owner/name", field="model_id") from None
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision):
        raise InputError(f"{str(revision)[:100]!r} is not a branch, tag or commit", field="revision")


def _config(body: bytes, name: str = "config.json") -> dict[str, Any]:
    config = strict_json(body, name, infinity=True)
    if not isinstance(config, dict):
        raise errors.BadContent(f"{name} holds a {type(config).__name__}, where an object is right")
    return config


def _suggestions(found: list[Any]) -> list[Suggestion]:
    rows = [row for row in found if isinstance(row, dict) and isinstance(row.get("id"), str)]
    counts = [row["downloads"] if isinstance(row.get("downloads"), int) else 0 for row in rows]
    return [Suggestion(row["id"], count, bool(row.get("gated"))) for row, count in zip(rows, counts, strict=True)]
