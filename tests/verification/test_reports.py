"""Reports in JUnit's XML form: where a command puts them, and which of them this run wrote."""

from __future__ import annotations

import pytest

from codeagent.verification.record import TestCount
from codeagent.verification.reports import count_reports, named_reports

REPORT = b'<?xml version="1.0"?><testsuite tests="2"><testcase name="a" time="0.1"/><testcase name="b"/></testsuite>'
FAILED = REPORT.replace(b'"b"/>', b'"b"><failure><![CDATA[<testcase><failure>]]></failure></testcase>')


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("pytest --junitxml=out/report.xml", ["out/report.xml"]),
        ("pytest --junit-xml ./report.xml -q", ["report.xml"]),
        ("phpunit --log-junit build/j.xml", ["build/j.xml"]),
        ("ctest --output-junit r.xml && gotestsum --junitfile s.xml", ["r.xml", "s.xml"]),
        ("pytest --junitxml=/tmp/report.xml", []),
        ("pytest -k junit", []),
        ("echo 'unclosed", []),
    ],
)
def test_a_command_names_its_reports(command: str, paths: list[str]) -> None:
    assert named_reports(command) == paths


def test_reports_are_counted_and_added_up() -> None:
    assert count_reports({}, {"a.xml": REPORT, "b.xml": FAILED}) == TestCount(
        "JUnit XML", 4, 1, 0, False, 4, summaries=2
    )


def test_a_report_of_an_earlier_run_does_not_count() -> None:
    assert count_reports({"a.xml": REPORT}, {"a.xml": REPORT}) is None
    assert count_reports({"a.xml": REPORT}, {"a.xml": FAILED}) == TestCount("JUnit XML", 2, 1, 0, False, 2)


def test_what_is_no_report_counts_nothing() -> None:
    assert count_reports({}, {"a.xml": b"\xff<html/>", "b.xml": b"<testsuite", "c.xml": b""}) is None
