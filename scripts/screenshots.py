"""Pictures of the running page for docs/screenshots: `python scripts/screenshots.py [name ...]`.

Starts the page on a free port, opens it in the system's Chromium at desktop and phone width, light and dark, and writes
one PNG a scene. Needs playwright (the package alone; its own browsers are not used).
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
DESKTOP: ViewportSize = {"width": 1440, "height": 1000}
PHONE: ViewportSize = {"width": 390, "height": 844}
UNKNOWN = '{"model_type": "made_up", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512, "kv_magic": 3}'

Scheme = Literal["light", "dark"]
Act = Callable[[Page], None]


def paste_unknown(page: Page) -> None:
    """Somebody's own config, of an architecture that nobody knows, in the model box."""
    box = page.locator(".st-key-model input")
    box.click()
    box.fill(UNKNOWN)
    page.keyboard.press("Enter")
    page.wait_for_timeout(800)


def try_example(page: Page) -> None:
    """The example log of the Explain page."""
    page.locator(".st-key-explain_example button").click()
    page.get_by_text("Printed and worked out").wait_for(timeout=90_000)


#: name: (query with the page where it is not the first, width, colour scheme, what a person does there)
SCENES: dict[str, tuple[dict[str, object], ViewportSize, Scheme, Act | None]] = {
    "plan": ({}, DESKTOP, "light", None),
    "plan-dark": ({"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "requests": 8}, DESKTOP, "dark", None),
    "plan-zh-CN": ({"lang": "zh-CN"}, DESKTOP, "light", None),
    "plan-zh-TW": ({"lang": "zh-TW"}, DESKTOP, "light", None),
    "plan-phone": ({"model": "google/gemma-3-27b-it", "tokens": 131072, "gpu": "h100"}, PHONE, "light", None),
    "hybrid": ({"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "tokens": 131072, "gpu": "h200"}, DESKTOP, "light", None),
    "sliding": ({"model": "google/gemma-3-27b-it", "tokens": 131072, "kv": "fp8", "gpu": "h100"}, DESKTOP, "light", None),
    "mla": ({"model": "deepseek-ai/DeepSeek-V3", "cache": "static"}, DESKTOP, "light", None),
    "encoder-decoder": ({"model": "openai/whisper-large-v3", "tokens": 448, "gpu": "4090"}, DESKTOP, "light", None),
    "engine": (
        {"model": "google/gemma-3-27b-it", "engine": "vllm", "tokens": 131072, "requests": 4, "vllm.tensor_parallel_size": 2,
         "prefix": 4096, "gpu": "h100"}, DESKTOP, "light", None,
    ),
    "engine-dark": (
        {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "engine": "vllm", "requests": 8, "gpu": "h200"}, DESKTOP, "dark", None,
    ),
    "engine-phone": ({"model": "openai/gpt-oss-120b", "engine": "llama.cpp", "requests": 4, "gpu": "h100"}, PHONE, "light", None),
    "engine-refused": ({"model": "openai/whisper-large-v3", "engine": "sglang", "tokens": 448}, DESKTOP, "light", None),
    "error": ({"tokens": "many", "gpu": "banana"}, DESKTOP, "light", paste_unknown),
    "deep": ({"model": "meta-llama/Llama-3.1-405B", "requests": 4}, DESKTOP, "light", None),
}  # fmt: skip

#: The Capacity page: what it is asked, by name.
ASKED: dict[str, tuple[dict[str, object], ViewportSize, Scheme]] = {
    "capacity": ({"model": "meta-llama/Llama-3.3-70B-Instruct", "gpus": 4, "load": 64, "price": 2.5}, DESKTOP, "light"),
    "capacity-short": ({"model": "deepseek-ai/DeepSeek-V3", "node": "8xh100"}, DESKTOP, "dark"),
    "capacity-phone": ({"server": "sglang"}, PHONE, "light"),
    "capacity-vary": (
        {"vary": "log-normal", "prompt": 800, "prompt_p95": 4000, "prompt_max": 16000, "output": 300, "output_p95": 1200,
         "load": 250, "given.weights": 15.02}, DESKTOP, "light",
    ),
    "capacity-refused": (
        {"model": "Qwen/Qwen2.5-72B", "node": "a100", "gpus": 3, "vllm.tensor_parallel_size": 3}, DESKTOP, "light",
    ),
    "capacity-error": ({"node": "banana"}, PHONE, "light"),
    "capacity-l4": ({"node": "l4"}, PHONE, "dark"),
    "capacity-qwen": ({"model": "Qwen/Qwen2.5-72B", "node": "a100", "gpus": 4}, DESKTOP, "dark"),
    "capacity-gpt-oss": ({"model": "openai/gpt-oss-120b", "load": 4}, PHONE, "light"),
    "capacity-deepseek": ({"model": "deepseek-ai/DeepSeek-V3", "node": "8xh200", "price": 3}, DESKTOP, "light"),
    "capacity-deepseek-pp2": (
        {"model": "deepseek-ai/DeepSeek-V3", "gpus": 16, "vllm.pipeline_parallel_size": 2, "load": 64}, DESKTOP, "dark",
    ),
    "capacity-gemma": (
        {"model": "google/gemma-3-27b-it", "node": "4090", "server": "llama.cpp", "gguf": "Q4_K_M", "load": 2}, DESKTOP, "light",
    ),
    "capacity-qwen-next": ({"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "gpus": 2, "load": 2}, DESKTOP, "light"),
    "capacity-scout": (
        {"model": "meta-llama/Llama-4-Scout-17B-16E-Instruct", "gpus": 4, "vllm.max_model_len": 131072}, PHONE, "dark",
    ),
    "capacity-falcon": ({"model": "tiiuae/Falcon-H1-7B-Instruct", "node": "a10g", "load": 2}, DESKTOP, "light"),
    "capacity-whisper": (
        {"model": "openai/whisper-large-v3", "node": "t4", "prompt": 4, "output": 400, "load": 8}, DESKTOP, "light",
    ),
}  # fmt: skip
SCENES.update({name: ({"page": "capacity", **query}, size, scheme, None) for name, (query, size, scheme) in ASKED.items()})

_ROW = {"page": "compare", "dtypes": ["auto", "fp8"], "order": "requests", "row": 1}
#: The other pages, each wide and light, and dark or on a phone.
SCENES.update({
    "compare": ({"page": "compare"}, DESKTOP, "light", None), "compare-row": (_ROW, DESKTOP, "dark", None),
    "compare-phone": ({"page": "compare", "row": 0}, PHONE, "dark", None),
    "explain": ({"page": "explain"}, DESKTOP, "light", try_example),
    "explain-phone": ({"page": "explain"}, PHONE, "dark", try_example),
    "validate": ({"page": "validate", "validate_source": "results"}, DESKTOP, "light", None),
    "validate-phone": ({"page": "validate"}, PHONE, "dark", None),
    "learn": ({"page": "learn"}, DESKTOP, "light", None), "learn-phone": ({"page": "learn"}, PHONE, "dark", None),
    "method": ({"page": "method"}, DESKTOP, "light", None), "method-phone": ({"page": "method"}, PHONE, "dark", None),
})  # fmt: skip
#: How much of a long page is shown, in pixels; the whole of any other.
TALLEST = {"learn": 2_400, "learn-phone": 3_000, "method": 2_400, "method-phone": 3_000}

#: Streamlit scrolls inside this element, not in the window.
HEIGHT = "document.querySelector('[data-testid=\"stMain\"]').scrollHeight"
#: What the documents show; the others are for looking at.
SHOWN = (
    "plan", "plan-dark", "plan-zh-CN", "plan-zh-TW", "plan-phone", "hybrid", "engine", "engine-phone", "capacity", "compare-row",
    "explain", "learn", "error",
)  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving() -> Iterator[str]:
    """The page's address while it runs."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.address=127.0.0.1"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(10)


def settle(page: Page) -> None:
    """Wait until the page has its answer or says why not, and its figures are drawn."""
    page.locator('[data-testid="stMain"] h1').first.wait_for(timeout=90_000)
    page.wait_for_timeout(1_000)
    page.wait_for_function("!document.querySelector('[data-testid=\"stStatusWidget\"]')", timeout=90_000)
    heights = [-1]
    while len(set(heights[-4:])) > 1 or len(heights) < 4:
        page.wait_for_timeout(500)
        heights.append(int(page.evaluate(HEIGHT)))


def take(page: Page, path: Path, width: int, tallest: int = 8_000) -> None:
    """A picture of the whole page, the window being made as high as the content."""
    height = page.evaluate(HEIGHT)
    page.set_viewport_size({"width": width, "height": min(int(height) + 60, tallest)})
    page.wait_for_timeout(1_200)
    page.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", help=f"any of {', '.join(SCENES)}; without a name, {', '.join(SHOWN)}")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screenshots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with serving() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name in options.scenes or SHOWN:
            query, size, scheme, act = SCENES[name]
            context = browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=1.5 if size is PHONE else 1)
            page = context.new_page()
            link = dict(query)
            page.goto(f"{address}/{link.pop('page', '')}?{urlencode(link, doseq=True)}")
            settle(page)
            if act is not None:
                act(page)
                settle(page)
            take(page, options.out / f"{name}.png", size["width"], TALLEST.get(name, 8_000))
            context.close()
            print(name)
        browser.close()


if __name__ == "__main__":
    main()
