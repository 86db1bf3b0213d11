"""How the pages look: letters that can be read, places for fingers, wide screens, and forms that can work."""

import re

from playwright.sync_api import expect

from helpers import go

PAGES = ("Overview", "Queries", "Names", "Clients", "Configuration")
# WCAG 2.1, 1.4.3: 4.5, and 3 for large letters.
CONTRAST = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => {
        const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const colour = parse(getComputedStyle(node).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const pale = [];
    for (const node of document.querySelectorAll("body *")) {
        const text = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data.trim()).join("");
        if (!text || !node.checkVisibility() || node.disabled || node.closest(".skip")) continue;
        const style = getComputedStyle(node);
        const colour = parse(node.namespaceURI.endsWith("svg") ? style.fill : style.color);
        const [one, other] = [light(colour), light(ground(node))].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (other + 0.05);
        const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
        if (ratio < least) pale.push(`${text}: ${ratio.toFixed(2)}`);
    }
    return [...new Set(pale)];
}"""
# Lower than a finger.
SMALL = """(least) => [...document.querySelectorAll("button, input, select, summary, nav a, label.check")]
    .filter((node) => node.checkVisibility() && !(node.closest("label.check") && node.matches("input")))
    .filter((node) => node.getBoundingClientRect().height < least)
    .map((node) => `${node.tagName} ${node.textContent || node.name} ${node.getBoundingClientRect().height}`)"""
# How many panels begin at different places from the left.
COLUMNS = """() => new Set([...document.querySelectorAll("main > section:not([hidden]) .panel")]
    .filter((node) => node.checkVisibility()).map((node) => Math.round(node.getBoundingClientRect().left))).size"""


def contrast(page, watcher):
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for name in PAGES:
            go(page, name)
            pale = page.evaluate(CONTRAST)
            assert not pale, f"{name}, {theme}: {pale}"
    page.emulate_media(color_scheme="light")


def fingers(page, watcher):
    page.set_viewport_size({"width": 390, "height": 844})
    for name in PAGES:
        go(page, name)
        small = page.evaluate(SMALL, 32)
        assert not small, f"{name}: {small}"
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{name} is {width} pixels wide"
    page.set_viewport_size({"width": 1440, "height": 900})


def wide(page, watcher):
    go(page, "Overview")
    span = page.get_by_label("Heavy hitters of the")
    assert span.bounding_box()["width"] < 200, "the select is as wide as the page"
    for width in (1440, 2560):
        page.set_viewport_size({"width": width, "height": 1300})
        last = page.locator("#upstreams tbody tr").first.get_by_role("button", name="Weight").bounding_box()
        panel = page.locator("#upstreams").bounding_box()
        assert last["x"] + last["width"] <= panel["x"] + panel["width"], f"a button is out of sight at {width} pixels"
    for name, least in (("Overview", 4), ("Queries", 1), ("Names", 2), ("Clients", 2), ("Configuration", 2)):
        go(page, name)
        assert page.evaluate(COLUMNS) >= least, f"{name} has {page.evaluate(COLUMNS)} columns"
        used = page.locator("main > section:visible").bounding_box()["width"]
        assert used > 2400, f"{name} has {used} of 2560 pixels"
    page.set_viewport_size({"width": 1440, "height": 900})


def forms_that_cannot_work(page, watcher):
    """Answers of an API without a client table, a folder for lists, a database, and groups with weights."""
    why = "there is no client table; set `clients.max_entries`, and reload"
    upstream = {"address": "127.0.0.1:5300", "group": "default", "weight": 1, "drained": False, "counters": {}}

    def refuse(status, detail):
        problem = {"type": "about:blank", "title": "", "status": status, "detail": detail}
        return lambda route: route.fulfill(status=status, json=problem)
    lists = {"lists": [], "addable": False}
    upstreams = {"upstreams": [{**upstream, "weighted": False}]}
    page.route(re.compile(r"/api/v1/clients(\?|$)"), refuse(409, why))
    page.route(re.compile(r"/api/v1/log(\?|$)"), refuse(404, "there is no `query_log.sqlite`"))
    page.route("**/api/v1/lists", lambda route: route.fulfill(json=lists))
    page.route("**/api/v1/upstreams", lambda route: route.fulfill(json=upstreams))
    watcher.expected = "404"
    go(page, "Clients")
    expect(page.locator("#profiles")).to_contain_text("there is no client table")
    expect(page.locator("#profiles form:visible")).to_have_count(0)
    go(page, "Names")
    expect(page.locator("#lists")).to_contain_text("control.lists")
    expect(page.locator("#list-form")).to_be_hidden()
    go(page, "Queries")
    expect(page.locator("#log")).to_contain_text("query_log.sqlite")
    expect(page.locator("#log form:visible")).to_have_count(0)
    go(page, "Overview")
    row = page.locator("#upstreams tr", has_text=upstream["address"])
    expect(row.locator("td").nth(2)).to_have_text("–")
    expect(row.get_by_role("button", name="Drain")).to_be_visible()
    expect(row.get_by_role("button", name="Weight")).to_be_hidden()
    page.unroute_all()
    go(page, "Clients")
    expect(page.locator("#profiles form:visible")).to_have_count(2)
    go(page, "Names")
    expect(page.locator("#list-form")).to_be_visible()
    go(page, "Queries")
    expect(page.locator("#log form:visible")).to_have_count(1)
    watcher.expected = None


LOOKS = (contrast, fingers, wide, forms_that_cannot_work)
