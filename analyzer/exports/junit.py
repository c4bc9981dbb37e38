"""Findings as JUnit XML, for the test pages of CI systems.

A job that hangs or fails is a failed case, an inconclusive one a skipped case; so is each cause
that was found, and each effect. Format: the elements that Jenkins and GitLab read,
https://github.com/testmoapp/junitxml.
"""

import re
from xml.etree import ElementTree as ET

from whyhang.analyzer.report import Finding, Report
from whyhang.analyzer.reports.finding import places_of, sureness

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(report: Report) -> bytes:
    """Write one suite: a case for the verdict, then one for each finding."""
    cases = [_verdict(report), *(_case(number, f) for number, f in enumerate(report.findings))]
    numbers = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
    }
    top = ET.Element("testsuites", {"name": "whyhang", **numbers})
    suite = ET.SubElement(top, "testsuite", {"name": "whyhang", **numbers})
    suite.extend(cases)
    ET.indent(top)
    written: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _verdict(report: Report) -> ET.Element:
    case = ET.Element("testcase", classname="whyhang.verdict", name="the job makes progress")
    if report.verdict in {"hung", "failed"}:
        _mark(case, "failure", report.headline, kind=report.verdict)
    elif report.verdict == "inconclusive":
        _mark(case, "skipped", report.headline)
        ET.SubElement(case, "system-out").text = _text("\n".join(report.gaps))
    else:
        ET.SubElement(case, "system-out").text = _text(report.headline)
    return case


def _case(number: int, finding: Finding) -> ET.Element:
    name = _text(f"{number + 1}. {finding.title}")
    case = ET.Element("testcase", classname=f"whyhang.{_text(finding.category)}", name=name)
    place = finding.location
    if place is not None:
        case.set("file", _text(place.file))
        if place.line is not None:
            case.set("line", str(place.line))
    if finding.category == "healthy":
        ET.SubElement(case, "system-out").text = _text(_details(finding))
    elif finding.caused_by is not None:
        _mark(case, "skipped", f"an effect of {finding.caused_by + 1}")
    elif finding.kind == "noise":
        _mark(case, "skipped", "harmless")
    else:
        failure = _mark(case, "failure", finding.title, kind=finding.signature)
        failure.text = _text(_details(finding))
    return case


def _details(finding: Finding) -> str:
    parts = [sureness(finding.confidence), finding.explanation]
    parts += [f"{places_of([piece])}: {piece.quote}" for piece in finding.evidence]
    parts += [f"Do now: {remedy}" for remedy in finding.remedies]
    parts += [f"To confirm: {step}" for step in finding.next_steps]
    return "\n".join(part for part in parts if part)


def _mark(case: ET.Element, tag: str, message: str, kind: str = "") -> ET.Element:
    mark = ET.SubElement(case, tag, message=_text(message))
    if kind:
        mark.set("type", kind)
    return mark


def _text(text: str) -> str:
    """Spell what XML 1.0 has no way to hold."""
    return _NO_XML.sub(lambda match: ascii(match[0])[1:-1], text)
