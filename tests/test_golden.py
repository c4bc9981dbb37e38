"""Golden reports are of tests that exist."""

from __future__ import annotations

import golden
import pytest


def test_each_golden_report_is_of_a_test_that_exists(request: pytest.FixtureRequest) -> None:
    """What a renamed test left behind is compared with nothing: ``--golden-update`` drops it.

    Rows of a test with parameters are known where the module was collected in the same run.
    """
    for module in golden.modules():
        names = request.config.stash[golden.COLLECTED].get(module) or golden.tests_in(module)
        assert golden.stale(module, names) == [], module


def test_a_report_of_a_renamed_test_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is gone is one, too, where rows are known; else their test stands for them."""
    reports: golden.Reports = {"test_a": [], "test_b[x]": [], "test_b[y]": []}
    monkeypatch.setattr(golden, "kept", lambda _: reports)

    assert golden.stale("test_m", ["test_a", "test_b"]) == []
    assert golden.stale("test_m", ["test_a", "test_b[x]"]) == ["test_b[y]"]
    assert golden.stale("test_m", []) == list(reports)
