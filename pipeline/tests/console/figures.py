"""Rates and texts of figures, as the console's own modules make them of reports that are known."""

TICKS = 1_000_000


def stage(batches, packets, ticks, exits):
    return {"batches": batches, "packets": packets, "ticks": ticks, "exits": exits}


def report(uptime, published, packets, **more):
    """A report of one data core, a port, a ring and an upstream, at a time in ticks."""
    half = packets // 2
    stages = {
        "lookup": stage(packets // 10, packets, packets * 40, {"encode": packets - half}),
        "policy": stage(0, half, 0, {"encode": 0, "slow_path": half, "drop.rule": 3}),
    }
    worker = {
        "core": 1, "published_ticks": published, "busy_ticks": published // 2, "dropped": 3, "stages": stages,
        "links": [{"link": "a:rx0", "passed": packets, "refused": 0}, {"link": "a:tx0", "passed": packets, "refused": 0}],
    }
    buckets = [[1, 0], [4, packets // 100 * 98], [100, packets // 100 * 2]]
    times = {"buckets": buckets}
    upstream = {"address": "192.0.2.1:53", "queries": half, "tcp": 0, "timeouts": 4, "errors": 0, "srtt_us": 900, "state": 0}
    return {
        "uptime_ticks": uptime, "ticks_per_second": TICKS, "workers": [worker], "rings": [], "slow_path": [{"shed_client": 7}],
        "ports": [{"name": "a", "driver": "tap", "link_up": True, "rx_frames": packets, "rx_bytes": packets * 100}],
        "upstreams": [upstream],
        "latency": {name: times for name in ("hit", "miss", "local", "other")}, "streams": [], **more,
    }


def check_figures(page):
    """Checks them in the page."""
    between = """async ([earlier, later]) => (await import("/console/rates.js")).between(earlier, later)"""
    # Two seconds, of which the core has published one and a half.
    earlier, later = report(1_000_000, 1_000_000, 10_000), report(3_000_000, 2_500_000, 25_000)
    rates = page.evaluate(between, [earlier, later])
    assert rates["seconds"] == 2
    assert round(rates["hits"]) == 5_000 and round(rates["misses"]) == 5_000 and rates["hitRatio"] == 0.5, rates
    lookup = next(one for one in rates["stages"] if one["stage"] == "lookup")
    assert (lookup["cycles"], lookup["batch"], round(lookup["packets"])) == (40, 10, 10_000), lookup
    assert abs(rates["cores"][0]["busy"] - 0.5) < 1e-6 and rates["ports"][0]["rxBits"] == 6_000_000
    assert rates["latency"]["hit"]["p50"] == 4 and rates["latency"]["hit"]["p99"] == 100, rates["latency"]
    assert [one["reason"] for one in rates["drops"]] == ["slow path: client", "rule"], rates["drops"]
    assert rates["upstreams"][0]["failures"] == 0 and rates["upstreams"][0]["queries"] == 3_750
    # The instance was started anew.
    anew = page.evaluate(between, [later, report(1_000_000, 1_000_000, 1_000)])
    assert anew["seconds"] == 1 and round(anew["received"]) == 1_000, anew
    # Answers of rules are queries, and no hits.
    for number, answers in ((0, 0), (1, 6_000)):
        (earlier, later)[number]["workers"][0]["stages"]["policy"]["exits"]["encode"] = answers
    rates = page.evaluate(between, [earlier, later])
    assert round(rates["local"]) == 4_000 and round(rates["queries"]) == 14_000 and rates["hitRatio"] == 0.5, rates
    # Nobody asked.
    assert page.evaluate(between, [later, later])["hitRatio"] is None

    check_texts(page)


def check_patience(page):
    """How long the page waits for answers, in seconds: one more than the server."""
    waits = """async (asked) => {
        const { get, post, patch, remove } = await import("/console/api.js");
        const calls = { get, post, patch, remove };
        const { timeout } = AbortSignal;
        const { fetch } = window;
        const waited = [];
        AbortSignal.timeout = (time) => { waited.push(time / 1000); return timeout.call(AbortSignal, time); };
        window.fetch = async () => Response.json({});
        for (const [call, path] of asked) await calls[call](path);
        AbortSignal.timeout = timeout;
        window.fetch = fetch;
        return waited;
    }"""
    wanted = [
        ("get", "/api/v1/stats", 11), ("get", "/api/v1/lookup?name=a", 61), ("get", "/api/v1/log", 21),
        ("get", "/api/v1/lists", 11),
        ("post", "/api/v1/reload", 301), ("post", "/api/v1/purge", 301), ("post", "/api/v1/entries", 11),
        ("patch", "/api/v1/upstreams/192.0.2.1%3A53", 301), ("post", "/api/v1/lists/ads/refresh", 301),
        ("remove", "/api/v1/lists/ads", 301), ("remove", "/api/v1/limits/lists", 11),
    ]
    got = page.evaluate(waits, [[call, path] for call, path, _ in wanted])
    assert got == [seconds for _, _, seconds in wanted], list(zip(got, wanted))


def check_texts(page):
    """Figures and names as texts."""
    texts = """async (values) => {
        const format = await import("/console/format.js");
        return values.map(([name, value]) => format[name](value));
    }"""
    wanted = [
        ("count", 0, "0"), ("count", 7.125, "7.13"), ("count", 999.4, "999"), ("count", 999.6, "1.00 k"),
        ("count", 12_345, "12.3 k"), ("count", 7_400_000, "7.40 M"), ("count", None, "–"),
        ("percent", 0.5, "50.0 %"), ("percent", None, "–"), ("micros", 1.5, "1.5 µs"), ("micros", 1500, "1.50 ms"),
        ("micros", 2_000_000, "2.00 s"), ("bytes", 1024, "1.00 KiB"), ("duration", 273_906, "3 d 04:05:06"),
        ("perSecond", 1234, "1.23 k/s"), ("perSecond", 12, "12 /s"),
    ]
    got = page.evaluate(texts, [[name, value] for name, value, _ in wanted])
    assert got == [text for _, _, text in wanted], list(zip(got, wanted))
    made = """async (text) => {
        const dom = await import("/console/dom.js");
        const nodes = [dom.element("p", {}, text), dom.element("p"), dom.element("p")];
        dom.write(nodes[1], text);
        dom.fill(nodes[2], [text]);
        return nodes.map((node) => [node.textContent, node.children.length]);
    }"""
    seen = page.evaluate(made, "a\u202eb\x00c\u200b<i>")
    assert seen == [[r"a\u{202e}b\u{0}c\u{200b}<i>", 0]] * 3, seen
