"""Findings as SARIF, for code scanning, editors and CI.

Format: SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
"""

import hashlib
from typing import Any
from urllib.parse import quote

import msgspec

from whyhang.analyzer.report import Finding, Report

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> bytes:
    """Write one run with a result for each finding, in the order of the report."""
    rules = {finding.signature: _rule(finding) for finding in reversed(report.findings)}
    numbers = {signature: number for number, signature in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "whyhang",
                **({"version": report.tool_version} if report.tool_version else {}),
                "rules": list(rules.values()),
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(finding, numbers) for finding in report.findings],
        "properties": {
            "verdict": report.verdict,
            "headline": report.headline,
            "gaps": list(report.gaps),
        },
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _rule(finding: Finding) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": finding.signature,
        "shortDescription": {"text": finding.category},
        "properties": {"tags": [finding.category]},
    }
    if finding.runbook_url and finding.runbook_url.startswith(("https://", "http://")):
        rule["helpUri"] = quote(finding.runbook_url, safe=_URI)
    return rule


def _result(finding: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    healthy, place = finding.category == "healthy", finding.location
    if finding.kind == "noise" or finding.caused_by is not None:
        level = "note"
    else:
        level = "error" if finding.confidence >= 0.5 else "warning"
    result: dict[str, Any] = {
        "ruleId": finding.signature,
        "ruleIndex": numbers[finding.signature],
        "kind": "pass" if healthy else "fail",
        "level": "none" if healthy else level,
        "message": {"text": _message(finding)},
        "partialFingerprints": {"whyhang/v1": _fingerprint(finding)},
        "relatedLocations": [
            {
                "id": number,
                "physicalLocation": _physical(piece.source, piece.line),
                "message": {"text": piece.quote or piece.source},
            }
            for number, piece in enumerate(finding.evidence)
        ],
        "properties": {
            "confidence": finding.confidence,
            "kind": finding.kind,
            "causedBy": finding.caused_by,
            "culpritRanks": finding.culprit_ranks,
            "affectedRanks": finding.affected_ranks,
        },
    }
    if place is not None:
        location: dict[str, Any] = {"physicalLocation": _physical(place.file, place.line)}
        if place.function:
            location["logicalLocations"] = [{"name": place.function, "kind": "function"}]
        result["locations"] = [location]
    return result


def _message(finding: Finding) -> str:
    parts = [f"{finding.title}.", finding.explanation.removeprefix(f"{finding.title}.").strip()]
    if finding.remedies and finding.caused_by is None:
        parts.append("Do now: " + " ".join(finding.remedies))
    return "\n\n".join(part for part in parts if part)


_URI = "/:?#[]@!$&'()*+,;=%~"


def _physical(file: str, line: int | None) -> dict[str, Any]:
    """Point at a file; a name is percent-encoded, so that no text of it is read as a URI."""
    path = quote(file.encode("utf-8", "surrogatepass"), safe="/~")
    uri = f"file://{path}" if path.startswith("/") else path
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None and line > 0:
        place["region"] = {"startLine": line}
    return place


def _fingerprint(finding: Finding) -> str:
    """Tell the same trouble of two runs by what it is and where it stands in the code."""
    place = finding.location
    what = (finding.signature, place.file if place else "", place.function if place else "")
    return hashlib.sha256("\0".join(map(str, what)).encode("utf-8", "replace")).hexdigest()[:32]
