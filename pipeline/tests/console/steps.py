"""What an operator does with the web console, in Debian's Chromium. pipeline/tests/lab/console.rs starts what it asks.

Every step waits for what has to be seen, and fails if it does not come. PMDNS_DRAW names a folder for pictures.
"""

import os
import re
import signal

from playwright.sync_api import expect, sync_playwright

from changes import CHANGES
from figures import check_figures, check_patience
from helpers import RAW, TAGS, dig, dnsperf, go, pmdns, until
from looks import LOOKS

URL = os.environ["PMDNS_URL"]
# A name that would run a script where somebody made markup of it, as dig and the console write it.
HOSTILE = r"<img\032src=x\032onerror=alert\0401\041>.example"
# Routes that answer only where they are configured.
OPTIONAL = r"/api/v1/(top|floods|limits|clients)(\?|$)"


class Watcher:
    """What must not happen, and the requests under way."""

    def __init__(self, page):
        self.wrong = []
        self.expected = None
        self.polls = set()
        self.most = self.seen = 0
        page.on("console", self.heard)
        page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self.asked)
        page.on("requestfinished", self.answered)
        page.on("requestfailed", self.answered)
        # A page that is left takes its requests along. That they ended may be told after the first one of the next page.
        page.on("framenavigated", lambda frame: self.polls.clear())

    def heard(self, message):
        # The browser tells of every refusal. What is not configured here is refused, and its panel says so.
        if re.search(OPTIONAL, message.location.get("url", "")):
            return
        if message.type in ("error", "warning") and not (self.expected and self.expected in message.text):
            self.wrong.append(f"{message.type}: {message.text}")

    def asked(self, request):
        if not request.url.startswith(URL + "/"):
            self.wrong.append(f"asks another host: {request.url}")
        if request.url.endswith("/stats"):
            self.seen += 1
            self.polls.add(request)
            self.most = max(self.most, len(self.polls))

    def answered(self, request):
        self.polls.discard(request)

    def check(self):
        assert not self.wrong, "\n".join(self.wrong)
        assert self.most <= 1, f"{self.most} requests for counters at once"


def log_in(page, token):
    page.locator("#token").fill(token)
    page.get_by_role("button", name="Log in").click()


def tile(page, title):
    return page.locator("#tiles > div", has=page.locator("dt", has_text=re.compile(f"^{title}$"))).locator("dd")


def number(text):
    """The figure of a text such as `1.23 k/s`."""
    found = re.match(r"([\d.]+)\s*([kMG]?)", text)
    return float(found.group(1)) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found.group(2)] if found else 0


def wrong_token(page, watcher):
    watcher.expected = "401"
    log_in(page, "not-a-token-of-this-instance-0123456")
    expect(page.locator("#login-error")).to_contain_text("does not count")
    watcher.expected = None
    assert page.evaluate("sessionStorage.length") == 0, "a wrong token is kept"


def reader(page):
    log_in(page, os.environ["PMDNS_READER"])
    expect(page.locator("#who")).to_contain_text("read")
    for name in ("Reload", "Drain"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()
    expect(page.locator("#upstreams tbody tr")).to_have_count(2)
    expect(page.locator("#upstreams button")).to_have_count(0)
    go(page, "Names")
    expect(page.locator("#entries")).to_be_visible()
    expect(page.get_by_role("button", name="Set")).to_be_hidden()
    for closed in ("#purge", "#entry-form", "#list-form"):
        expect(page.locator(closed)).to_be_hidden()
    stored = page.evaluate("[localStorage.length, document.cookie]")
    assert stored == [0, ""], f"the token lies about: {stored}"
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("#token")).to_be_visible()


def overview(page):
    log_in(page, os.environ["PMDNS_WRITER"])
    go(page, "Overview")
    expect(page.locator("#state")).to_contain_text("serving")
    page_watch.expected = "TrustedHTML"
    trial = "try { document.createElement('p').innerHTML = '<b>'; 'done' } catch (error) { error.name }"
    assert page.evaluate(trial) == "TypeError", "the browser makes markup of text"
    page_watch.expected = None
    until("the rate rises", lambda: number(tile(page, "queries").inner_text()) > 100)
    until("a hit has a time", lambda: "s" in tile(page, "hit p99").inner_text())
    expect(page.locator("#stages tbody tr")).not_to_have_count(0)
    lookup = page.locator("#stages tr", has_text="lookup").locator("td")
    until("the lookup takes cycles", lambda: number(lookup.nth(1).inner_text()) > 1)
    expect(page.locator("#ports")).to_contain_text("up")
    expect(page.locator("#upstreams")).to_contain_text("127.0.0.1:5300")
    expect(page.locator("#rings tbody tr")).not_to_have_count(0)
    expect(page.locator("#chart-rate path.line").first).to_have_attribute("d", re.compile("L"))


def names(page):
    assert dig("n5.bulk.test") == "NOERROR"
    go(page, "Names")
    entries = page.locator("#entries")
    for name in ("n5.bulk.test", HOSTILE):
        entries.get_by_label("Name", exact=True).fill(name)
        entries.get_by_role("button", name="Set").click()
        expect(entries.locator("tr", has_text=name.split("\\")[0])).to_contain_text("block")
    assert dig("n5.bulk.test") == "NXDOMAIN", "a blocked name is answered"
    assert page.locator(TAGS).count() == 0, "a name became markup"
    row = entries.locator("tr", has_text="n5.bulk.test")
    remove = row.get_by_role("button", name="Remove")
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert dig("n5.bulk.test") == "NXDOMAIN", "it is lifted though the answer was no"
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Lift").click()
    expect(row).to_have_count(0)
    assert dig("n5.bulk.test") == "NOERROR", "it is still blocked"
    page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(row).to_have_count(1)
    assert dig("n5.bulk.test") == "NXDOMAIN", "the removal is not undone"
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Lift").click()
    expect(row).to_have_count(0)
    entries.get_by_label("Name", exact=True).fill("a..b")
    page_watch.expected = "422"
    entries.get_by_role("button", name="Set").click()
    expect(page.locator(".notice.error")).to_be_visible()
    page_watch.expected = None
    local = page.locator("#local")
    local.get_by_label("Name").fill("printer.lan")
    local.get_by_label("Data").fill("192.0.2.7")
    local.get_by_role("button", name="Add").click()
    expect(local.locator("tr", has_text="printer.lan")).to_contain_text("192.0.2.7")
    assert dig("printer.lan") == "NOERROR"
    expect(page.locator("#lists")).to_contain_text("ads.txt")
    purge = page.locator("#purge")
    purge.get_by_label("Name", exact=True).fill("n7.bulk.test")
    purge.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(page.locator(".notice")).to_contain_text("purged")


def queries(page):
    """Only where the API has both routes."""
    assert dig("ad1.bulk.test") == "NXDOMAIN"
    dig(HOSTILE)
    go(page, "Queries")
    if page.locator("#no-queries").is_visible():
        print("this build has no lookup and no query log in its API")
        return
    log = page.locator("#log")

    def finds():
        log.get_by_label("Name, and below").fill("ad1.bulk.test")
        log.get_by_role("button", name="Search").click()
        expect(log.get_by_role("button", name="Search")).to_be_enabled()
        return log.locator("tbody tr").count() > 0
    until("the log has the query", finds)
    row = log.locator("tbody tr").first
    expect(row).to_contain_text("NXDOMAIN")
    expect(row).to_contain_text("ads.txt")
    row.get_by_role("button", name="Why?").click()
    expect(page.locator("#lookup-result")).to_contain_text("a block list")
    row.get_by_role("button", name="Allow").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert dig("ad1.bulk.test") == "NXDOMAIN", "one slip lifts a block"
    row.get_by_role("button", name="Allow").click()
    page.get_by_role("dialog").get_by_role("button", name="Allow").click()
    expect(page.locator(".notice")).to_contain_text("set")
    page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(page.locator(".notice")).to_contain_text("removed: ad1.bulk.test allowed in all views")
    log.get_by_label("Name, and below").fill("example")
    log.get_by_label("Lists").select_option("true")
    log.get_by_role("button", name="Search").click()
    expect(log.locator("tr", has_text="onerror").first).to_be_visible()
    assert page.locator(TAGS).count() == 0, "a name became markup"


def others(page):
    go(page, "Configuration")
    expect(page.locator("#running pre")).to_contain_text("[[blocklist]]")
    assert os.environ["PMDNS_WRITER"] not in page.content()
    page.get_by_role("button", name="Reload").click()
    expect(page.locator(".notice")).to_contain_text("✓")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_contain_text("serving")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.locator("#state")).to_contain_text("drained")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state")).to_contain_text("serving")


def other_builds(page):
    """Panels of routes that this build may not have, with answers of an API that escapes nothing."""
    named = {"key": RAW, "count": 70, "error": 1}
    answers = {
        "top": {"what": "names", "seconds": 60, "total": 100, "error": 1, "sample": 1, "rows": [named]},
        "floods": {"floods": [{"zone": RAW, "seconds": 3, "names": 900, "misses": 1000, "answered": 0}]},
        "limits": {"limits": [{"zone": RAW, "rate": 10, "seconds_left": 60, "passed": 5, "refused": 6, "by": RAW}]},
        "clients": {"clients": [{"prefix": RAW, "view": RAW}], "total": 1, "next": None},
    }

    def describe(route):
        described = route.fetch().json()
        for name in answers:
            described["paths"].setdefault(f"/api/v1/{name}", {"get": {}, "post": {}, "delete": {}})
        route.fulfill(json=described)
    page.route("**/api/openapi.json", describe)
    # Playwright gives a second argument to whatever takes one.
    for name, answer in answers.items():
        page.route(re.compile(rf"/api/v1/{name}(\?|$)"), (lambda answer: lambda route: route.fulfill(json=answer))(answer))
    page.reload()
    go(page, "Overview")
    for title in ("Top names", "Top clients", "Floods of random names", "Limits on zones"):
        panel = page.locator("#top section", has_text=title)
        expect(panel).to_contain_text("onerror=alert(1)", timeout=20_000)
    go(page, "Clients")
    expect(page.locator("#profiles")).to_contain_text("onerror=alert(1)")
    assert page.locator(TAGS).count() == 0, "a name became markup"
    page.unroute_all()
    page.reload()
    expect(page.locator("#state")).to_contain_text("serving")


def keys(page):
    page.keyboard.press("1")
    expect(page.locator("#overview")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_have_count(0)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(background) != light, "dark is as light"
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.keyboard.press("/")
    expect(page.locator(":focus")).to_have_class("search")
    page.keyboard.type("1")
    expect(page.locator("#queries")).to_be_visible()
    page.reload()
    expect(page.locator("#state")).to_contain_text("serving")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_class("skip")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_contain_text("paused")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_contain_text("serving")


def gone(page):
    process = int(os.environ["PMDNS_ID"])
    os.kill(process, signal.SIGSTOP)
    try:
        expect(page.locator("#gone")).to_contain_text("No answer", timeout=20_000)
    finally:
        os.kill(process, signal.SIGCONT)
    expect(page.locator("#gone")).to_be_hidden(timeout=20_000)


def unseen(page, watcher):
    """A page that nobody sees asks nothing, and one that is seen again goes on. The page's clock is stepped."""
    page.clock.install()
    page.reload()
    expect(page.locator("#state")).to_contain_text("serving")
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")
    until("the last request has ended", lambda: page.evaluate("1") and not watcher.polls)
    before = watcher.seen
    for _ in range(10):
        page.clock.run_for(6_000)
        # A request of ours comes back after those that the page has sent before.
        page.evaluate("fetch('icon.svg').then((answer) => answer.text())")
    assert watcher.seen == before, "it asks though nobody sees it"
    page.evaluate("delete document.hidden")
    page.clock.run_for(2_000)
    until("it goes on", lambda: page.evaluate("1") and watcher.seen > before)


def draw(page, name):
    folder = os.environ.get("PMDNS_DRAW")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png")


def pictures(page):
    """Only if they are asked for: nothing compares them."""
    if "PMDNS_DRAW" not in os.environ:
        return
    page.evaluate("new Promise((go) => setTimeout(go, 1000 * %d))" % int(os.environ.get("PMDNS_DRAW_AFTER", "60")))
    page.set_viewport_size({"width": 1440, "height": 920})
    go(page, "Overview")
    expect(page.locator("#upstreams tbody tr").first.locator("td").nth(2)).to_have_text("1")
    draw(page, "console-overview")
    page.emulate_media(color_scheme="dark")
    draw(page, "console-dark")
    go(page, "Queries")
    page.locator("#log").get_by_label("Name, and below").fill("bulk.test")
    page.locator("#log").get_by_label("Lists").select_option("true")
    page.locator("#log").get_by_role("button", name="Search").click()
    page.locator("#log tbody").get_by_role("button", name="Why?").first.click()
    expect(page.locator("#lookup-result")).to_contain_text("a block list")
    page.evaluate("scrollTo(0, 0)")
    page.set_viewport_size({"width": 1280, "height": 520})
    draw(page, "console-queries")
    page.emulate_media(color_scheme="light")
    go(page, "Names")
    draw(page, "console-names")
    page.set_viewport_size({"width": 390, "height": 844})
    go(page, "Overview")
    draw(page, "console-phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    flood(page)
    page.set_viewport_size({"width": 1440, "height": 900})


def flood(page):
    """A picture of the tables while names that do not exist are asked for below one zone, which is limited."""
    load = dnsperf("PMDNS_FLOOD", 1500)
    try:
        until("the flood is found", lambda: "example.test" in pmdns("floods"))
        pmdns("limit", "example.test", "--rate", "20", "--for", "10m")
        panels = page.locator("#top section")
        for title in ("Zones with names that do not exist", "Floods of random names", "Limits on zones"):
            expect(panels.filter(has_text=title)).to_contain_text("example.test", timeout=60_000)
        page.locator("#top").screenshot(path=f"{os.environ['PMDNS_DRAW']}/console-flood.png")
        pmdns("unlimit", "example.test")
    finally:
        load.kill()
        load.wait()


def run(playwright):
    global page_watch
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
    page = browser.new_context(color_scheme="light", viewport={"width": 1440, "height": 900}).new_page()
    page_watch = Watcher(page)
    page.goto(f"{URL}/")
    assert page.url == f"{URL}/console/"
    check_figures(page)
    check_patience(page)
    steps = [lambda: wrong_token(page, page_watch)]
    steps += [lambda step=step: step(page) for step in (reader, overview, names, queries, others)]
    steps += [lambda step=step: step(page, page_watch) for step in CHANGES]
    steps += [lambda step=step: step(page) for step in (other_builds, keys, pictures)]
    steps += [lambda step=step: step(page, page_watch) for step in LOOKS]
    steps += [lambda: gone(page)]
    steps += [lambda: unseen(page, page_watch)]
    try:
        for step in steps:
            step()
            page_watch.check()
        assert page_watch.seen > 0
    except Exception:
        print("\n".join(page_watch.wrong), page.locator("body").inner_text(), sep="\n")
        draw(page, "failed")
        raise
    browser.close()


load = dnsperf("PMDNS_QUERIES", os.environ.get("PMDNS_RATE", "2000"))
try:
    with sync_playwright() as started:
        run(started)
finally:
    load.kill()
    load.wait()
