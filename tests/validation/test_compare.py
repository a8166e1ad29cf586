"""Reports: tolerances and verdicts, the first differing layer, JSON there and back, and what a hostile upload gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.errors import InputError
from validation import compare
from validation.compare import Report, read_json, to_json
from validation.compare_parts import (
    Attempt,
    Check,
    DeviceFacts,
    Frontier,
    LayerRun,
    Measured,
    ModelFacts,
    Point,
    Predicted,
    QuantizedBytes,
    RunFacts,
    Speed,
    SpeedPoint,
    Timing,
)
from validation.report import text
from validation.report_html import html


def point(tokens: int = 100, measured: int = 6400, **changed: Any) -> Point:
    """Two layers of 32 bytes a token."""
    predicted = Predicted(
        tensor_bytes=64 * tokens, storage_bytes=64 * tokens, storage_known=True, bookkeeping_bytes=512,
        allocated_low_bytes=7168, allocated_high_bytes=7168, reserved_bytes=2097152, prefill_peak_bytes=10_000,
        decode_peak_bytes=8_000, peak_known=True, whole_bytes=64 * tokens,
    )  # fmt: skip
    figures = Measured(
        tensor_bytes=measured, storage_bytes=measured, before_bytes=90_000, allocated_bytes=7168, requested_bytes=None,
        prefill_peak_bytes=10_000, decode_peak_bytes=8_000, reserved_bytes=None, driver_bytes=None, resident_bytes=10**8,
    )  # fmt: skip
    layers = (LayerRun(0, 1, "full", "DynamicLayer", 3200, 3200, 3200, 3200),
              LayerRun(1, 1, "full", "DynamicLayer", 3200, measured - 3200, 3200, measured - 3200))  # fmt: skip
    return Point(1, tokens, tokens - 7, 8, 0, tokens, replace(predicted, **changed), figures, layers, 0.5)


def report(*points: Point, device: str = "cuda", **more: Any) -> Report:
    return Report(
        schema_version=1, created="2026-01-02T03:04:05+00:00",
        model=ModelFacts("tiny <model>", "llama", "dict:tiny", None, 2, 2, {"full": 2}, 10, 20, None),
        run=RunFacts("dynamic", {}, "bfloat16", "random", "sdpa"),
        device=DeviceFacts(device, "a device", 10**10, "580.1", 0, "default"),  # type: ignore[arg-type]
        versions={"torch": "2.13.0"}, points=points, **more,
    )  # fmt: skip


FRONTIER = Frontier("tokens", 1, 10**9, "a limit", 512, 40, 1000, 950, True, (Attempt(9, True, 5, 0.1, None),))
SPEED = Speed(
    1,
    (SpeedPoint(16, 64, 1.0, 3.0, True, None, None), SpeedPoint(16, 256, 2.0, 14.0, False, 26, 0.001),
     SpeedPoint(16, 1024, 8.0, None, None, None, None)),
    (Timing(16, 0.1),), (Timing(16, 0.01),), (QuantizedBytes("fp8", 8, 64, 100, 100, 200),), (),
)  # fmt: skip


def test_equal_bytes_agree_and_one_byte_more_does_not() -> None:
    assert report(point()).agrees
    other = report(point(measured=6401))
    assert not other.agrees
    assert any("layer 1" in line and "first that differs" in line for line in other.differences)
    assert other.differences[0].startswith("batch 1, 100 tokens: tensor bytes: predicted 6,400, measured 6,401")


@pytest.mark.parametrize(("measured", "agrees"), [(7168, True), (7239, True), (7240, False), (7097, True), (7096, False)])
def test_allocated_bytes_lie_within_one_percent(measured: int, agrees: bool) -> None:
    """7,168 x 1.01 = 7,239.68 and x 0.99 = 7,096.32."""
    found = point()
    assert report(replace(found, measured=replace(found.measured, allocated_bytes=measured))).agrees is agrees


def test_a_range_of_blocks_is_met_anywhere_in_it() -> None:
    assert Check("allocated bytes", 1000, 2000, 1500, 0.01).agrees
    assert Check("allocated bytes", 1000, 2000, 1500, 0.01).error == 0
    assert Check("allocated bytes", 1000, 2000, 2200, 0.01).error == pytest.approx(0.1)


def test_a_peak_is_decided_with_the_weights_in_it_and_on_cuda_alone() -> None:
    """Predicted 100,000 with weights: 5% is 5,000 bytes."""
    found = point()
    near = replace(found, measured=replace(found.measured, prefill_peak_bytes=14_900))
    far = replace(found, measured=replace(found.measured, prefill_peak_bytes=15_100))
    assert report(near).agrees
    assert not report(far).agrees
    assert report(far, device="cpu").agrees
    assert report(replace(far, predicted=replace(far.predicted, peak_known=False))).agrees


def test_nothing_measured_is_no_agreement() -> None:
    assert not report().agrees


def test_the_frontier_has_a_tolerance_of_a_tenth_and_must_recover() -> None:
    assert report(frontier=FRONTIER).agrees
    assert report(frontier=replace(FRONTIER, measured=900)).agrees
    assert not report(frontier=replace(FRONTIER, measured=890)).agrees
    assert not report(frontier=replace(FRONTIER, recovered=False)).agrees
    assert "did not recover" in report(frontier=replace(FRONTIER, recovered=False)).differences[0]


def test_slope_and_intercept_are_those_of_the_points() -> None:
    """64 bytes a token through 100 and 200 tokens; 5 bytes more at each point is the intercept."""
    (line,) = report(point(100, 6405), point(200, 12805)).fits
    assert (line.predicted_slope, line.predicted_intercept) == (64, 0)
    assert (line.measured_slope, line.measured_intercept) == (64, 5)


def test_where_five_times_starts_to_hold_is_said_by_the_measured_lengths() -> None:
    assert SPEED.holds(5) == "5 times holds from 256 new tokens on (7.0 times); at 64 it is 3.0 times"
    assert SPEED.holds(8) == "8 times is not reached up to 256 new tokens (7.0 times there)"
    assert replace(SPEED, curve=SPEED.curve[2:]).holds(5) == "not yet measured"
    quantized = replace(SPEED.quantized[0], measured_bytes=101)
    assert not report(point(), speed=replace(SPEED, quantized=(quantized,))).agrees


def test_json_there_and_back() -> None:
    whole = report(point(), point(200, 12800), frontier=FRONTIER, speed=SPEED, notes=("a note",))
    again = read_json(to_json(whole))
    assert again == whole
    assert json.loads(to_json(whole))["verdict"]["tolerances"]["allocated bytes"] == 0.01


def test_a_verdict_in_a_file_is_not_believed() -> None:
    data = json.loads(to_json(report(point(measured=7000))))
    data["verdict"]["agrees"] = True
    assert not read_json(json.dumps(data)).agrees


def _broken(change: Any) -> str:
    data = json.loads(to_json(report(point())))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("[1]", "no validation report"),
        ('{"schema_version": 99}', "schema_version 99"),
        ('{"schema_version": 1}', "created"),
        ("x" * (compare.MAX_REPORT_BYTES + 1), "larger than 4 MiB"),
        (_broken(lambda d: d.update(extra=1)), "extra"),
        (_broken(lambda d: d["points"][0].update(extra=1)), "points.0.extra"),
        (_broken(lambda d: d["points"][0]["measured"].update(tensor_bytes=-1)), "points.0.measured.tensor_bytes"),
        (_broken(lambda d: d["points"][0]["measured"].update(tensor_bytes="5")), "points.0.measured.tensor_bytes"),
        (_broken(lambda d: d["points"][0]["measured"].update(tensor_bytes=10**30)), "points.0.measured.tensor_bytes"),
        (_broken(lambda d: d["points"][0].update(seconds=-1)), "points.0.seconds"),
        (_broken(lambda d: d["model"].update(name="x" * 5000)), "model.name"),
        (_broken(lambda d: d["device"].update(kind="abacus")), "device.kind"),
        (_broken(lambda d: d.update(notes=["x"] * 5000)), "notes"),
    ],
)
def test_an_upload_that_is_no_report_is_refused_with_its_field(hostile: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_json(hostile)


def test_text_and_page_say_the_same_verdict_and_escape_what_they_show() -> None:
    whole = report(point(), point(200, 12801), frontier=FRONTIER, speed=SPEED)
    shell, page = text(whole), html(whole)
    assert "DIFFERS" in shell
    assert "DIFFERS" in page
    assert "5 times holds from 256 new tokens" in shell
    assert "tiny &lt;model&gt;" in page
    assert "<model>" not in page
    assert "<script" not in page
    assert "http" not in page.replace("https", "http").replace('lang="en"', "")
    assert page.count("<html") == page.count("</html>") == 1
