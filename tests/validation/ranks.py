"""Measures several models in one group of processes, for test_parallel.py: torchrun ranks.py OUT CONFIG[:CACHE]...

A line of JSON a point: whose config, which cache, what was predicted for a rank, and what each rank holds.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from planner.engines.transformers_ranks import on_rank
from validation import measure_parallel
from validation.measure import subject
from validation.request import Request


def main(out: str, wanted: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    for word in wanted:
        path, _, cache = word.partition(":")
        request = Request(path, device="cpu", dtype="float32", settings={"cache_implementation": cache or "dynamic"})
        found = subject(request)
        built = measure_parallel.divided(found, ranks)
        for case in ((1, 10, 3, 0), (2, 33, 4, 0)):
            point = measure_parallel.measure_point(built, found, on_rank(found.model, ranks), case)
            if dist.get_rank() == 0:
                with Path(out).open("a", encoding="utf-8") as lines:
                    print(json.dumps({"config": Path(path).stem, "cache": cache, **dataclasses.asdict(point)}), file=lines)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
