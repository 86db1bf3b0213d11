"""What an operator changes while the instance runs, and where the console shows it. Each step leaves nothing behind."""

import os
from pathlib import Path

from playwright.sync_api import expect

from helpers import RAW, SHOWN, TAGS, dig, go, pmdns, until

# Over it the client is in the view `kids`, by the client table.
SERVER_V6 = os.environ["PMDNS_SERVER_V6"]
FIRST = "127.0.0.1:5300"
SECOND = "127.0.0.1:5310"
LIST_URL = "https://lists.test:8443/more.txt"


def button(place, name):
    return place.get_by_role("button", name=name, exact=True)


def entry_of_a_view(page, watcher):
    """By keys alone."""
    go(page, "Names")
    form = page.locator("#entry-form")
    form.get_by_label("Name", exact=True).fill("n9.bulk.test")
    form.locator("summary").press("Enter")
    form.get_by_label("kids").press("Space")
    expect(form.locator("summary")).to_have_text("Views: kids")
    button(form, "Set").press("Enter")
    row = page.locator("#entries tr", has_text="n9.bulk.test")
    expect(row).to_contain_text("kids")
    expect(form.locator("summary")).to_have_text("Views: all")
    assert [dig("n9.bulk.test"), dig("n9.bulk.test", SERVER_V6)] == ["NOERROR", "NXDOMAIN"]
    button(row, "Remove").press("Enter")
    button(page.get_by_role("dialog"), "Lift").press("Enter")
    expect(row).to_have_count(0)
    assert dig("n9.bulk.test", SERVER_V6) == "NOERROR"


def narrower_block(page, watcher):
    go(page, "Names")
    form = page.locator("#entry-form")
    row = page.locator("#entries tr", has_text="n8.bulk.test")
    for below, answer, left in ((True, None, "yes"), (False, "Cancel", "yes"), (False, "Lift", "no")):
        form.get_by_label("Name", exact=True).fill("n8.bulk.test")
        form.get_by_label("and names below").set_checked(below)
        button(form, "Set").click()
        if answer:
            button(page.get_by_role("dialog"), answer).click()
            expect(page.get_by_role("dialog")).to_have_count(0)
        expect(row.get_by_role("cell", name=left, exact=True)).to_have_count(1)
    button(row, "Remove").click()
    button(page.get_by_role("dialog"), "Lift").click()
    expect(row).to_have_count(0)


def serve_list(names, age):
    """The server's dates have seconds, and a newer version needs a later one."""
    file = Path(os.environ["PMDNS_WWW"], "more.txt")
    file.write_text("".join(f"more{number}.test\n" for number in range(names)))
    os.utime(file, (1_000_000_000 - age, 1_000_000_000 - age))


def lists(page, watcher):
    serve_list(100, age=60)
    go(page, "Names")
    form = page.locator("#list-form")
    for label, text in (("Name", "more"), ("URL", LIST_URL), ("Server", "127.0.0.1")):
        form.get_by_label(label, exact=True).fill(text)
    form.locator("summary").click()
    form.get_by_label("kids").check()
    button(form, "Add").click()
    table = page.locator("#lists table")
    row = table.locator("tr", has_text=LIST_URL)
    expect(row).to_contain_text("kids")
    until("the list is there", lambda: dig("more99.test", SERVER_V6) == "NXDOMAIN")
    assert dig("more99.test") != "NXDOMAIN", "it holds in the other view too"
    serve_list(101, age=0)
    button(row, "Refresh").click()
    expect(page.locator(".notice")).to_contain_text("101 names")
    until("the new name is blocked", lambda: dig("more100.test", SERVER_V6) == "NXDOMAIN")
    of_the_file = table.locator("tr", has_text="ads.txt")
    expect(of_the_file).to_have_count(1)
    expect(of_the_file.get_by_role("button")).to_have_count(0)
    go(page, "Configuration")
    expect(page.locator("#difference tr", has_text=f"list more added from {LIST_URL}")).to_contain_text("operator")
    go(page, "Names")
    button(row, "Remove").click()
    button(page.get_by_role("dialog"), "Remove").click()
    expect(row).to_have_count(0)
    assert dig("more99.test", SERVER_V6) != "NXDOMAIN"


def upstreams(page, watcher):
    go(page, "Overview")
    row = page.locator("#upstreams tr", has_text=SECOND)
    state, weight = row.locator("td").nth(0), row.locator("td").nth(2)
    expect(state).to_have_text("● up")
    expect(weight).to_have_text("1")
    button(row, "Weight").press("Enter")
    page.get_by_role("dialog").get_by_label("Weight").fill("101")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("dialog").get_by_label("Weight").fill("3")
    page.keyboard.press("Enter")
    expect(weight).to_have_text("3")
    button(row, "Drain").press("Enter")
    expect(state).to_have_text("◆ drained")
    expect(page.locator(":focus")).to_have_text("Resume")
    watcher.expected = "409"
    button(page.locator("#upstreams tr", has_text=FIRST), "Drain").click()
    expect(page.locator(".notice.error")).to_contain_text("nobody would be asked")
    watcher.expected = None
    go(page, "Configuration")
    difference = page.locator("#difference")
    expect(difference.locator("tr", has_text=f"upstream {SECOND} drained, weight 3")).to_contain_text("operator")
    expect(difference).to_contain_text("Every key in use is as in the file")
    expect(difference).to_contain_text("Local records: 1.")
    go(page, "Overview")
    button(row, "Resume").press("Enter")
    expect(state).to_have_text("● up")
    button(row, "Weight").click()
    page.get_by_role("dialog").get_by_label("Weight").fill("1")
    button(page.get_by_role("dialog"), "Set").click()
    expect(weight).to_have_text("1")
    go(page, "Configuration")
    expect(difference.locator("tr", has_text=f"upstream {SECOND}")).to_have_count(0)


def limits(page, watcher):
    go(page, "Overview")
    panel = page.locator("#top section", has_text="Limits on zones")
    for label, text in (("Zone", "limited.test"), ("Misses/s", "7"), ("Minutes", "10")):
        panel.get_by_label(label, exact=True).fill(text)
    button(panel, "Limit").click()
    row = panel.locator("tr", has_text="limited.test")
    expect(row).to_contain_text("operator")
    expect(row.locator("td").nth(0)).to_have_text("7")
    assert "limited.test" in pmdns("limit")
    button(row, "Remove").click()
    expect(row).to_have_count(0)
    assert "limited.test" not in pmdns("limit")


def clients(page, watcher):
    go(page, "Clients")
    panel = page.locator("#profiles")
    expect(panel.locator("tr", has_text="fd97::1")).to_contain_text("kids")

    def is_found(address, text):
        panel.get_by_label("Address", exact=True).fill(address)
        page.keyboard.press("Enter")
        expect(panel.locator("output")).to_contain_text(f"{address} is in view {text}")

    def put(view, prefix="198.51.100.0/24"):
        panel.get_by_label("Prefix", exact=True).fill(prefix)
        panel.get_by_label("View").select_option(view)
        button(panel, "Put").click()
    # Each view says who is in it: no prefix of the file has the clients of `kids`.
    views = page.locator("#views tbody tr")
    expect(views).to_have_count(2)
    for row, (name, who) in enumerate((("default", "all that are in no other view"), ("kids", "those of the client table"))):
        expect(views.nth(row).locator("th")).to_have_text(name)
        expect(views.nth(row).locator("td").nth(0)).to_have_text(who)
        expect(views.nth(row).locator("td").nth(2)).to_have_text("as [ratelimit]")
    expect(panel.get_by_label("View").locator("option")).to_have_text(["default", "kids"])
    put("kids")
    row = panel.locator("tr", has_text="198.51.100.0/24")
    expect(row).to_contain_text("kids")
    is_found("198.51.100.7", "kids, by 198.51.100.0/24 of the client table")
    button(row, "Remove").click()
    expect(row).to_have_count(0)
    is_found("198.51.100.7", "default, by no prefix")
    watcher.expected = "422"
    put("kids", "198.51.100.0/33")
    expect(page.locator(".notice.error")).to_contain_text("198.51.100.0/33")
    watcher.expected = None


def log_of_networks(page, watcher):
    """The log has `fd97::`, which is in no view. The client is fd97::1, which is in one."""
    assert dig("n11.bulk.test", SERVER_V6) == "NOERROR"
    go(page, "Queries")
    log, asked, result = page.locator("#log"), page.locator("#lookup"), page.locator("#lookup-result")

    def search(client):
        log.get_by_label("Name, and below").fill("n11.bulk.test")
        log.get_by_label("Client", exact=True).fill(client)
        log.get_by_label("Lists").select_option("")
        button(log, "Search").click()
        expect(button(log, "Search")).to_be_enabled()
        return log.locator("tbody tr").count() > 0
    until("the log has the query", lambda: search("fd97::"))
    row = log.locator("tbody tr").first
    expect(row).to_contain_text("kids")
    button(row, "Why?").click()
    expect(result).to_contain_text("fd97:: in place of the address")
    expect(result).to_contain_text("in view kids, and this is for view default")
    expect(asked.get_by_label("Client")).to_have_value("")
    asked.get_by_label("Client").fill("fd97::1")
    button(asked, "Why?").click()
    expect(result.locator("dl")).to_contain_text("kids")
    expect(result).not_to_contain_text("▲")
    # All of an IPv4 address is logged.
    until("the log has the query over IPv4", lambda: dig("n11.bulk.test") and search("10.97.0.1"))
    button(log.locator("tbody tr").first, "Why?").click()
    expect(asked.get_by_label("Client")).to_have_value("10.97.0.1")
    expect(result.locator("dl")).to_contain_text("default")
    expect(result).not_to_contain_text("▲")
    log.get_by_label("Client", exact=True).fill("")


def hostile_texts(page, watcher):
    """Answers of an API that escapes nothing."""
    view = {"name": RAW, "clients": [RAW], "group": RAW}
    change = {"change": RAW, "by": RAW, "since": 1}
    key = {"key": RAW, "running": RAW, "file": RAW, "needs_restart": True}
    one = {"file": f"/{RAW}", "url": RAW, "names": 1, "unknown_lines": 0, "age_seconds": 1, "views": [RAW], "added": True}
    upstream = {"address": SECOND, "group": RAW, "weight": 42, "weighted": True, "drained": False, "counters": {}}
    answers = {
        "views": {"views": [{**view, "name": "default"}, view]},
        "config/diff": {"keys": [key], "changes": [change], "entries": 1, "records": 1, "error": RAW},
        "lists": {"lists": [one]},
        "upstreams": {"upstreams": [upstream]},
    }
    for name, answer in answers.items():
        page.route(f"**/api/v1/{name}", (lambda answer: lambda route: route.fulfill(json=answer))(answer))
    for name, places in (("Clients", ["#views"]), ("Names", ["#lists tbody"]), ("Configuration", ["#difference"])):
        go(page, name)
        for place in places:
            expect(page.locator(place)).to_contain_text(SHOWN)
        assert page.locator(TAGS).count() == 0, "a text became markup"
    go(page, "Names")
    page.locator("#entry-form summary").click()
    page.locator("#entry-form details").get_by_label(SHOWN).check()
    expect(page.locator("#entry-form summary")).to_have_text(f"Views: {SHOWN}")
    button(page.locator("#lists"), "Remove").click()
    expect(page.get_by_role("dialog")).to_contain_text(SHOWN)
    page.keyboard.press("Escape")
    go(page, "Overview")
    row = page.locator("#upstreams tr", has_text=SECOND)
    expect(row).to_contain_text("42")
    button(row, "Weight").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"group {SHOWN}")
    page.keyboard.press("Escape")
    assert page.locator(TAGS).count() == 0, "a text became markup"
    page.unroute_all()
    page.reload()
    expect(page.locator("#state")).to_contain_text("serving")


CHANGES = (entry_of_a_view, narrower_block, lists, upstreams, limits, clients, log_of_networks, hostile_texts)
