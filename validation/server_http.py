"""A running server asked over HTTP: at an address that was checked, within one time limit and a size, redirected nowhere else."""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from model_configs.json_text import strict_json
from planner.errors import BadContent, InputError, PlannerError, shown
from planner.version import VERSION

MAX_ANSWER_BYTES: Final = 8 * 1024**2  # a vLLM with many counters answers /metrics with 1 MB
MAX_REDIRECTS: Final = 2  # from /metrics to /metrics/
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # what servers print for "every address of this machine"
_NEAR: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class ServerError(PlannerError):
    """A server that could not be asked, or that does not answer like an engine."""

    code: ClassVar[str] = "server.unavailable"
    exit_status: ClassVar[int] = 3


@dataclass(frozen=True)
class Target:
    """Where a server is: the parts of its address, `path` being what all its endpoints stand below."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def target_of(url: str) -> Target:
    """The server of an address as a person writes it: "localhost:8000", "http://10.0.0.5:30000/v1", "https://host/prefix".

    Errors: InputError for another scheme, a password in it, or what is no address.
    """
    text = url.strip()
    problem = f"{shown(text)} is not a server's address; write it like http://localhost:8000"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise InputError(problem, field="url") from None
    if parts.username is not None or parts.password is not None:
        raise InputError("the address holds a name or password; put a key in a variable and say --api-key-env", field="url")
    if parts.scheme not in ("http", "https") or not _plain(parts) or parts.query or parts.fragment or port == 0:
        raise InputError(problem, field="url")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Target(parts.scheme, str(parts.hostname), port or (443 if parts.scheme == "https" else 80), path)


def _plain(parts: SplitResult) -> bool:
    words = (parts.hostname or "", parts.path)
    return bool(words[0]) and all(word.isascii() and word.isprintable() and " " not in word for word in words)


def resolve(target: Target, allow_remote: bool) -> tuple[Any, ...]:
    """The socket addresses to connect to, of one look-up; without `allow_remote` loopback and private ones alone.

    Errors: InputError for a name that has only public addresses, ServerError for one that has none.
    """
    try:
        host = _LOOPBACK.get(target.host, target.host)
        found = socket.getaddrinfo(host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ServerError(f"no address is known for {target.host}: check the name") from None
    allowed = tuple(entry for entry in found if allow_remote or near(str(entry[4][0])))
    if not allowed:
        raise InputError(
            f"{target.host} is neither this machine nor in a private network; say --allow-remote to ask it all the same",
            field="url",
        )
    return allowed


def near(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in _NEAR)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    what: str

    @property
    def ok(self) -> bool:
        return self.status == 200

    def json(self) -> Any:
        """The content as JSON. Errors: ServerError."""
        try:
            return strict_json(self.body, self.what)
        except BadContent as error:
            raise ServerError(error.message) from None

    def fields(self) -> Mapping[str, Any]:
        """The content where it is a JSON object, else nothing: an endpoint of some other kind of server."""
        try:
            content = self.json() if self.ok else {}
        except ServerError:
            return {}
        return content if isinstance(content, dict) else {}

    def text(self) -> str:
        return self.body.decode("utf-8", "replace") if self.ok else ""


def refusal(answer: Answer) -> ServerError:
    """Why an endpoint gave nothing, and what to do about it."""
    if answer.status in (401, 403):
        return ServerError(f"{answer.what} asks for a key: put it in a variable, and name that with --api-key-env")
    if answer.status == 503:
        return ServerError(f"{answer.what} is not ready (503): the model may still be loading; try again when it has")
    return ServerError(f"{answer.what} answers with status {answer.status}")


class _Reads(io.RawIOBase):
    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.socket().recv_into(buffer)


class _Timed:
    """A socket each of whose waits ends at `ends_at`, however slowly the other side trickles."""

    def __init__(self, plain: socket.socket, ends_at: float) -> None:
        self._socket, self._ends_at = plain, ends_at

    def socket(self) -> socket.socket:
        self._socket.settimeout(remaining(self._ends_at))
        return self._socket

    def sendall(self, data: bytes) -> None:
        self.socket().sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self))

    def close(self) -> None:
        """Left open: http.client closes its socket before the answer is read, and whoever opened it closes it."""


def remaining(ends_at: float) -> float:
    """Seconds until `ends_at`. Errors: TimeoutError when it has passed."""
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@dataclass
class Client:
    """Asks one server for everything within `timeout_s` seconds together. key: sent as a bearer token, and shown nowhere."""

    target: Target
    addresses: tuple[Any, ...]
    timeout_s: float
    key: str | None = field(default=None, repr=False)
    context: ssl.SSLContext | None = None
    asked: dict[str, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ends_at = time.monotonic() + self.timeout_s

    def get(self, path: str) -> Answer:
        """What `path` answers; asked once. Errors: ServerError."""
        if path not in self.asked:
            self.asked[path] = self._ask("GET", path, None)
        return self.asked[path]

    def need(self, path: str) -> Answer:
        """What `path` answers, which must be it. Errors: ServerError saying what to do about a refusal."""
        answer = self.get(path)
        if not answer.ok:
            raise refusal(answer)
        return answer

    def post(self, path: str, content: Mapping[str, Any]) -> Answer:
        """What `path` answers to a JSON object. Errors: ServerError."""
        self.asked[path] = self._ask("POST", path, json.dumps(content).encode())
        return self.asked[path]

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        name, where = f"{self.target.origin}{self.target.path}{path}", self.target.path + path
        try:
            for _ in range(MAX_REDIRECTS + 1):
                status, moved, content = self._send(method, where, body)
                if status not in _REDIRECTS:
                    return Answer(status, content, name)
                where = self._same_server(where, moved, name)
        except TimeoutError:
            raise ServerError(f"{name} gave no complete answer within {self.timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise ServerError(f"the certificate of {self.target.origin} is not trusted ({error.verify_message})") from None
        except ConnectionRefusedError:
            raise ServerError(f"nothing listens at {self.target.origin}; is the server up, and is the port right?") from None
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{name} could not be read ({type(error).__name__})") from None
        raise ServerError(f"{name} redirects more than {MAX_REDIRECTS} times")

    def _same_server(self, where: str, moved: str, name: str) -> str:
        try:
            to = target_of(urljoin(f"{self.target.origin}{where}", moved))
            path = urlsplit(urljoin(where, moved)).path
        except (InputError, ValueError):
            raise ServerError(f"{name} redirects to no address") from None
        if (to.scheme, to.host, to.port) != (self.target.scheme, self.target.host, self.target.port):
            raise ServerError(f"{name} redirects to another server, {shown(to.origin)}, which is not asked")
        return path

    def _send(self, method: str, where: str, body: bytes | None) -> tuple[int, str, bytes]:
        headers = {"Accept-Encoding": "identity", "User-Agent": f"kv-cache-planner/{VERSION}", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        connection = http.client.HTTPConnection(self.target.host, self.target.port)
        plain = self._connect()
        timed: Any = _Timed(plain, self.ends_at)
        connection.sock = timed
        try:
            connection.request(method, where, body, headers)
            answer = connection.getresponse()
            content = bytearray()
            while chunk := answer.read(65536):
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise ServerError(f"{self.target.origin}{where} answers with more than {MAX_ANSWER_BYTES:,} bytes")
            if answer.length:
                raise http.client.IncompleteRead(bytes(content), answer.length)
            return answer.status, answer.headers.get("Location") or "", bytes(content)
        finally:
            plain.close()

    def _connect(self) -> socket.socket:
        """A connection to one of the checked addresses; the name is not looked up again."""
        failed: OSError = ConnectionRefusedError()
        for family, kind, protocol, _, address in self.addresses:
            found = socket.socket(family, kind, protocol)
            try:
                found.settimeout(remaining(self.ends_at))
                found.connect(address)
                return self._secured(found) if self.target.scheme == "https" else found
            except OSError as error:
                found.close()
                failed = error
        raise failed

    def _secured(self, plain: socket.socket) -> socket.socket:
        context = self.context or ssl.create_default_context()
        secured = context.wrap_socket(plain, server_hostname=self.target.host, do_handshake_on_connect=False)
        try:
            secured.settimeout(remaining(self.ends_at))
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured
