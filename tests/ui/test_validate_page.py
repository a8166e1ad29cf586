"""The Validate page: what may be asked for, a report drawn with its own verdict, and what is said where nothing can be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ui import validate_runs
from ui.i18n import t

ROOT = Path(__file__).resolve().parents[2]


def report(**changes: Any) -> str:
    """A report of one point: 2 layers x 2 x 4 heads x 8 x 4 B x 64 tokens = 32,768 bytes, as a tiny model in float32 keeps."""
    predicted = {
        "tensor_bytes": 32768, "storage_bytes": 32768, "storage_known": True, "bookkeeping_bytes": 0,
        "allocated_low_bytes": 32768, "allocated_high_bytes": 32768, "reserved_bytes": 2097152, "prefill_peak_bytes": 65536,
        "decode_peak_bytes": 65536, "peak_known": True, "whole_bytes": 32768,
    }  # fmt: skip
    measured = {
        "tensor_bytes": 32768, "storage_bytes": 32768, "before_bytes": 1000, "allocated_bytes": 32768, "requested_bytes": None,
        "prefill_peak_bytes": 65536, "decode_peak_bytes": 65536, "reserved_bytes": None, "driver_bytes": None,
        "resident_bytes": None,
    }  # fmt: skip
    layer = {
        "first": 0, "count": 2, "kind": "full", "cls": "DynamicLayer", "predicted_bytes": 16384, "measured_bytes": 16384,
        "predicted_storage_bytes": 16384, "measured_storage_bytes": 16384,
    }  # fmt: skip
    point = {
        "batch": 1, "tokens": 64, "prompt_tokens": 56, "new_tokens": 8, "encoder_tokens": 0, "positions": 64,
        "predicted": predicted, "measured": {**measured, **changes}, "layers": [layer], "seconds": 0.1,
    }  # fmt: skip
    speed = {
        "batch": 1, "quantized": [], "notes": [], "first_token": [{"tokens": 64, "seconds": 0.01}],
        "later_token": [{"tokens": 64, "seconds": 0.002}],
        "curve": [{"prompt_tokens": 16, "new_tokens": n, "cached_s": 1.0, "uncached_s": s, "same": True, "first_difference": None,
                   "logit_gap": None} for n, s in ((16, 1.5), (256, 6.0))],
    }  # fmt: skip
    return json.dumps({
        "schema_version": 1, "created": "2026-11-30T08:00:00+00:00",
        "model": {"name": "tiny", "model_type": "llama", "source": "test", "commit": None, "layers": 2, "full_layers": 2,
                  "kinds": {"full": 2}, "parameters": 1, "parameter_bytes": 4, "predicted_parameter_bytes": 4},
        "run": {"cache": "dynamic", "cache_config": {}, "dtype": "float32", "weights": "random", "attention": "sdpa"},
        "device": {"kind": "cpu", "name": "a processor", "memory_bytes": None, "driver": None, "threads": 1, "allocator": ""},
        "versions": {"torch": "2.13"}, "points": [point], "frontier": None, "speed": speed, "notes": [], "partial": False,
    })  # fmt: skip


@pytest.fixture
def validate() -> AppTest:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    return page.switch_page("ui/validate.py").run()


def uploaded(page: AppTest, text: str) -> AppTest:
    page = page.segmented_control(key="validate_source").set_value("upload").run()
    return page.file_uploader(key="validate_upload").set_value(("report.json", text.encode(), "application/json")).run()


def said(page: AppTest) -> str:
    kinds = ("markdown", "caption", "success", "error", "info", "warning")
    return "\n".join(str(element.value) for kind in kinds for element in getattr(page, kind)).replace("\\", "")


def test_a_report_is_drawn_with_its_verdict(validate: AppTest) -> None:
    """Equal bytes agree; six times as fast at 256 tokens, where five holds."""
    page = uploaded(validate, report())
    assert not page.exception
    assert [box.value for box in page.success] == [t("validate.agrees", points=t("validate.points.one"))]
    assert "5 times holds from 256 new tokens on (6.0 times)" in said(page)
    assert t("validate.speed.same", same=2, count=2) in said(page)
    assert set(page.dataframe[0].value[t("validate.checks.verdict")]) >= {t("validate.checks.agrees")}


def test_a_byte_too_many_is_named(validate: AppTest) -> None:
    """The verdict is worked out from the figures: one byte more in the tensors differs."""
    page = uploaded(validate, report(tensor_bytes=32769))
    assert not page.exception
    assert len(page.error) == 1
    assert "tensor bytes: predicted 32,768, measured 32,769" in said(page)


WRONG = report().replace('"seconds": 0.1', '"seconds": -1')


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"schema_version": 99}', WRONG])
def test_what_is_no_report_is_one_message(validate: AppTest, text: str) -> None:
    page = uploaded(validate, text)
    assert not page.exception
    assert len(page.error) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("validate_batch", "x"), ("validate_batch", "99"), ("validate_tokens", "1,2,3,4,5"), ("validate_tokens", "0")],
)
def test_a_grid_that_cannot_be_is_said(validate: AppTest, key: str, value: str) -> None:
    page = validate.text_input(key=key).set_value(value).run()
    assert not page.exception
    assert len(page.error) == 1
    assert next(button for button in page.button if button.label == t("validate.start")).disabled


def test_a_model_too_large_for_the_server_is_said(validate: AppTest) -> None:
    page = validate.selectbox(key="validate_model").set_value("Qwen/Qwen2.5-72B").run()
    page = page.number_input(key="validate_layers").set_value(80).run()
    assert not page.exception
    assert "choose fewer" in said(page)


@pytest.mark.parametrize(("reason", "key"), [("off", "validate.off"), ("torch", "validate.no_torch")])
def test_where_nothing_can_be_run_the_rest_stands(monkeypatch: pytest.MonkeyPatch, reason: str, key: str) -> None:
    monkeypatch.setattr(validate_runs, "off_because", lambda: reason)
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run().switch_page("ui/validate.py").run()
    assert not page.exception
    assert t(key) in [box.value for box in page.info]


def opened(**link: str) -> AppTest:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in link.items():
        page.query_params[name] = value
    return page.switch_page("ui/validate.py").run()


def shell(page: AppTest) -> str:
    assert not page.exception
    return next(str(code.value) for code in page.code if str(code.value).startswith("python -m validation"))


def test_a_link_opens_what_was_asked() -> None:
    page = opened(
        validate_model="google/gemma-3-1b-it", validate_layers="7", validate_batch="3", validate_tokens="32, 48",
        validate_cache="static", validate_speed="true",
    )  # fmt: skip
    assert shell(page) == (
        "python -m validation google/gemma-3-1b-it --grid batch=3 tokens=32,48 --layers 7 --cache static --dtype float32 --speed"
    )
    assert not page.warning


def test_another_model_has_its_own_fewest_layers() -> None:
    """Gemma 3 has five sliding layers before a full one, so six show every kind; the link's number was of the other model."""
    page = opened(validate_layers="3")
    assert "--layers 3" in shell(page)
    page = page.selectbox(key="validate_model").set_value("google/gemma-3-1b-it").run()
    assert "--layers 6" in shell(page)
    assert "validate_layers" not in page.query_params


@pytest.mark.parametrize(
    "link", [{"validate_source": "nowhere"}, {"validate_layers": "999"}, {"validate_layers": "-1"}, {"validate_cache": "x"}]
)
def test_what_a_link_says_wrongly_is_reported(link: dict[str, str]) -> None:
    page = opened(**link)
    assert "--layers 2 " in shell(page)
    (name, value), = link.items()
    assert any(f"{name} = {value}" in box.value.replace("\\", "") for box in page.warning)


def test_the_results_that_come_with_the_planner_are_reports_that_agree() -> None:
    """Each is read and drawn; that none is of a GPU is said as long as it is so."""
    page = opened(validate_source="results")
    assert not page.exception
    assert not page.error
    reports = {path.stem: json.loads(path.read_text()) for path in (ROOT / "validation" / "results").glob("*.json")}
    assert page.selectbox(key="validate_result").options == sorted(reports)
    assert len(page.success) == 1
    gpu = any(report["device"]["kind"] == "cuda" for report in reports.values())
    assert (t("validate.results.cpu_only") in [box.value for box in page.info]) is not gpu
