"""The report as JUnit XML, the form that CI servers read."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from producers.contract_kit.report import CaseVerdict, ContractReport, Result

SUITE = "memory-plugin-contract"
#: Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: ContractReport) -> bytes:
    """Return the whole report as one JUnit document in UTF-8."""
    counts = report.counts()
    broken = report.unusable or report.stopped or ("interrupted" if report.interrupted else None)
    totals = {
        "name": SUITE,
        "tests": str(len(report.results) + bool(broken)),
        "failures": str(counts[CaseVerdict.FAILED]),
        "errors": str(int(bool(broken))),
        "skipped": str(counts[CaseVerdict.SKIPPED]),
        "time": f"{report.seconds:.3f}",
    }
    root = Element("testsuites", totals)
    suite = SubElement(root, "testsuite", totals | {"timestamp": report.started_at.isoformat(timespec="seconds")})
    properties = SubElement(suite, "properties")
    for name, value in (("url", report.url), ("version", report.version), ("claimed", ", ".join(report.claimed))):
        SubElement(properties, "property", name=name, value=_escape_xml(value or ""))
    for result in report.results:
        _add_case(suite, result)
    if broken:
        run = SubElement(suite, "testcase", classname=SUITE, name="the run", time="0")
        SubElement(run, "error", message=_escape_xml(broken)).text = _escape_xml(broken)
    indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode").encode() + b"\n"


def _add_case(suite: Element, result: Result) -> None:
    element = SubElement(
        suite,
        "testcase",
        classname=f"{SUITE}.{result.case.group}",
        name=result.case.id,
        time=f"{result.seconds:.3f}",
    )
    if result.verdict is CaseVerdict.SKIPPED:
        SubElement(element, "skipped", message=_escape_xml(result.why_skipped))
    elif result.verdict is CaseVerdict.FAILED:
        first = result.findings[0]
        message = f"expected {first.expected}, saw {first.saw}"
        lines = [f"contract {result.case.clause}: {result.case.promise}"]
        for one in result.findings:
            lines += ["", f"did       {one.did}", f"expected  {one.expected}", f"saw       {one.saw}"]
        lines += ["", f"to mend   {result.case.mend}"]
        SubElement(element, "failure", message=_escape_xml(message), type="deviation").text = _escape_xml(
            "\n".join(lines)
        )


def _escape_xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
