//! The page: a profile as plots and tables.

use pmdns_counters::occupancy;

use super::Profile;
use super::chart::{Bar, Series, bars, columns, legend, lines};
use super::xml::Element;
use crate::rates::{AnswerRate, DropRate, Rates, RingLoad, StageRate};
use crate::top::{amount, percent, time, uneven};
use pmdns_control::report::Times;

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1c2430;--dim:#667085;--rule:#e3e7ee;--track:#eef1f5;\
--s0:#2f6fde;--s1:#17a673;--s2:#d9822b;--s3:#b6469d}\
@media (prefers-color-scheme:dark){:root{--back:#14181f;--text:#e4e8ee;--dim:#93a0b4;--rule:#2a313c;\
--track:#222934;--s0:#6aa1ff;--s1:#45cf9d;--s2:#f0a959;--s3:#dd7fc8}}\
body{margin:2rem auto;padding:0 1rem;max-width:60rem;background:var(--back);color:var(--text);\
font:15px/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .25rem}\
p{margin:.25rem 0;color:var(--dim)}svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font-size:12px}\
.grid{stroke:var(--rule)}.track{fill:var(--track)}.line{fill:none;stroke:currentColor;stroke-width:2}\
.line.s0{stroke-width:7;opacity:.4}\
.fill{fill:currentColor}.s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}\
.entry{margin-right:1.25rem}.figures{display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0}\
.figure{flex:1 1 8rem;border:1px solid var(--rule);border-radius:.5rem;padding:.5rem .75rem}\
.figure b{display:block;font-size:1.25rem}.scroll{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--rule);text-align:right}\
th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:500}";

/// The whole page.
pub(super) fn page(profile: &Profile) -> String {
    let rates = Rates::between(&profile.first, &profile.last);
    let title = format!("pmdns {}: profile of {:.1} s", profile.last.version, rates.seconds);
    let viewport = Element::new("meta").with("name", "viewport");
    let head = Element::new("head")
        .child(Element::new("meta").with("charset", "utf-8"))
        .child(viewport.with("content", "width=device-width, initial-scale=1"))
        .child(Element::new("title").text(&title))
        .child(Element::new("style").text(STYLE));
    let body = Element::new("body")
        .child(Element::new("h1").text(&title))
        .child(Element::new("p").text(&profile.scene))
        .child(Element::new("p").text(format!(
            "Counters of the instance from second {} to {} of its life; cycles are ticks of its clock, {} in a second.",
            profile.first.uptime_seconds,
            profile.last.uptime_seconds,
            amount(profile.last.ticks_per_second as f64),
        )))
        .child(figures(&rates))
        .children(throughput(&profile.points))
        .children(answers(&rates))
        .children(stages(&rates))
        .children(cores(&rates))
        .children(latency(&rates, profile.last.ticks_per_second))
        .children(rings(&rates))
        .children(drops(&rates))
        .children(ports(&rates))
        .children(upstreams(&rates));
    let mut page = String::from("<!DOCTYPE html>\n");
    Element::new("html").with("lang", "en").child(head).child(body).write(&mut page);
    page.push('\n');
    page
}

fn figures(rates: &Rates) -> Element {
    let figure = |name: &str, value: String| {
        let value = Element::new("b").text(value);
        Element::new("div").class("figure").text(name).child(value)
    };
    Element::new("div").class("figures").children([
        figure("received", per_second(rates.received)),
        figure("transmitted", per_second(rates.transmitted)),
        figure("dropped", per_second(rates.dropped)),
        figure("hit ratio", rates.hit_ratio().map_or_else(|| "-".to_owned(), percent)),
    ])
}

fn throughput(points: &[(f64, Rates)]) -> Vec<Element> {
    let series = |name, value: fn(&Rates) -> f64| Series {
        name,
        points: points.iter().map(|(seconds, rates)| (*seconds, value(rates))).collect(),
    };
    let series = [
        series("received", |rates| rates.received),
        series("transmitted", |rates| rates.transmitted),
        series("misses", |rates| rates.misses),
        series("dropped", |rates| rates.dropped),
    ];
    let names = series.each_ref().map(|one| one.name);
    vec![heading("Throughput, packets in a second"), legend(&names), lines(&series, amount)]
}

fn answers(rates: &Rates) -> Vec<Element> {
    let bar = |one: &AnswerRate| Bar {
        name: one.kind.to_uppercase(),
        parts: vec![one.share],
        value: format!("{}, {}", percent(one.share), per_second(one.rate)),
    };
    [("Answers by rcode", &rates.rcodes), ("Answers by type", &rates.qtypes)]
        .into_iter()
        .filter(|(_, kinds)| !kinds.is_empty())
        .flat_map(|(title, kinds)| {
            [heading(title), bars(&kinds.iter().map(bar).collect::<Vec<_>>(), 1.0)]
        })
        .collect()
}

fn stages(rates: &Rates) -> Vec<Element> {
    let stages = &rates.stages;
    let most = stages.iter().map(|stage| stage.ticks_per_packet).fold(0.0, f64::max);
    let bar = |stage: &StageRate| Bar {
        name: stage.stage.to_owned(),
        parts: vec![stage.ticks_per_packet],
        value: format!("{:.1}", stage.ticks_per_packet),
    };
    let all: Vec<Bar> = stages.iter().map(bar).collect();
    let rows = stages.iter().map(|stage| {
        vec![
            stage.stage.to_owned(),
            per_second(stage.packets),
            format!("{:.1}", stage.ticks_per_packet),
            format!("{:.1}", stage.packets_per_batch),
        ]
    });
    let head = ["stage", "packets", "cycles per packet", "packets per batch"];
    vec![heading("Stages, cycles per packet"), bars(&all, most), table(&head, rows)]
}

fn cores(rates: &Rates) -> Vec<Element> {
    let all: Vec<Bar> = rates
        .cores
        .iter()
        .map(|core| Bar {
            name: format!("core {}", core.core),
            parts: vec![core.busy, core.resolving, core.housekeeping],
            value: format!("{} busy", percent(core.busy)),
        })
        .collect();
    let rows = rates.cores.iter().map(|core| {
        vec![
            core.core.to_string(),
            percent(core.busy),
            percent(core.resolving),
            percent(core.housekeeping),
            percent(core.idle),
            per_second(core.packets),
        ]
    });
    let head = ["core", "busy", "misses", "housekeeping", "idle", "packets"];
    let legend = legend(&["busy", "misses", "housekeeping"]);
    vec![heading("Cores"), legend, bars(&all, 1.0), table(&head, rows)]
}

fn latency(rates: &Rates, ticks_per_second: u64) -> Vec<Element> {
    let seen = || rates.latency.iter().filter(|(_, times)| times.count > 0);
    let mut elements = vec![
        heading("Latency, from arrival to transmit queue"),
        Element::new("p").text("Quantiles are at most 25 % too high, never too low."),
    ];
    for (colour, (class, times)) in seen().enumerate() {
        elements.push(Element::new("h3").text(format!("{class}: {} packets", times.count)));
        elements.push(columns(&spread(times, ticks_per_second), colour % 4, amount));
    }
    let rows = seen().map(|(class, times)| {
        let quantiles = [times.p50_us, times.p90_us, times.p99_us, times.p999_us, times.max_us];
        let mean =
            times.sum_ticks as f64 / times.count as f64 * 1e6 / ticks_per_second.max(1) as f64;
        let mut row = vec![(*class).to_owned(), times.count.to_string(), time(mean)];
        row.extend(quantiles.map(time));
        row
    });
    elements.push(table(
        &["answered by", "packets", "mean", "p50", "p90", "p99", "p99.9", "max"],
        rows,
    ));
    elements
}

/// The buckets of a histogram, by their upper bound.
fn spread(times: &Times, ticks_per_second: u64) -> Vec<(String, u64)> {
    let us = |ticks: u64| ticks.min(times.max_ticks) as f64 * 1e6 / ticks_per_second.max(1) as f64;
    times.histogram().spread().map(|(bound, count)| (time(us(bound)), count)).collect()
}

fn rings(rates: &Rates) -> Vec<Element> {
    let mut elements = vec![heading("Rings, values waiting when some were taken")];
    for ring in rates.rings.iter().filter(|ring| ring.occupancy.pops > 0) {
        elements.push(Element::new("h3").text(format!("{}, {}", ring.ends, ring.carries)));
        elements.push(columns(&filling(ring), 0, amount));
    }
    let rows = rates.rings.iter().map(|ring| {
        vec![
            format!("{}, {}", ring.ends, ring.carries),
            ring.capacity.to_string(),
            per_second(ring.taken),
            format!("{:.1}", ring.occupancy.mean()),
            ring.occupancy.max.to_string(),
            per_second(ring.refused),
        ]
    });
    elements.push(table(&["ring", "slots", "taken", "mean", "max", "refused"], rows));
    elements
}

/// The buckets of a ring's histogram, up to its size.
fn filling(ring: &RingLoad) -> Vec<(String, u64)> {
    let counts = ring.occupancy.histogram.iter().enumerate();
    let in_use =
        counts.take_while(|(bucket, _)| occupancy::upper_bound(*bucket) / 2 < ring.capacity as u64);
    in_use
        .map(|(bucket, count)| {
            let (least, most) =
                (1 << bucket, occupancy::upper_bound(bucket).min(ring.capacity as u64));
            (if least == most { least.to_string() } else { format!("{least} to {most}") }, *count)
        })
        .collect()
}

fn drops(rates: &Rates) -> Vec<Element> {
    if rates.drops.is_empty() {
        return vec![heading("Drops"), Element::new("p").text("None since the start.")];
    }
    let most = rates.drops.iter().map(|drop| drop.rate).fold(0.0, f64::max);
    let bar = |drop: &DropRate| Bar {
        name: drop.reason.clone(),
        parts: vec![drop.rate],
        value: per_second(drop.rate),
    };
    let all: Vec<Bar> = rates.drops.iter().map(bar).collect();
    let rows = rates
        .drops
        .iter()
        .map(|drop| vec![drop.reason.clone(), per_second(drop.rate), drop.total.to_string()]);
    vec![heading("Drops"), bars(&all, most), table(&["reason", "now", "since start"], rows)]
}

fn ports(rates: &Rates) -> Vec<Element> {
    let rows = rates.ports.iter().map(|port| {
        let link = if port.link_up { "up" } else { "down" };
        let bits = |rate: f64| format!("{}b/s", amount(rate));
        vec![
            format!("{}, link {link}", port.port),
            per_second(port.rx_frames),
            bits(port.rx_bits),
            uneven(port.imbalance),
            per_second(port.tx_frames),
            bits(port.tx_bits),
            per_second(port.lost),
        ]
    });
    let head = ["port", "received", "", "uneven", "sent", "", "lost"];
    vec![heading("Ports"), table(&head, rows)]
}

fn upstreams(rates: &Rates) -> Vec<Element> {
    let rows = rates.upstreams.iter().map(|upstream| {
        vec![
            upstream.address.clone(),
            per_second(upstream.queries),
            per_second(upstream.replies),
            per_second(upstream.failures),
            format!("{:.1} ms", upstream.srtt_ms),
            if upstream.rests { "rests" } else { "well" }.to_owned(),
        ]
    });
    let head = ["upstream", "asked", "replies", "failed", "round trip", "state"];
    vec![heading("Upstreams"), table(&head, rows)]
}

fn heading(text: &str) -> Element {
    Element::new("h2").text(text)
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Element {
    let head = Element::new("tr").children(head.iter().map(|name| Element::new("th").text(name)));
    let row = |cells: Vec<String>| {
        Element::new("tr").children(cells.into_iter().map(|cell| Element::new("td").text(cell)))
    };
    let table = Element::new("table")
        .child(Element::new("thead").child(head))
        .child(Element::new("tbody").children(rows.map(row)));
    Element::new("div").class("scroll").child(table)
}

fn per_second(rate: f64) -> String {
    format!("{}/s", amount(rate))
}
