"""Opens every page of the book in Debian's Chromium, at the width of a small laptop, and finds tables that are cut off.

usage: book.py FOLDER, with the pages that `scripts/test.sh book` made.
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 800
# The wrapper scrolls sideways, so what does not fit in it is out of sight.
CLIPPED = """() => [...document.querySelectorAll("main table")]
    .filter(table => table.scrollWidth > table.parentElement.clientWidth + 1)
    .map(table => table.innerText.slice(0, 60))"""


def main():
    pages = sorted(Path(sys.argv[1]).rglob("*.html"))
    assert len(pages) > 80, f"only {len(pages)} pages are in {sys.argv[1]}: run scripts/test.sh book"
    tables, wrong = 0, []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for file in pages:
            # These hold other pages, or come while something is missing.
            if file.name in ("print.html", "404.html", "toc.html"):
                continue
            page.goto(file.resolve().as_uri(), wait_until="domcontentloaded")
            tables += page.locator("main table").count()
            wrong += [f"{file.name}: {text!r}" for text in page.evaluate(CLIPPED)]
        browser.close()
    assert tables > 100, f"only {tables} tables were found"
    assert not wrong, f"tables that are cut off at {WIDTH} pixels: {wrong}"


main()
