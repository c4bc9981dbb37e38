"""Texts of signatures, with the words of a case and without one."""

from __future__ import annotations

import re

from whyhang.analyzer.commands.explain import filled
from whyhang.analyzer.wording.fill_texts import fill_advice
from whyhang.signatures import load

PLACEHOLDERS = {"PID", "PATH", "PORT", "HOST"}


def test_no_field_of_a_signature_is_left_in_what_is_explained() -> None:
    """Verbs agree with one rank, and what only a case can fill in is left out or a placeholder."""
    for signature in load():
        for text in (*signature.remedies, *signature.next_steps):
            fields = {name.upper() for name in re.findall(r"\{(\w+)\}", text)}
            left = fields & {*re.findall(r"\b[A-Z]{2,}\b", filled(text))} - PLACEHOLDERS
            assert not left & {"IS", "ADVICE", "ABSENT", "HERE", "THERE", "LEAVE", "USUAL", "AT"}


def test_advice_that_the_evidence_does_not_fill_is_left_out() -> None:
    assert fill_advice("{advice}", {}) == ""
    assert fill_advice("{look}. {advice}", {"look": "Look at f (a.py:3)"}) == "Look at f (a.py:3)."
    assert fill_advice("Ask: why?", {}) == "Ask: why?"
