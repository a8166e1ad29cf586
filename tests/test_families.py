"""The table of families: each row proves itself, and the table keeps its own rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import model_configs
from model_configs.families import Family, table
from model_configs.words import class_defaults
from planner import architecture_bytes

GOLDEN = yaml.load(
    (Path(__file__).parent / "golden/transformers.yaml").read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)
MEASURED = {name.split("/")[1] for name in GOLDEN["tiny"]} | {e["config"]["model_type"] for e in GOLDEN["real"].values()}
WITH_PROOF = [family for family in table().families if "golden" not in family.proof]


@pytest.mark.parametrize("family", WITH_PROOF, ids=lambda family: family.name)
def test_known_answer(family: Family) -> None:
    """The row's few config words give the bytes that its source states."""
    proof = family.proof
    assert set(proof) >= {"config", "tokens", "dtype", "bytes", "source"}, family.name
    model = model_configs.read({**proof["config"], "torch_dtype": proof["dtype"]})
    cache = architecture_bytes(model, proof["tokens"], encoder_tokens=proof.get("encoder_tokens", 0))
    assert cache.total_bytes == proof["bytes"]


def test_every_other_row_was_measured() -> None:
    """A row whose proof is a golden entry names a model type that the golden file has."""
    named = {family.name: family.proof["golden"] for family in table().families if "golden" in family.proof}
    assert {name: golden for name, golden in named.items() if golden not in MEASURED} == {}


def test_composites_lead_to_a_row() -> None:
    """The decoder type of each wrapper is a known family, and its class's defaults are known."""
    decoders = {composite.decoder for composite in table().composites.values()}
    assert decoders <= set(table().by_type)
    assert {name for name in decoders if name not in class_defaults()} == {"step3_text"}


def test_spellings_lead_to_a_row() -> None:
    assert {target for target in table().spellings.values() if target not in {*table().by_type, *table().composites}} == set()
