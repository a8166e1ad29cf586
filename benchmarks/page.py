"""How fast the page answers: a rerun of the Plan page, the start beside Streamlit's own demo, and many visitors at once.

    python -m benchmarks.page [--sessions 46] [--changes 5] [--starts 3] [--markdown]

Prints figures of this machine; nothing is asserted. docs/BENCHMARKS.md keeps the last ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.testing.v1 import AppTest
from websockets.asyncio.client import ClientConnection, connect

ROOT = Path(__file__).resolve().parent.parent
LABEL = "Tokens per request"


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def reruns(count: int = 40) -> list[float]:
    """Seconds of the Plan page's reruns on the server, a changed number of tokens each time; no browser, no socket."""
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    times = []
    for step in range(count):
        box = page.number_input(key="tokens").set_value(4096 + 64 * step)
        start = time.perf_counter()
        box.run()
        times.append(time.perf_counter() - start)
    return times


@contextlib.contextmanager
def server(script: list[str]) -> Iterator[tuple[int, float]]:
    """A Streamlit server of its own: the port, and the time at which it was started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", *script, f"--server.port={port}", "--server.address=127.0.0.1",
               "--server.headless=true"]  # fmt: skip
    start = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"}, **quiet) as process:
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    opener.open(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
                    break
                time.sleep(0.02)
            yield port, start
        finally:
            process.terminate()


async def opened(port: int) -> ClientConnection:
    return await connect(f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=["streamlit"], max_size=None, proxy=None)  # type: ignore[list-item]


async def run(visitor: ClientConnection, widget: str = "", value: float = 0.0) -> str:
    """One run of the page, with a widget changed, until it is finished; the id of the number of tokens where it was drawn."""
    message = BackMsg()
    message.rerun_script.query_string = ""
    if widget:
        state = message.rerun_script.widget_states.widgets.add()
        state.id, state.double_value = widget, value
    await visitor.send(message.SerializeToString())
    found = widget
    while True:
        answer = ForwardMsg()
        answer.ParseFromString(await visitor.recv())  # type: ignore[arg-type]
        if answer.WhichOneof("type") == "delta" and answer.delta.new_element.number_input.label == LABEL:
            found = answer.delta.new_element.number_input.id
        if answer.WhichOneof("type") == "script_finished":
            return found


async def first(port: int) -> None:
    async with await opened(port) as visitor:
        await run(visitor)


def starts(count: int) -> tuple[list[float], list[float]]:
    """Seconds from the command to the first finished page, ours and the demo's in turns."""
    times: tuple[list[float], list[float]] = [], []
    for _ in range(count):
        for place, script in enumerate((["run", "app.py"], ["hello"])):
            with server(script) as (port, begun):
                asyncio.run(first(port))
                times[place].append(time.perf_counter() - begun)
    return times


async def crowd(port: int, sessions: int, changes: int) -> list[float]:
    """Seconds of each rerun where `sessions` visitors change the tokens at once, each as soon as the last answer is there."""

    async def visit(number: int) -> list[float]:
        times = []
        async with await opened(port) as visitor:
            widget = await run(visitor)
            ready.release()
            await go.wait()
            for change in range(changes):
                start = time.perf_counter()
                await run(visitor, widget, 2048 + 64 * number + change)
                times.append(time.perf_counter() - start)
        return times

    ready, go = asyncio.Semaphore(0), asyncio.Event()
    visits = [asyncio.create_task(visit(number)) for number in range(sessions)]
    for _ in range(sessions):
        await ready.acquire()
    go.set()
    return [one for times in await asyncio.gather(*visits) for one in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=46)
    parser.add_argument("--changes", type=int, default=5)
    parser.add_argument("--starts", type=int, default=3)
    asked = parser.parse_args()
    own = reruns()
    print(f"Plan page, rerun on the server: p50 {1000 * statistics.median(own):.0f} ms, p95 {1000 * quantile(own, 0.95):.0f} ms")
    ours, demo = (statistics.median(times) for times in starts(asked.starts))
    print(f"start to first page: {ours:.2f} s, streamlit hello {demo:.2f} s, ratio {ours / demo:.2f}")
    with server(["run", "app.py"]) as (port, _):
        start = time.perf_counter()
        times = asyncio.run(crowd(port, asked.sessions, asked.changes))
        whole = time.perf_counter() - start
    print(
        f"{asked.sessions} visitors, {asked.changes} changes each: p50 {1000 * statistics.median(times):,.0f} ms,"
        f" p95 {1000 * quantile(times, 0.95):,.0f} ms, {len(times) / whole:.1f} reruns a second with the first pages"
    )


if __name__ == "__main__":
    main()
