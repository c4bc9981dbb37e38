"""The table of frames is well formed, and what it says of torch is in torch."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import msgspec
import pytest

from whyhang.analyzer.stacks import Layer, Scope, WaitKind, WaitRule
from whyhang.analyzer.stacks.rule_match import FrameIndex, symbol
from whyhang.signatures.frames import TABLE, rules

K = WaitKind


def test_rules_in_common_tables_are_rules_of_their_own() -> None:
    """Rows share the fields above them; functions of classes are named with their class."""
    text = """
        [[frame]]
        kind = "cuda-sync"
        native = true
        classes = ["a::B", "a::C"]
        verified = "run"
        rows = [
          { functions = ["x", "y"], op = "z" },
          { functions = ["v"], layer = "mechanism", scope = "maybe" },
        ]
    """
    first, second = rules(text)

    assert first == WaitRule(
        kind=K.CUDA_SYNC, functions=("a::B::x", "a::B::y", "a::C::x", "a::C::y"),
        native=True, op="z", verified="run",
    )  # fmt: skip
    assert second == WaitRule(
        kind=K.CUDA_SYNC, functions=("a::B::v", "a::C::v"),
        native=True, layer=Layer.MECHANISM, scope=Scope.MAYBE, verified="run",
    )  # fmt: skip


@pytest.mark.parametrize(
    "line", ['kind = "cudasync"', 'kind = "gil"\nlayer = "none"', 'kind = "gil"\nfile_ = "x.py"']
)
def test_a_word_that_no_rule_has_is_a_mistake(line: str) -> None:
    """A misspelt field or value does not become a rule that silently never speaks."""
    with pytest.raises((KeyError, ValueError, TypeError)):
        list(rules(f'[[frame]]\n{line}\nfunctions = ["f"]\nverified = "run"\n'))


def test_rules_hold_what_their_types_say() -> None:
    """A number where a text belongs is found here, not in somebody's diagnosis."""
    assert msgspec.convert(msgspec.to_builtins(TABLE), tuple[WaitRule, ...]) == TABLE


def test_every_rule_says_how_it_is_known() -> None:
    """A rule without a source cannot be trusted or repaired."""
    assert not [rule for rule in TABLE if not rule.verified]


def test_no_frame_has_two_purposes_in_one_file() -> None:
    """Two rules for one function of one file would make the answer depend on their order."""
    seen: dict[tuple[object, ...], object] = {}
    for rule in TABLE:
        for function in rule.functions:
            key = (function, rule.file, rule.layer, rule.native)
            assert key not in seen, key
            seen[key] = rule


def test_native_rules_are_written_as_symbols_are_reduced() -> None:
    """A rule that is written otherwise than tools print it would never match."""
    for rule in TABLE:
        for function in rule.functions if rule.native else ():
            bare = function.removesuffix("*")
            assert "(" not in bare
            assert symbol(bare), function


def test_operations_are_torchs_or_mpis_lower_case_names() -> None:
    """Operations meet those of the flight recorder and of logs, which are lower case."""
    for rule in TABLE:
        assert rule.op is None or rule.op == rule.op.lower()


def test_phrases_of_calls_follow_wait_in() -> None:
    """Reports say "ranks 0-2 wait in …": the phrase of a call begins with "in"."""
    for rule in TABLE:
        if rule.kind in {K.COLLECTIVE, K.P2P, K.MPI} and rule.says is not None:
            assert rule.says.startswith("in "), rule.says


def test_strong_waits_have_a_file_or_a_long_symbol() -> None:
    """A rule that claims a wait on other ranks for a short name in any file would accuse anyone."""
    ranks = {K.COLLECTIVE, K.P2P, K.INIT, K.GROUP, K.STORE, K.MPI, K.NCCL_INIT}
    for rule in TABLE:
        if rule.kind in ranks and rule.layer is Layer.PURPOSE and not rule.file:
            assert rule.native
            names = {function.removesuffix("*") for function in rule.functions}
            assert all(len(name) >= 5 for name in names - {"MPI_"})  # the standard's own prefix


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_functions_stand_in_the_installed_torch() -> None:
    """Of the rules that are said to have run on this torch, the functions are in its sources."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent.parent
    version = re.search(r"(\d+\.\d+)", (root / "torch" / "version.py").read_text())
    assert version is not None
    for rule in TABLE:
        path = root / rule.file
        if rule.verified.startswith(f"run {version[1]};") and rule.file.startswith("torch/"):
            text = path.read_text()
            assert any(f"def {function}(" in text for function in rule.functions), rule


def test_index_finds_what_the_table_says() -> None:
    """Every rule is found by a frame made after it."""
    from whyhang.analyzer.facts import Frame

    index = FrameIndex(TABLE)
    for rule in TABLE:
        function = rule.functions[0]
        name = "OwnPdb.any" if function == "*Pdb.*" else function.removesuffix("*") or "anything"
        file = rule.file + "x.py" if rule.file.endswith("/") else rule.file or "x.py"
        file = file if rule.native else f"/lib/python3.11/site-packages/{file}"
        frame = Frame(function=name, file=file, line=1, native=rule.native)
        assert rule in index.find(frame), rule
