# SPDX-License-Identifier: Apache-2.0
"""The report's page in a browser: what it draws, pointing, zooming, keys, contrast, printing."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poetfw.report.html import _render, chart_data, read_source, report_html
from unit.report.html_projects import files_of, large, ran, report_of, tight, two
from workloads import browser

pytestmark = pytest.mark.skipif(
    not (browser.CHROMIUM and browser.DRIVER), reason="needs chromium and chromedriver"
)

TEXTS = """
const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
  .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const small = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
const pen = small.getContext("2d", {willReadFrequently: true});
const rgba = colour => {
  pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const behind = element => {
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const ratio = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + .05) / (y + .05);
};
const found = [];
const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
  if (!text || element.closest("noscript") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  let ground = behind(element), ink = style.color;
  if (element instanceof SVGTextElement) {
    ink = style.fill;
    if (element.classList.contains("on")) {
      const mark = element.previousElementSibling;
      let box = mark;
      while (box && !box.classList.contains("mark")) box = box.previousElementSibling;
      ground = rgba(getComputedStyle(box).fill);
    }
  }
  found.push([text, ratio(rgba(ink), ground)]);
}
return found;
"""
"""Texts of a page, each with the contrast to what is behind it, as WCAG 2 defines it."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser.chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    texts = {
        "tight": report_html(files_of(tight(), ran(tight()))),
        "two": report_html(files_of(two())),
        "large": _render(large(), chart_data(large())),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def show(driver: Any, page: Path, scheme: str = "light") -> None:
    browser.prefer(driver, scheme)
    browser.resize(driver, 1280, 900)
    driver.get(page.as_uri())


@pytest.mark.parametrize("name", ["tight", "two", "large"])
def test_pages_are_drawn_without_requests_and_errors(
    name: str, driver: Any, pages: dict[str, Path]
) -> None:
    browser.requests(driver)
    show(driver, pages[name])
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []
    assert {re.sub(":.*", "", url) for url in browser.requests(driver)} <= {"file", "data"}
    charts = driver.execute_script("return [...document.querySelectorAll('.chart svg')].length")
    assert charts == {"tight": 5, "two": 3, "large": 4}[name]
    marks = driver.execute_script("return document.querySelectorAll('#step .mark').length")
    assert marks > 50
    assert driver.execute_script("return document.querySelectorAll('svg *').length") < 12_000
    bad = "[...document.querySelectorAll('svg *')].filter(e => [...e.attributes]"
    bad += ".some(a => /NaN|Infinity|undefined/.test(a.value))).length"
    assert driver.execute_script(f"return {bad}") == 0
    for width in (380, 1280):
        browser.resize(driver, width, 900)
        driver.get(pages[name].as_uri())
        beyond = "return document.documentElement.scrollWidth - innerWidth"
        assert driver.execute_script(beyond) <= 0


def test_what_is_drawn_adds_up_to_the_plan(driver: Any, pages: dict[str, Path]) -> None:
    show(driver, pages["tight"])
    totals, report = driver.execute_script("return poetfw.totals"), report_of(tight())
    assert totals["joules"] == pytest.approx(report.schedule.energy_j, rel=1e-9)
    assert totals["layerJoules"] == pytest.approx(report.schedule.energy_j, rel=1e-9)
    assert totals["seconds"] == pytest.approx(report.schedule.time_s, rel=1e-9)
    assert totals["bytes"] == report.peak_bytes
    assert totals["again"] == report.schedule.recomputes
    driver.execute_script("document.getElementById('steps').open = true")
    rows = "[...document.querySelectorAll('#steps tbody tr')].map(r => [...r.children].slice(-2)"
    columns = driver.execute_script(f"return {rows}.map(cell => cell.textContent))")
    planned_mj, counted_mj = (
        math.fsum(float(text.replace(",", "") or 0) for text in column)
        for column in zip(*columns, strict=True)
    )
    assert planned_mj / 1e3 == pytest.approx(report.schedule.energy_j, rel=1e-3)
    assert counted_mj / 1e3 == pytest.approx(totals["spent"], rel=1e-3)
    spent = chart_data(read_source(files_of(tight(), ran(tight()))))["steps"]["spent"]
    assert totals["spent"] == pytest.approx(math.fsum(each or 0 for each in spent), rel=1e-9)


def test_boxes_are_pointed_at_and_zoomed_into(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    show(driver, pages["tight"])
    all_of_it = driver.execute_script("return poetfw.view()")
    assert all_of_it == [0, pytest.approx(report_of(tight()).schedule.time_s)]
    box = driver.find_element("css selector", "#step .mark.c2")
    ActionChains(driver).move_to_element(box).perform()
    tip = driver.find_element("id", "tip")
    assert tip.value_of_css_property("visibility") == "visible"
    for said in ("back from storage, ", " B at ", "in RAM for ", "written by step ", "reader: "):
        assert said in tip.text
    chart = driver.find_element("id", "step")
    zoom = ActionChains(driver).move_to_element_with_offset(chart, -150, -60)
    zoom.click_and_hold().move_by_offset(200, 0).release().perform()
    low, high = driver.execute_script("return poetfw.view()")
    assert 0 < low < high < all_of_it[1]
    drawn = driver.execute_script("return document.querySelectorAll('#step .mark').length")
    ActionChains(driver).double_click(chart).perform()
    assert driver.execute_script("return poetfw.view()") == all_of_it
    assert driver.execute_script("return document.querySelectorAll('#step .mark').length") > drawn
    driver.find_element("css selector", "#axis [value=steps]").click()
    statements = driver.execute_script("return poetfw.view()")
    assert statements[0] == 0.5
    assert statements[1] == max(chart_data_of_tight()["steps"]["step"]) + 0.5


def chart_data_of_tight() -> dict[str, Any]:
    from poetfw.report.html import read_source

    return chart_data(read_source(files_of(tight())))


def test_a_keyboard_chooses_zooms_and_moves(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    show(driver, pages["tight"])
    chart = driver.find_element("id", "step")
    driver.execute_script("arguments[0].focus()", chart)

    def press(*keys: str) -> Any:
        chart.send_keys(*keys)
        return driver.execute_script("return poetfw.chosen()")

    detail = driver.find_element("id", "detail")
    first = press(Keys.ARROW_RIGHT)
    assert first.startswith("b:0:")
    assert press(Keys.ARROW_RIGHT) != first
    assert " B at " in detail.text
    assert press(Keys.ARROW_LEFT) == first
    assert press(Keys.ARROW_DOWN).startswith("s:")
    assert "planned: " in detail.text
    assert "counted: " in detail.text
    whole = driver.execute_script("return poetfw.view()")
    press("+")
    low, high = driver.execute_script("return poetfw.view()")
    assert high - low < whole[1]
    press(Keys.SHIFT + Keys.ARROW_RIGHT)
    assert driver.execute_script("return poetfw.view()")[0] > low
    press(Keys.NULL + "0")
    assert driver.execute_script("return poetfw.view()") == whole


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["tight", "two"])
def test_texts_are_legible_in_both_modes(
    name: str, scheme: str, driver: Any, pages: dict[str, Path]
) -> None:
    show(driver, pages[name], scheme)
    grounds = []
    for _ in range(2):  # as the system prefers, then as the button switches
        texts = driver.execute_script(TEXTS)
        assert len(texts) > 100
        assert [(text, ratio) for text, ratio in texts if ratio < 4.5] == []
        ground = "return getComputedStyle(document.body).backgroundColor"
        grounds.append(sum(map(float, re.findall(r"[\d.]+", driver.execute_script(ground))[:3])))
        driver.find_element("id", "theme").click()
    assert (grounds[0] < grounds[1]) == (scheme == "dark")


def test_a_page_is_printed_in_light_colours_on_few_sheets(
    driver: Any, pages: dict[str, Path]
) -> None:
    show(driver, pages["tight"], "dark")
    pdf = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(pdf))) <= 4
    browser.prefer(driver, "dark", "print")
    assert all(ratio >= 4.5 for _, ratio in driver.execute_script(TEXTS))
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    browser.prefer(driver, "light")
