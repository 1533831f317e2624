"""The page in a real Chromium, from file://, as a person opens it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from codeagent.ui.report import render_html
from tests.clocks import at_once, wait_until
from tests.ui.records import HOSTILE, answered_session, hostile_session, long_session

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1100,1400"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


def logged(page: webdriver.Chrome, kind: str) -> list[dict[str, str]]:
    """What the browser logged since it was last asked."""
    return list(page.get_log(kind))  # type: ignore[no-untyped-call]


Open = Callable[[str], webdriver.Chrome]


@pytest.fixture
def opened(chromium: webdriver.Chrome, tmp_path: Path) -> Open:
    def open_page(html: str) -> webdriver.Chrome:
        page = tmp_path / "report.html"
        page.write_text(html, encoding="utf-8")
        logged(chromium, "browser")
        logged(chromium, "performance")
        chromium.get(page.as_uri())
        return chromium

    return open_page


def rows(page: webdriver.Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, "#list .row")


def requested(page: webdriver.Chrome) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in logged(page, "performance")]
    return {one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"}


def test_a_citation_opens_the_lines_that_the_model_saw(opened: Open) -> None:
    page = opened(render_html(answered_session()))
    lines = page.find_element(By.CSS_SELECTOR, "#cite-1-0 pre")
    assert not lines.is_displayed()
    page.find_element(By.CSS_SELECTOR, "a.cite").click()
    wait_until(lines.is_displayed)
    assert lines.text == "    12      if (cached == null) {\n    13          return null;"


def test_the_timeline_filters_searches_and_expands(opened: Open) -> None:
    page = opened(render_html(answered_session()))
    assert len(rows(page)) == 12
    page.find_element(By.CSS_SELECTOR, "[data-filter=command]").click()
    rows(page)[1].find_element(By.TAG_NAME, "summary").click()
    wait_until(lambda: bool(rows(page)[1].find_elements(By.TAG_NAME, "pre")))
    labels = [label.text for label in rows(page)[1].find_elements(By.TAG_NAME, "h4")]
    assert labels == ["arguments", "a person was asked", "approval", "output, as the model saw it"]
    assert [row.find_element(By.CLASS_NAME, "title").text for row in rows(page)] == [
        "run_command",
        "apply_patch\nallowed by the user",
    ]
    page.find_element(By.CSS_SELECTOR, "[data-filter=all]").click()
    page.find_element(By.ID, "search").send_keys("src/missing")
    wait_until(lambda: len(rows(page)) == 1)
    assert page.find_element(By.ID, "matches").text == "1 of 12 entries"
    page.find_element(By.ID, "search").clear()
    page.find_element(By.CSS_SELECTOR, "[data-filter=problem]").click()
    assert [row.find_element(By.CLASS_NAME, "title").text for row in rows(page)] == ["read_file", "retry 1"]


def test_a_hostile_session_does_nothing(opened: Open) -> None:
    page = opened(render_html(hostile_session(), f"+{HOSTILE}".encode("utf-8", "surrogateescape")))
    for row in rows(page):
        for summary in row.find_elements(By.TAG_NAME, "summary"):
            summary.click()
    time.sleep(0.3)
    assert "pwned" not in page.title.split("'")[0]
    assert page.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert page.execute_script("return document.querySelectorAll('img,svg,iframe,object,link,form').length") == 0
    assert page.execute_script("return [...document.scripts].filter((one) => !one.type).length") == 1
    assert requested(page) == {page.current_url}
    assert logged(page, "browser") == []
    shown = page.find_element(By.CLASS_NAME, "question").text
    assert shown.startswith("<script>document.title='pwned'</script><img src=x")


def test_the_policy_stops_whatever_would_get_in(opened: Open) -> None:
    page = opened(render_html(answered_session()))
    page.execute_script(
        "const s = document.createElement('img'); s.src = 'http://127.0.0.1:1/x.png'; document.body.append(s);"
        "const d = document.createElement('div'); d.setAttribute('style', 'color: red'); document.body.append(d);"
    )
    refused: list[str] = []

    def both_refused() -> bool:
        refused.extend(entry["message"] for entry in logged(page, "browser"))
        return all(any(word in message for message in refused) for word in ("img-src", "style"))

    wait_until(both_refused)
    with pytest.raises(Exception, match="TrustedHTML"):
        page.execute_script("document.body.innerHTML = '<b>x</b>'")


def test_ten_thousand_events_open_soon(opened: Open) -> None:
    html = render_html(long_session(10_000))
    with at_once(10):  # two seconds where nothing else runs
        page = opened(html)
        assert page.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert len(rows(page)) == 200
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    wait_until(lambda: len(rows(page)) > 200)
    page.find_element(By.ID, "search").send_keys("src/file4997.c")
    wait_until(lambda: len(rows(page)) == 1)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_phone_needs_no_sideways_scrolling_in_either_scheme(opened: Open, scheme: str) -> None:
    page = opened(render_html(hostile_session()))
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= 360
        background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert background == {"dark": "rgb(20, 23, 27)", "light": "rgb(251, 251, 250)"}[scheme]
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
