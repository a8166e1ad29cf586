"""A Hub on 127.0.0.1: the requests that the planner makes, answered as huggingface.co answers them, and its faults.

Repositories are plain data; what a repository does wrong is its `fault`. Every request is logged with its headers, so
that a test can say which requests were made and what they carried. Stdlib only.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


@dataclass
class Repo:
    """A repository at one commit. `needs` is the token that may read it; `renamed_to` redirects everything."""

    files: dict[str, bytes] = field(default_factory=dict)
    commit: str = COMMIT
    branches: tuple[str, ...] = ("main",)
    needs: str | None = None
    gated: bool = False
    disabled: bool = False
    renamed_to: str | None = None
    parameters: dict[str, int] | None = None
    downloads: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived: path with query, and headers."""

    path: str
    headers: Message

    @property
    def token(self) -> str | None:
        return self.headers.get("Authorization")


def config_repo(config: object, **about: Any) -> Repo:
    return Repo(files={"config.json": json.dumps(config).encode()}, **about)


def header_only(tensors: dict[str, tuple[str, list[int], int]], pad: int = 0) -> bytes:
    """A safetensors file without its data: {name: (dtype, shape, bytes)}, so a "70B" file is a few kilobytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "pad": "x" * pad}}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


class HubServer:
    """`with HubServer({"org/name": Repo(...)}) as server:` then `server.url`, `server.log`, `server.paths`.

    `prefix` puts the whole Hub under a path, as some mirrors do. `sent` counts body bytes that went out.
    """

    def __init__(self, repos: dict[str, Repo], prefix: str = "") -> None:
        self.repos, self.prefix = repos, prefix
        self.log: list[Seen] = []
        self.sent = 0
        self.closing = Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._thread = Thread(target=lambda: self._http.serve_forever(poll_interval=0.01), daemon=True)

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.log]

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the log is `hub.log`."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # the client left, as it should when it has read enough

    def do_GET(self) -> None:
        self.hub.log.append(Seen(self.path, self.headers))
        url = urlsplit(self.path)
        path = url.path.removeprefix(self.hub.prefix)
        if not url.path.startswith(self.hub.prefix):
            return self.refuse(404, "", "outside the prefix")
        if path.startswith("/cdn/"):
            _, _, name, file = path.split("/", 3)
            return self.send_file(self.hub.repos[unquote(name)].files[file], {})
        if path == "/api/models":
            return self.search(parse_qs(url.query))
        # As huggingface.co does for small files: /resolve/ leads to a path that names the commit.
        if match := re.fullmatch(r"/api/resolve-cache/models/([^/]+(?:/[^/]+)?)/([0-9a-f]{40})/(.+)", path):
            return self.resolve(match[1], match[2], match[3], cached=True)
        if match := re.fullmatch(r"/api/models/([^/]+(?:/[^/]+)?)/revision/([^/]+)", path):
            return self.model_info(match[1], unquote(match[2]))
        if match := re.fullmatch(r"/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)", path):
            return self.resolve(match[1], unquote(match[2]), match[3])
        return self.refuse(404, "", "no such page")

    def readable(self, name: str, revision: str) -> Repo | None:
        """The repository if this request may read it at this revision; otherwise the refusal is sent."""
        repo, token = self.hub.repos.get(name), self.headers.get("Authorization")
        if repo is None or (repo.needs and not repo.gated and token != f"Bearer {repo.needs}"):
            # The Hub does not tell strangers whether a repository exists: 401 for them, 404 for who is known.
            self.refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        elif repo.renamed_to:
            self.redirect(self.path.replace(name, repo.renamed_to, 1), 307)
        elif repo.disabled:
            self.refuse(403, "", "Access to this resource is disabled.")
        elif repo.gated and token != f"Bearer {repo.needs}":
            self.refuse(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted")
        elif revision not in (*repo.branches, repo.commit):
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repo
        return None

    def resolve(self, name: str, revision: str, file: str, cached: bool = False) -> None:
        repo = self.readable(name, revision)
        if repo is None or self.misbehave(repo.fault, file):
            return
        commit = {"X-Repo-Commit": repo.commit}
        if repo.fault == "no-commit":
            commit = {}
        if repo.fault == "wrong-commit":
            commit = {"X-Repo-Commit": OTHER_COMMIT}
        if file not in repo.files:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        if repo.fault == "cdn":
            # `localhost` is another origin than 127.0.0.1 for a client, and the same server.
            return self.redirect(
                f"http://localhost:{self.hub.port}{self.hub.prefix}/cdn/{quote(name, safe='')}/{file}", 302, commit
            )
        if repo.fault == "resolve-cache" and not cached:
            return self.redirect(f"{self.hub.prefix}/api/resolve-cache/models/{name}/{repo.commit}/{file}", 307, commit)
        self.send_file(repo.files[file], commit, repo.fault == "ignore-range", repo.fault == "other-range")

    def misbehave(self, fault: str, file: str) -> bool:
        """Answer as `fault` says; True if that was the whole answer."""
        if fault.isdigit():
            self.refuse(int(fault), "", "")
        elif fault.startswith("429 "):
            name, value = fault.removeprefix("429 ").split(": ", 1)
            self.refuse(429, "", "Too many requests", {name: value})
        elif fault == "html":
            self.send_body(200, b"<html>Sign in to this network</html>", {"Content-Type": "text/html"})
        elif fault == "bad-token":
            self.refuse(401, "", "Invalid credentials in Authorization header")
        elif fault == "loop":
            self.redirect(self.path, 302)
        elif fault == "redirect-nowhere":
            self.redirect("http://[", 302)
        elif fault == "drop":
            self.close_connection = True
        elif fault == "truncated":
            self.head(200, {"Content-Length": "1000", "X-Repo-Commit": COMMIT})
            self.wfile.write(b'{"model_type":')
            self.close_connection = True
        elif fault == "silent":
            self.hub.closing.wait(10)
            self.close_connection = True
        elif fault == "drip-headers":
            self.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000)
        elif fault == "drip-body":
            self.head(200, {"Content-Length": "1000", "X-Repo-Commit": COMMIT})
            self.drip(b" " * 1000)
        elif fault == "endless-error":
            self.head(500, {"Content-Type": "text/plain"})
            self.pour()
        elif fault == "endless-body":
            self.head(200, {"X-Repo-Commit": COMMIT})
            self.pour()
        elif fault == "endless-redirect":
            self.head(302, {"Location": self.path.replace("/main/", f"/{COMMIT}/")} if "/main/" in self.path else {})
            self.pour()
        elif fault == "cookie":
            self.send_body(200, b"{}", {"X-Repo-Commit": COMMIT, "Set-Cookie": "session=of-somebody; Path=/"})
        else:
            return False
        return True

    def drip(self, text: bytes) -> None:
        for at in range(len(text)):
            if self.hub.closing.wait(0.05):
                break
            self.wfile.write(text[at : at + 1])
        self.close_connection = True

    def pour(self) -> None:
        """A body without end (well, 400 MB), until the client has had enough."""
        self.close_connection = True
        for _ in range(400):
            self.wfile.write(b" " * 1_000_000)
            self.hub.sent += 1_000_000

    def model_info(self, name: str, revision: str) -> None:
        repo = self.readable(name, revision)
        if repo is None:
            return
        if repo.fault == "no-api":
            return self.refuse(404, "", "")
        about: dict[str, Any] = {"id": name, "sha": OTHER_COMMIT if repo.fault == "api-not-pinned" else repo.commit}
        if repo.parameters is not None:
            about["safetensors"] = {"parameters": repo.parameters, "total": sum(repo.parameters.values())}
        if "expand=siblings" in self.path:
            about["siblings"] = [{"rfilename": file} for file in repo.files]
        self.send_json(about)

    def search(self, query: dict[str, list[str]]) -> None:
        if "search-fault" in self.hub.repos:
            return self.send_body(200, self.hub.repos["search-fault"].files["answer"], {})
        words, limit = query["search"][0].lower(), int(query["limit"][0])
        found = [(name, repo) for name, repo in self.hub.repos.items() if words in name.lower() and not repo.needs]
        found.sort(key=lambda pair: -pair[1].downloads)
        self.send_json(
            [
                {"id": name, "downloads": repo.downloads, "gated": "manual" if repo.gated else False}
                for name, repo in found[:limit]
            ]
        )

    def send_file(self, body: bytes, headers: dict[str, str], ignore_range: bool = False, other_range: bool = False) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None or ignore_range:
            return self.send_body(200, body, headers)
        begin, end = int(asked[1]), min(int(asked[2]) + 1, len(body))
        if other_range:
            begin += 8
        if begin >= len(body):
            return self.refuse(416, "", "", {"Content-Range": f"bytes */{len(body)}"})
        self.send_body(206, body[begin:end], headers | {"Content-Range": f"bytes {begin}-{end - 1}/{len(body)}"})

    def send_json(self, value: object) -> None:
        self.send_body(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send_body(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.head(status, headers | {"Content-Length": str(len(body))})
        for at in range(0, len(body), 65_536):
            self.wfile.write(body[at : at + 65_536])
            self.hub.sent += len(body[at : at + 65_536])

    def redirect(self, location: str, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_body(status, b"", {"Location": location} | (headers or {}))

    def refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        """The Hub explains itself in headers; bodies are for people."""
        told = {"X-Error-Code": code, "X-Error-Message": message}
        self.send_body(status, b"", {name: value for name, value in told.items() if value} | (headers or {}))

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
