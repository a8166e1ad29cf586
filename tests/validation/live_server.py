"""Starts a real llama.cpp server for the live tests: run by the environment of scripts/live_server.sh, not by the tests' own.

    python live_server.py MODEL.gguf '{"n_ctx": 4096, "n_parallel": 2}'

Writes its address to standard output when it serves; llama.cpp's log is on standard error. Ends when its standard input does.
"""

from __future__ import annotations

import json
import sys

import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.port = 0
    params.endpoint_metrics = params.endpoint_slots = True
    params.verbosity = 4  # the lines of the start that a server's log has
    params.warmup = False
    for name, value in json.loads(sys.argv[2]).items():
        if name in ("cache_type_k", "cache_type_v"):
            value = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{value.upper()}")
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
