"""One call to the Hub: streamed requests with an overall deadline, a size limit, and the Hub's refusals as our errors."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from planner import errors
from planner.errors import HubError, InputError
from planner.version import VERSION

if TYPE_CHECKING:
    from httpx2 import Response
    from huggingface_hub.errors import HfHubHTTPError

MAX_ANSWER_BYTES: Final = 4 * 1024**2  # a config.json is a few kB; lists of quantised modules make it some 100 kB
MAX_REDIRECTS: Final = 5
CONNECT_TIMEOUT_S: Final = 3.0
READ_TIMEOUT_S: Final = 5.0

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REPO_IN_PATH: Final = re.compile(
    r"/(?:api/resolve-cache/models/)?([\w.-]+(?:/[\w.-]+)?)/(?:resolve/.+|[0-9a-f]{40}/.+)", re.ASCII
)

# One line for each way to fail: what was wrong, and what to do.
_TEXTS: Final[dict[type[HubError], str]] = {
    errors.NotFound: "{endpoint} has no model {model_id} that may be seen {rights}: check the spelling; "
    "a private model needs an access token that may read it",
    errors.Gated: "access to {what} is restricted (asked {rights}): accept its licence on {endpoint}/{model_id}, "
    "then give an access token of the account that did",
    errors.NoConfig: "{what} has no config.json at {revision}: it may hold only GGUF files (name one like "
    "{model_id}:Q4_K_M) or an adapter (give the model it was made from)",
    errors.NoRevision: "{what} has no branch, tag or commit {revision}: main is the usual one",
    errors.Disabled: "{what} has been disabled on the Hub: choose another copy of this model",
    errors.NoWeights: "{what} has no model.safetensors at {revision}: its parameter count must come from elsewhere",
    errors.RateLimited: "{endpoint} limits the requests from here: try again in {wait}",
    errors.Unavailable: "{endpoint} {reason}: check the network and the proxy, try again, or give a local config.json",
    errors.Offline: "offline mode is on (HF_HUB_OFFLINE): unset it, or give a local config.json",
    errors.NotAHub: "{endpoint} does not answer like a Hub ({reason}): check HF_ENDPOINT, and proxies on the way",
    errors.TooLarge: "the answer about {what} is larger than {limit_bytes} bytes, which no config.json is",
    errors.BadContent: "the answer about {what} cannot be right: {reason}",
}

_ABOUT_BODY: Final = ("content-", "transfer-")


def hf_utils() -> Any:
    """huggingface_hub.utils, imported only when a call is made because that takes 0.4 s."""
    import huggingface_hub.utils

    return huggingface_hub.utils


class Answer(NamedTuple):
    body: bytes
    commit: str
    repo: str | None


class Call:
    """One public call: what it is about, until when, and whether its requests have come to need the token."""

    def __init__(self, endpoint: str, token: str | None, deadline_s: float, model_id: str, revision: str) -> None:
        self.endpoint, self.model_id, self.revision = endpoint, model_id, revision
        self.deadline_s, self.ends_at = deadline_s, time.monotonic() + deadline_s
        self.with_token = self.gated = False
        self.about = {"endpoint": endpoint, "model_id": model_id, "revision": revision}
        self._token = token

    def file_url(self, name: str) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.model_id, name, revision=self.revision, endpoint=self.endpoint)

    def get(
        self, url: str, *, missing: type[HubError], span: tuple[int, int] | None = None, wants_commit: bool = False
    ) -> Answer:
        """The body at `url`, at most MAX_ANSWER_BYTES of it, or bytes [begin, end) of it for a `span`.

        Anonymously first: what is public then stays public to everybody, and a bad token cannot spoil it.
        """
        if not self.with_token:
            try:
                return self._send(url, None, missing, span, wants_commit)
            except (errors.Gated, errors.NotFound, errors.RateLimited) as refusal:
                if self._token is None:
                    raise
                self.gated = isinstance(refusal, errors.Gated)
                self.with_token = True
        return self._send(url, self._token, missing, span, wants_commit)

    def error(self, kind: type[HubError], **fields: Any) -> HubError:
        rights = "with this token" if self.with_token else "without a token"
        about = self.about | fields
        return kind(_TEXTS[kind].format(what=self.model_id or "the list of models", rights=rights, **about), **about)

    def too_slow(self) -> HubError:
        return self.error(errors.Unavailable, reason=f"gave no complete answer within {self.deadline_s:g} s")

    def _send(
        self, url: str, token: str | None, missing: type[HubError], span: tuple[int, int] | None, wants_commit: bool
    ) -> Answer:
        """One streamed GET. Redirects are followed here, because the session reads a redirect's body without limit."""
        hf = hf_utils()
        headers = hf.build_hf_headers(
            token=token or False,
            library_name="kv-cache-planner",
            library_version=VERSION,
            headers={"accept-encoding": "identity"} | ({"range": f"bytes={span[0]}-{span[1] - 1}"} if span else {}),
        )
        commit, repo = "", None
        try:
            request = hf.get_session().build_request("GET", url, headers=headers)
            for _ in range(MAX_REDIRECTS + 1):
                left_s = self.ends_at - time.monotonic()
                if left_s <= 0:
                    raise self.too_slow()
                connect_s, read_s = min(CONNECT_TIMEOUT_S, left_s), min(READ_TIMEOUT_S, left_s)
                request.extensions["timeout"] = {"connect": connect_s, "read": read_s, "write": read_s, "pool": left_s}
                request.headers.pop("cookie", None)  # the session is everybody's, and so are its cookies
                response = hf.get_session().send(request, stream=True, follow_redirects=False)
                with closing(response):
                    # The last hop of the Hub itself says both; a CDN it redirects to says neither.
                    commit = response.headers.get("X-Repo-Commit", commit)
                    repo = self._repo_of(response) or repo
                    if response.next_request is not None:
                        request = response.next_request
                        continue
                    _raise_for_status(response)
                    if wants_commit:
                        self._check_commit(commit)
                    return Answer(self._body(response, span), commit, repo)
        except hf.HfHubHTTPError as error:
            raise self._refusal(error, missing) from error
        except hf.OfflineModeIsEnabled:
            raise self.error(errors.Offline) from None
        except hf.httpx.TimeoutException:
            raise self.error(errors.Unavailable, reason="did not answer in time") from None
        except (hf.httpx.HTTPError, hf.httpx.InvalidURL) as error:
            did = "could not be reached" if isinstance(error, hf.httpx.ConnectError) else "broke off the answer"
            raise self.error(errors.Unavailable, reason=f"{did} ({type(error).__name__})") from error
        raise self.error(errors.Unavailable, reason=f"redirected more than {MAX_REDIRECTS} times")

    def _check_commit(self, commit: str) -> None:
        if not COMMIT.fullmatch(commit):
            raise self.error(errors.NotAHub, reason="no X-Repo-Commit")
        if COMMIT.fullmatch(self.revision) and self.revision != commit:
            raise self.error(errors.NotAHub, reason=f"commit {commit} instead of the one asked for")

    def _body(self, response: Response, span: tuple[int, int] | None) -> bytes:
        """The answer, refused beyond its limit; for a span no more than it, even from a server that ignores Range."""
        skip, limit = 0, MAX_ANSWER_BYTES + 1  # one more, to see that there is more
        if span is not None:
            begins = re.match(r"bytes ([0-9]{1,18})-", response.headers.get("content-range", ""))
            start = 0 if response.status_code != 206 else int(begins[1]) if begins else -1
            if start not in (0, span[0]):
                raise self.error(errors.BadContent, reason="another byte range than was asked for")
            skip, limit = span[0] - start, span[1] - start
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) >= limit:
                break
            if time.monotonic() > self.ends_at:
                raise self.too_slow()
        if span is None and len(body) >= limit:
            raise self.error(errors.TooLarge, limit_bytes=MAX_ANSWER_BYTES)
        return bytes(body[skip:limit])

    def _repo_of(self, response: Response) -> str | None:
        """The repository that a hop was about: after a rename, its new name."""
        match = _REPO_IN_PATH.fullmatch(response.url.path.removeprefix(urlsplit(self.endpoint).path))
        return match[1] if match else None

    def _refusal(self, error: HfHubHTTPError, missing: type[HubError]) -> HubError | InputError:
        """The Hub's refusal as ours. Its own words stay out of it: they are whatever the server chose to send."""
        hf, status, headers = hf_utils(), error.response.status_code, error.response.headers
        if isinstance(error, hf.GatedRepoError):  # before its base, RepositoryNotFoundError
            return self.error(errors.Gated, status=status)
        if isinstance(error, hf.DisabledRepoError):
            return self.error(errors.Disabled, status=status)
        if isinstance(error, hf.RevisionNotFoundError):
            return self.error(errors.NoRevision, status=status)
        if isinstance(error, hf.EntryNotFoundError):
            return self.error(missing, status=status, reason="no such file")
        if headers.get("X-Error-Message") == "Invalid credentials in Authorization header":
            return InputError("the Hub does not know this access token: it may have expired", field="token")
        if isinstance(error, hf.RepositoryNotFoundError) or status in (401, 404):
            return self.error(errors.NotFound, status=status)
        if status == 403:
            return self.error(errors.Gated, status=status)
        if status == 429:
            wait_s = _retry_after_s(error.response)
            wait = "a few minutes" if wait_s is None else f"{wait_s} s"
            return self.error(errors.RateLimited, status=status, retry_after_s=wait_s, wait=wait)
        if status == 416:
            return self.error(errors.BadContent, status=status, reason="a file is shorter than its header says")
        return self.error(errors.Unavailable, status=status, reason=f"answered with status {status}")


def _raise_for_status(response: Response) -> None:
    """hf_raise_for_status by headers alone: given the response itself it would read an error's body without limit."""
    hf = hf_utils()
    # Cut, because huggingface_hub would turn a header of ten thousand digits into a number.
    told = {name: value[:200] for name, value in response.headers.items() if not name.startswith(_ABOUT_BODY)}
    hf.hf_raise_for_status(hf.httpx.Response(response.status_code, headers=told, request=response.request))
    if not response.is_success:  # a redirect to nowhere, which the line above lets through
        raise hf.httpx.TooManyRedirects("redirected to no address", request=response.request)


def _retry_after_s(response: Response) -> int | None:
    """Seconds to wait: the Hub's RateLimit header where that limit is what is used up, else Retry-After."""
    limits = hf_utils().parse_ratelimit_headers(response.headers)
    if limits is not None and limits.remaining == 0:
        return int(limits.reset_in_seconds)
    asked = response.headers.get("retry-after", "").strip()
    return int(asked) if re.fullmatch("[0-9]{1,6}", asked) else None
