//! The screen of `pmdns top`: text, bars and numbers, made from rates alone.

use pmdns_config::narrow::to_u16;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

use super::help;
use super::hitters::Tops;
use super::order::Order;
use super::panel::{Cell, Column, Panel};
use super::text::{bits, per_second, percent, time, uneven, uptime};
use super::traffic::{self, History};
use crate::rates::{Rates, RingLoad};
use pmdns_control::health::NodeVerdict;
use pmdns_control::report::{NextHopReport, Report, Times};

/// Rows of drops and of upstreams at most; the longest lists are the least interesting.
const MAX_ROWS: usize = 12;
/// Columns between two tables that stand side by side.
const GAP: usize = 2;
/// Rows of the lowest table: title, headings, a row.
const LEAST_HEIGHT: usize = 3;

/// One frame.
#[derive(Debug)]
pub(crate) struct Screen {
    version: String,
    verdict: NodeVerdict,
    is_standby: bool,
    uptime_seconds: u64,
    frames: String,
    rates: Rates,
    /// Those that are not reachable first, so that a small terminal shows them.
    next_hops: Vec<NextHopReport>,
    /// The note after the title, and whether it is urgent.
    note: (String, bool),
    history: History,
    tops: Tops,
    /// Whether the help stands over the tables.
    has_help: bool,
}

impl Screen {
    /// The screen with the rates between two reports.
    pub(crate) fn between(earlier: &Report, later: &Report) -> Self {
        let mut next_hops = later.next_hops.clone();
        next_hops.sort_by_key(NextHopReport::is_reachable);
        Self {
            version: later.version.clone(),
            verdict: later.verdict,
            is_standby: later.standby,
            uptime_seconds: later.uptime_seconds,
            frames: format!("{} of {}", later.frames.in_use, later.frames.capacity),
            rates: Rates::between(earlier, later),
            next_hops,
            note: (String::new(), false),
            history: History::default(),
            tops: Tops::default(),
            has_help: false,
        }
    }

    /// The same, with the rows of its tables in another order.
    pub(super) fn sorted(mut self, order: Order) -> Self {
        order.sort(&mut self.rates);
        self
    }

    /// The same, with rates over time; its own are the newest.
    pub(super) fn with_history(mut self, history: &mut History) -> Self {
        history.add(&self.rates);
        self.history = history.clone();
        self
    }

    /// Shows heavy hitters in lines that are left over.
    pub(super) fn show_tops(&mut self, tops: Tops) {
        self.tops = tops;
    }

    /// Shows the help over the tables, or hides it.
    pub(super) fn show_help(&mut self, has_help: bool) {
        self.has_help = has_help;
    }

    /// Sets the note after the title.
    pub(super) fn note(&mut self, text: impl Into<String>, is_urgent: bool) {
        self.note = (text.into(), is_urgent);
    }

    /// Rows that show everything in so many columns.
    pub(crate) fn height(&self, width: u16) -> u16 {
        let (head, bands) = self.layout(usize::from(width), usize::MAX);
        to_u16(head.len() + bands.iter().map(Band::height).sum::<usize>())
    }

    /// The lines above the tables, none longer than `width`.
    fn head(&self, width: usize) -> Vec<(String, Style)> {
        let rates = &self.rates;
        let title = [
            format!("pmdns {}", self.version),
            format!("{}{}", self.verdict, if self.is_standby { ", standby" } else { "" }),
            format!("up {}", uptime(self.uptime_seconds)),
            format!("frames in use {}", self.frames),
        ];
        let mut traffic = vec![
            format!("received {}", per_second(rates.received)),
            format!("transmitted {}", per_second(rates.transmitted)),
            format!("dropped {}", per_second(rates.dropped)),
            format!("SERVFAIL {} {}", per_second(rates.servfail().0), percent(rates.servfail().1)),
            format!("hits {}", per_second(rates.hits)),
            format!("local {}", per_second(rates.local)),
            format!("misses {}", per_second(rates.misses)),
        ];
        traffic.extend(rates.hit_ratio().map(|ratio| format!("hit ratio {}", percent(ratio))));
        traffic.push(format!("cache {} full", percent(rates.cache.fill)));
        let mut latency: Vec<String> =
            rates.latency.iter().filter(|(_, times)| times.count > 0).map(latency).collect();
        if !latency.is_empty() {
            latency.insert(0, "latency p50/p99/p99.9:".to_owned());
        }
        let title_style = match self.verdict {
            NodeVerdict::Serving => Style::new().bold(),
            NodeVerdict::Drained | NodeVerdict::Unfit => Style::new().bold().fg(Color::Red),
        };
        let (note, is_urgent) = &self.note;
        let notes: Vec<String> =
            note.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let note_style =
            if *is_urgent { Style::new().bold().fg(Color::Red) } else { Style::new().dim() };
        let plain = |lines: Vec<String>| lines.into_iter().map(|line| (line, Style::new()));
        let mut lines: Vec<_> =
            flow(&title, "  ", width).into_iter().map(|line| (line, title_style)).collect();
        lines.extend(flow(&notes, " ", width).into_iter().map(|line| (line, note_style)));
        lines.extend(plain(flow(&traffic, "  ", width)));
        lines.extend(plain(flow(&latency, "  ", width)));
        lines
    }

    /// The lines above the tables, and the tables. Two that belong together are drawn side by side if there is room. Of the
    /// traffic there are tables only if all of their rows fit beside the least of the others, else a line.
    fn layout(&self, width: usize, rows: usize) -> (Vec<(String, Style)>, Vec<Band>) {
        let (mut head, mut bands) =
            (self.head(width), Band::of(self.cores(), self.stages(), width));
        let others = self.others(width);
        let least = head.len() + (bands.len() + others.len()) * LEAST_HEIGHT;
        let height = |bands: &[Band]| bands.iter().map(Band::height).sum::<usize>();
        let more = height(&bands) - bands.len() * LEAST_HEIGHT;
        let (all, mut spare) = (bands.len(), rows.saturating_sub(least + more));
        for group in self.traffic(width) {
            if let Some(rest) = spare.checked_sub(height(&group)) {
                spare = rest;
                bands.extend(group);
            }
        }
        let brief = flow(&traffic::brief(&self.rates), "  ", width);
        if bands.len() == all && least < rows {
            head.extend(brief.into_iter().take(1).map(|line| (line, Style::new())));
        }
        bands.extend(others);
        // They take what is left, and never the rows of another table.
        let left = rows.saturating_sub(head.len() + height(&bands));
        if let Some([names, clients]) = self.tops.panels().filter(|_| left > LEAST_HEIGHT) {
            let tops = Band::of(names, clients, width);
            bands.extend(tops.into_iter().take(left / (LEAST_HEIGHT + 1)));
        }
        (head, bands)
    }

    /// Cache, rates over time, and answers, in groups that are shown whole or not at all.
    fn traffic(&self, width: usize) -> [Vec<Band>; 2] {
        let cache = traffic::cache(&self.rates);
        let (rcodes, qtypes) = (traffic::rcodes(&self.rates), traffic::qtypes(&self.rates));
        match self.history.panel() {
            Some(history) => [Band::of(cache, history, width), Band::of(rcodes, qtypes, width)],
            None => [Band::of(cache, rcodes, width), vec![Band::One(qtypes)]],
        }
    }

    fn others(&self, width: usize) -> Vec<Band> {
        let pairs = [(self.rings(), self.ports()), (self.drops(), self.upstreams())];
        let bands = pairs.into_iter().flat_map(|(left, right)| Band::of(left, right, width));
        let edge = match (traffic::streams(&self.rates.streams), traffic::punts(&self.rates.punts))
        {
            (Some(streams), Some(punts)) => Band::of(streams, punts, width),
            (streams, punts) => streams.or(punts).map(Band::One).into_iter().collect(),
        };
        bands.chain(edge).chain(self.next_hops().map(Band::One)).collect()
    }

    fn cores(&self) -> Panel {
        let cores = || self.rates.cores.iter();
        let mut columns = vec![
            Column::numbers("core", cores().map(|core| core.core.to_string())),
            Column::bars(cores().map(|core| core.busy), Color::Green),
            Column::numbers("busy", cores().map(|core| percent(core.busy))),
            Column::numbers("housek.", cores().map(|core| percent(core.housekeeping))).rank(2),
            Column::numbers("idle", cores().map(|core| percent(core.idle))).rank(1),
            Column::numbers("packets", cores().map(|core| per_second(core.packets))),
        ];
        if cores().any(|core| core.resolving > 0.0) {
            let resolving = cores().map(|core| percent(core.resolving));
            columns.insert(3, Column::numbers("misses", resolving).rank(2));
        }
        Panel::new("cores", columns)
    }

    fn stages(&self) -> Panel {
        let stages = || self.rates.stages.iter();
        let most = stages().map(|stage| stage.ticks_per_packet).fold(1.0, f64::max);
        let columns = vec![
            Column::texts("stage", stages().map(|stage| stage.stage.to_owned())),
            Column::bars(stages().map(|stage| stage.ticks_per_packet / most), Color::Cyan),
            Column::numbers(
                "cycles",
                stages().map(|stage| format!("{:.1}", stage.ticks_per_packet)),
            ),
            Column::numbers("packets", stages().map(|stage| per_second(stage.packets))),
            Column::numbers(
                "batch",
                stages().map(|stage| format!("{:.1}", stage.packets_per_batch)),
            )
            .rank(1),
        ];
        Panel::new("stages: cycles per packet", columns)
    }

    fn rings(&self) -> Panel {
        let rings = || self.rates.rings.iter();
        let columns = vec![
            Column::texts("from, to", rings().map(|ring| ring.ends.clone())),
            Column::texts("carries", rings().map(|ring| ring.carries.clone())).rank(1),
            Column::bars(rings().map(fill), Color::Yellow),
            Column::numbers("mean", rings().map(|ring| format!("{:.0}", ring.occupancy.mean()))),
            Column::numbers("max", rings().map(|ring| ring.occupancy.max.to_string())).rank(2),
            Column::numbers("of", rings().map(|ring| ring.capacity.to_string())).rank(3),
            Column::alarms("refused", rings().map(|ring| ring.refused)),
        ];
        Panel::new("rings", columns)
    }

    fn ports(&self) -> Panel {
        let ports = || self.rates.ports.iter();
        let link = |is_up: bool| {
            Cell::alarm(if is_up { "up" } else { "down" }.to_owned(), f64::from(!is_up))
        };
        let columns = vec![
            Column::texts("port", ports().map(|port| port.port.clone())),
            Column::numbers("link", ports().map(|port| link(port.link_up))),
            Column::numbers("rx", ports().map(|port| per_second(port.rx_frames))),
            Column::numbers("rx bits", ports().map(|port| bits(port.rx_bits))).rank(1),
            Column::numbers("uneven", ports().map(|port| uneven(port.imbalance))).rank(2),
            Column::numbers("tx", ports().map(|port| per_second(port.tx_frames))),
            Column::numbers("tx bits", ports().map(|port| bits(port.tx_bits))).rank(1),
            Column::alarms("lost", ports().map(|port| port.lost)),
        ];
        Panel::new("ports", columns)
    }

    fn drops(&self) -> Panel {
        let drops = || self.rates.drops.iter().take(MAX_ROWS);
        let columns = vec![
            Column::texts("reason", drops().map(|drop| drop.reason.clone())),
            Column::alarms("now", drops().map(|drop| drop.rate)),
            Column::numbers("since start", drops().map(|drop| drop.total.to_string())).rank(1),
        ];
        Panel::new("drops", columns)
    }

    fn upstreams(&self) -> Panel {
        let upstreams = || self.rates.upstreams.iter().take(MAX_ROWS);
        let state = |rests: bool| {
            Cell::alarm(if rests { "rests" } else { "well" }.to_owned(), f64::from(rests))
        };
        let columns = vec![
            Column::texts("upstream", upstreams().map(|one| one.address.clone())),
            Column::numbers("asked", upstreams().map(|one| per_second(one.queries))),
            Column::numbers("replies", upstreams().map(|one| per_second(one.replies))).rank(2),
            Column::alarms("failed", upstreams().map(|one| one.failures)),
            Column::numbers("RTT", upstreams().map(|one| format!("{:.1} ms", one.srtt_ms))).rank(1),
            Column::numbers("state", upstreams().map(|one| state(one.rests))),
        ];
        Panel::new("upstreams", columns)
    }

    /// The next hops, if an upstream is asked over a port.
    fn next_hops(&self) -> Option<Panel> {
        let hops = || self.next_hops.iter().take(MAX_ROWS);
        let state =
            |hop: &NextHopReport| Cell::alarm(hop.state.clone(), f64::from(!hop.is_reachable()));
        let age = |hop: &NextHopReport| hop.age_seconds.map_or_else(|| "never".to_owned(), uptime);
        let columns = vec![
            Column::texts("next hop", hops().map(|hop| hop.address.clone())),
            Column::texts("port", hops().map(|hop| hop.port.clone())).rank(1),
            Column::numbers("state", hops().map(state)),
            Column::numbers(
                "MAC",
                hops().map(|hop| hop.mac.clone().unwrap_or_else(|| "-".to_owned())),
            )
            .rank(3),
            Column::numbers("answered", hops().map(age)).rank(2),
            Column::numbers("failures", hops().map(|hop| hop.counter("failures").to_string())),
        ];
        (!self.next_hops.is_empty()).then(|| Panel::new("next hops", columns))
    }
}

/// Tables that stand side by side: one, or two with the width of the first.
enum Band {
    One(Panel),
    Two(Panel, Panel, usize),
}

impl Band {
    fn of(left: Panel, right: Panel, width: usize) -> Vec<Self> {
        let ((left_least, left_full), (right_least, right_full)) = (left.widths(), right.widths());
        let Some(room) = width.checked_sub(left_least + right_least + GAP) else {
            return vec![Self::One(left), Self::One(right)];
        };
        // Width beyond the minimum goes to a table that can use it, then to both.
        let (left_more, right_more) =
            (left_full - left_least.min(left_full), right_full - right_least.min(right_full));
        let both = left_more + right_more;
        let more = match room.checked_sub(both) {
            Some(rest) => left_more + rest / 2,
            None => room * left_more / both.max(1),
        };
        vec![Self::Two(left, right, left_least + more)]
    }

    fn height(&self) -> usize {
        match self {
            Self::One(panel) => panel.height(),
            Self::Two(left, right, _) => left.height().max(right.height()),
        }
    }

    fn draw(&self, area: Rect, buffer: &mut Buffer) {
        match self {
            Self::One(panel) => panel.draw(area, buffer),
            Self::Two(left, right, width) => {
                let width = to_u16(*width).min(area.width);
                let at = (width + to_u16(GAP)).min(area.width);
                left.draw(Rect { width, ..area }, buffer);
                right.draw(Rect { x: area.x + at, width: area.width - at, ..area }, buffer);
            }
        }
    }
}

impl Widget for &Screen {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width);
        let (mut y, bottom) = (area.y, area.bottom());
        let (head, bands) = self.layout(width, usize::from(area.height));
        for (line, style) in head {
            if y < bottom {
                buffer.set_stringn(area.x, y, line, width, style);
                y += 1;
            }
        }
        // Each table gets its minimum height; the first ones get the rest.
        let mut spare = usize::from(bottom - y).saturating_sub(bands.len() * LEAST_HEIGHT);
        for band in bands {
            let more = (band.height() - LEAST_HEIGHT).min(spare);
            spare -= more;
            let height = to_u16(LEAST_HEIGHT + more).min(bottom - y);
            band.draw(Rect { y, height, ..area }, buffer);
            y += height;
        }
        if self.has_help {
            help::draw(area, buffer);
        }
    }
}

/// The parts one behind the other, in lines of at most `width`.
fn flow(parts: &[String], between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let length = |text: &str| text.chars().count();
    // A part that is longer than a line is broken between its words.
    let pieces = parts.iter().flat_map(|part| match length(part) > width {
        true => part.split(' ').collect(),
        false => vec![part.as_str()],
    });
    for part in pieces {
        match lines.last_mut() {
            Some(line) if length(line) + between.len() + length(part) <= width => {
                line.push_str(between);
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// How full a ring was on average.
fn fill(ring: &RingLoad) -> f64 {
    ring.occupancy.mean() / ring.capacity.max(1) as f64
}

fn latency((kind, times): &(&str, Times)) -> String {
    let quantiles = [times.p50_us, times.p99_us, times.p999_us].map(time);
    format!("{kind} {}", quantiles.join("/"))
}

#[cfg(test)]
mod tests;
