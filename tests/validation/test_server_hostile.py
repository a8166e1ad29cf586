"""Servers that mean harm or are broken, and addresses that must not be asked: one clear line, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.errors import InputError, PlannerError
from tests.validation.fake_server import Route, moved, raw, serving
from tests.validation.server_answers import llama_cpp
from validation import server, server_http
from validation.server_http import Answer, Client, ServerError, near, resolve, target_of

OK = b"HTTP/1.1 200 OK\r\n"
#: What a server answers at every path, and a word of the line that says so.
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
BROKEN: dict[str, tuple[Route, str]] = {
    "a huge answer": (raw(OK + b"\r\n", b" " * 65536, times=1000), "more than 8,388,608 bytes"),
    "a huge size": (raw(OK + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536, times=1000), "more than 8,388,608"),
    "an endless answer": (raw(OK + b"\r\n", b" ", times=10_000, pause=0.02), "no complete answer within"),
    "endless pieces": (raw(CHUNKED, b"1\r\n \r\n", times=10_000, pause=0.02), "no complete answer within"),
    "an endless line of headers": (raw(OK + b"X: ", b"x", times=10_000, pause=0.02), "no complete answer within"),
    "endless headers": (raw(OK, b"X: x\r\n", times=100_000), "could not be read"),
    "an endless continue": (raw(b"", b"HTTP/1.1 100 Continue\r\n\r\n", times=10_000, pause=0.02), "no complete answer within"),
    "no answer": (raw(b"", b"", times=500, pause=0.02), "no complete answer within"),
    "a broken piece": (raw(CHUNKED + b"zz\r\n"), "could not be read"),
    "half an answer": (raw(OK + b"Content-Length: 100\r\n\r\n{"), "could not be read"),
    "no HTTP": (raw(b"220 ready\r\n"), "could not be read"),
    "a key is wanted": ((401, {"error": "Unauthorized"}), "--api-key-env"),
    "a key is refused": ((403, "no"), "--api-key-env"),
    "the model is loading": ((503, LOADING), "still be loading"),
    "an error everywhere": ((500, "oops"), "answers like none of"),
    "another kind of JSON": ("[1, 2]", "answers like none of"),
    "broken JSON": ("{", "answers like none of"),
    "JSON nested without end": ("[" * 200_000, "answers like none of"),
    "not a number": ('{"default_generation_settings": NaN}', "answers like none of"),
    "bytes that are no text": (b"\xff\xfe\x00", "answers like none of"),
    "a compressed answer": (b"\x1f\x8b\x08\x00" + bytes(100), "answers like none of"),
    "a redirect in a circle": (moved("/props"), "redirects more than"),
    "a redirect to a public address": (moved("http://192.0.2.1/props"), "redirects to another server"),
    "a redirect to a cloud's own address": (moved("http://169.254.169.254/latest/meta-data"), "redirects to another server"),
    "a redirect to a file": (moved("file:///etc/passwd"), "redirects to no address"),
    "a redirect to nowhere": (moved("http://[::"), "redirects to no address"),
}  # fmt: skip


class Everywhere(dict[str, Route]):
    def __init__(self, route: Route) -> None:
        super().__init__()
        self.route = route

    def get(self, path: str, default: Any = None) -> Route:
        return self.route


@pytest.mark.parametrize("name", BROKEN)
def test_broken_servers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    route, wanted = BROKEN[name]
    with serving(Everywhere(route)) as fake:
        assert server.main([fake.url, "--timeout", "1"]) == 3
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    assert wanted in captured.err
    assert len(captured.err) < 400


def test_a_redirect_elsewhere_is_never_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Not even to another port of the same machine; the key would go with it."""
    with serving(llama_cpp()) as other, serving({"/props": moved(f"{other.url}/props")}) as fake:
        assert server.main([fake.url]) == 3
        assert other.seen == []
    assert "which is not asked" in capsys.readouterr().err


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert server.main([f"http://127.0.0.1:{port}"]) == 3
    assert "nothing listens" in capsys.readouterr().err


def test_names_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a server's words stay out of the terminal."""
    routes = llama_cpp()
    evil = {"model_alias": "evil\x1b]0;owned\x07\x1b[2J\nfigure agrees", "build_info": "\x1b[31mb1"}
    routes["/props"] = {**routes["/props"], **evil}
    with serving(routes) as fake:
        server.main([fake.url])
        server.main([fake.url, "--model", "meta-llama/Llama-3.1-8B-Instruct"])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "\x07" not in captured.out + captured.err
    assert "evil" in captured.out


@pytest.mark.parametrize("figure", [-1, 0, 10**400, 1.5e308, "4096", "many", None, [], {}, True])
def test_figures_that_are_none(figure: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever stands where a number should, the answer is a comparison or one line."""
    routes = llama_cpp()
    routes["/props"] = {**routes["/props"], "total_slots": figure, "default_generation_settings": {"n_ctx": figure}}
    routes["/slots"] = [{"n_ctx": figure}, figure, None]
    routes["/v1/models"] = {"data": [figure, {"meta": figure}]}
    with serving(routes) as fake:
        assert server.main([fake.url]) in (0, 1, 2)
    assert capsys.readouterr().err.count("\n") <= 1


def test_a_model_file_is_read_on_this_machine_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path that a server names is opened where the server is this machine and the file is a model; nothing else is."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    told = server.Told("llama.cpp", model="x", root=str(secret))
    assert server.find_model(told, None, local=True) is None
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    folder = server.Told("vllm", model="x", root=str(tmp_path))
    assert server.find_model(folder, None, local=False) is None
    assert len(getattr(server.find_model(folder, None, local=True), "layers", ())) == 2


NEAR = ["127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "::1", "fd12::1", "::ffff:10.0.0.1"]
FAR = [
    "8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "0.0.0.1",
    "255.255.255.255", "2001:db8::1", "::ffff:8.8.8.8", "fe80::1", "64:ff9b::7f00:1", "::",
]  # fmt: skip


@pytest.mark.parametrize("address", NEAR)
def test_near_addresses(address: str) -> None:
    assert near(address)
    host = f"[{address}]" if ":" in address else address
    assert resolve(target_of(f"http://{host}:8000"), allow_remote=False)


@pytest.mark.parametrize("address", FAR)
def test_far_addresses_are_not_connected_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not near(address)
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 8000))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [entry])
    with pytest.raises(InputError, match="--allow-remote"):
        resolve(target_of("http://some.name:8000"), allow_remote=False)
    assert resolve(target_of("http://some.name:8000"), allow_remote=True) == (entry,)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"])
def test_other_spellings_of_an_address_are_judged_by_what_they_resolve_to(host: str) -> None:
    """Where the system takes them at all, it is the address that counts, not the spelling."""
    try:
        found = resolve(target_of(f"http://{host}:8000"), allow_remote=False)
    except PlannerError:
        return
    assert all(near(entry[4][0]) for entry in found)


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that changes its address between two look-ups is asked at the one that was checked; public ones are left out."""
    with serving(llama_cpp()) as fake:
        port = fake.server_address[1]
        looked_up: list[str] = []

        def look_up(host: str, *args: Any, **kwargs: Any) -> list[Any]:
            looked_up.append(host)
            address = "127.0.0.1" if len(looked_up) == 1 else "192.0.2.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (at, port)) for at in ("192.0.2.7", address)]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert server.main([f"http://rebinding.test:{port}"]) == 0
        assert looked_up == ["rebinding.test"]
        assert len(fake.seen) >= 4
    capsys.readouterr()


@pytest.mark.parametrize(
    "url",
    ["", "   ", "http://", "ftp://127.0.0.1", "file:///etc/passwd", "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1:x",
     "http://user:secret@127.0.0.1", "http://127.0.0.1/a b", "http://127.0.0.1/?x=1", "http://127.0.0.1/\r\nX: y", "http://[::1",
     "http://exämple:80", "http://127.0.0.1/#x", "javascript:alert(1)"],
)  # fmt: skip
def test_what_is_no_address(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main([url]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "secret" not in captured.err


@pytest.mark.parametrize(
    "arguments",
    [["--timeout", "0"], ["--timeout", "nan"], ["--timeout", "1e9"], ["--engine", "tensorrt"], ["--set", "n_ctx"],
     ["--gpu", "h9000"], ["--api-key-env", "NOT_SET_ANYWHERE"], ["--set", "n_ctx=many"], ["--model", "/nowhere/model.gguf"]],
    ids=" ".join,
)  # fmt: skip
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with serving(llama_cpp()) as fake:
        assert server.main([fake.url, *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.startswith("error: ")


def test_the_key_is_sent_and_never_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sk-very-secret"
    monkeypatch.setenv("MY_SERVERS_KEY", f"  {key}\n")
    for routes, status in ((llama_cpp(), 0), (Everywhere((401, {"error": "no"})), 3), (Everywhere((500, key)), 3)):
        with serving(routes) as fake:
            for form in ([], ["--json"]):
                assert server.main([fake.url, "--api-key-env", "MY_SERVERS_KEY", *form]) == status
            assert all(headers["Authorization"] == f"Bearer {key}" for _, _, headers, _ in fake.seen)
        captured = capsys.readouterr()
        assert key not in captured.out + captured.err
    client = Client(target_of("http://127.0.0.1:1"), (), 1.0, key)
    assert key not in repr(client)


def test_a_key_does_not_go_over_the_internet_in_the_clear(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_SERVERS_KEY", "sk-very-secret")
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 8000))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [entry])
    assert server.main(["http://far.test:8000", "--allow-remote", "--api-key-env", "MY_SERVERS_KEY"]) == 2
    assert "https" in capsys.readouterr().err
    monkeypatch.setenv("MY_SERVERS_KEY", "two\r\nlines")
    assert server.main(["https://far.test:8000", "--allow-remote", "--api-key-env", "MY_SERVERS_KEY"]) == 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that nobody signed, and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, which makes the certificate")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    (folder / "both.pem").write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return folder / "both.pem"


@contextlib.contextmanager
def secured(routes: Mapping[str, Route], certificate: Path) -> Iterator[int]:
    with serving(routes) as fake:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        fake.socket = context.wrap_socket(fake.socket, server_side=True)
        yield fake.server_address[1]


def test_https(certificate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate is checked against the name that was asked for, and against those that the system trusts."""
    with secured(llama_cpp(), certificate) as port:
        assert server.main([f"https://localhost:{port}"]) == 3
        assert "not trusted" in capsys.readouterr().err
        trusting = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(server_http.ssl, "create_default_context", lambda: trusting)
        assert server.main([f"https://localhost:{port}"]) == 0
        capsys.readouterr()
        assert server.main([f"https://127.0.0.1:{port}"]) == 3
        assert "not trusted" in capsys.readouterr().err


def test_a_handshake_that_never_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        held: list[socket.socket] = []
        waiting = threading.Thread(target=lambda: held.append(listener.accept()[0]), daemon=True)
        waiting.start()
        assert server.main([f"https://127.0.0.1:{listener.getsockname()[1]}", "--timeout", "0.3"]) == 3
        waiting.join(10)
        for connection in held:
            connection.close()
    assert "no complete answer within" in capsys.readouterr().err


class Canned(Client):
    """A client whose answers are at hand."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        super().__init__(target_of("http://127.0.0.1:1"), (), 1.0)
        self.answers = answers

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        found = self.answers.get(path)
        return Answer(404 if found is None else 200, found or b"", path)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
NAMES = st.sampled_from(
    ["version", "model_id", "max_total_tokens", "max_concurrent_requests", "max_batch_total_tokens", "total_slots", "n_ctx",
     "default_generation_settings", "build_info", "model_path", "max_total_num_tokens", "internal_states", "memory_usage",
     "kvcache", "kv_cache_dtype", "tp_size", "page_size", "models", "model", "data", "meta", "size", "context_length",
     "model_info", "tensors", "general.architecture", "llama.block_count", "id", "root", "max_model_len"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=8), max_leaves=25
)
PATHS = ("/props", "/slots", "/metrics", "/v1/models", "/server_info", "/get_server_info", "/info", "/api/version", "/api/ps",
         "/api/show", "/version")  # fmt: skip
LABELS = st.lists(st.tuples(st.sampled_from(["block_size", "num_gpu_blocks", "cache_dtype", "kv_cache_dtype_skip_layers",
    "kv_cache_size_tokens", "user_specified_block_size"]), st.text(max_size=12)), max_size=6)  # fmt: skip


@given(st.fixed_dictionaries(dict.fromkeys(PATHS, VALUES)), LABELS, st.booleans())
@example({"/version": {"version": "0.33.0"}}, [("block_size", '"}\\'), ("num_gpu_blocks", "9" * 12)], True)
def test_any_answer_is_a_comparison_or_one_error(answers: dict[str, Any], labels: list[tuple[str, str]], metrics: bool) -> None:
    """Whatever JSON of the right words a server answers, there is a comparison or a planner's error, never a crash."""
    bodies = {path: json.dumps(value).encode() for path, value in answers.items()}
    if metrics:
        text = ",".join(f'{name}="{value}"' for name, value in labels)
        bodies["/metrics"] = f"vllm:cache_config_info{{{text}}} 1.0\n".encode()
    with contextlib.suppress(PlannerError):
        name, told = server.ask(Canned(bodies), None)
        arguments = server._parser().parse_args(["x", "--model", "meta-llama/Llama-3.1-8B-Instruct"])
        model, found = server.check(told, server.READERS[name], arguments, local=False)
        assert model is not None
        assert not found.agrees or found.lines


def test_an_error_has_a_code_and_the_exit_status_of_an_unavailable_source() -> None:
    assert (ServerError.code, ServerError.exit_status) == ("server.unavailable", 3)
