//! What `pmdns top` draws: text, bars and numbers, from rates alone.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Widget};

use crate::control::distribution::Times;
use crate::control::rates::{Rates, RingLoad};
use crate::control::report::Report;

/// Rows of drops and of upstreams at most; the longest lists are the least interesting.
const MAX_ROWS: usize = 12;
/// Columns of a bar.
const BAR: usize = 16;
/// Columns of a ring's bar.
const RING_BAR: usize = 10;
/// Rows above the tables.
const HEAD_ROWS: u16 = 3;
/// A table's border and heading.
const FRAME_ROWS: usize = 3;

/// One frame.
#[derive(Debug)]
pub struct Screen {
    version: String,
    uptime_seconds: u64,
    frames: String,
    rates: Rates,
    note: Option<String>,
}

impl Screen {
    pub(super) fn new(report: &Report, rates: Rates) -> Self {
        let frames = format!("{} of {}", report.frames.in_use, report.frames.capacity);
        Self {
            version: report.version.clone(),
            uptime_seconds: report.uptime_seconds,
            frames,
            rates,
            note: None,
        }
    }

    /// Says something beside the title, or nothing more.
    pub(super) fn note(&mut self, note: Option<String>) {
        self.note = note;
    }

    /// Rows that show everything.
    pub fn height(&self) -> u16 {
        HEAD_ROWS + self.heights().iter().sum::<u16>()
    }

    /// Rows of the three pairs of tables.
    fn heights(&self) -> [u16; 3] {
        let rates = &self.rates;
        let pair = |left: usize, right: usize| (left.max(right).max(1) + FRAME_ROWS) as u16;
        [
            pair(rates.cores.len(), rates.stages.len()),
            pair(rates.rings.len(), rates.ports.len()),
            pair(rates.drops.len().min(MAX_ROWS), rates.upstreams.len().min(MAX_ROWS)),
        ]
    }

    fn head(&self) -> Vec<Line<'_>> {
        let rates = &self.rates;
        let mut title = vec![
            format!("pmdns {}", self.version).bold(),
            Span::raw(format!("  up {}", uptime(self.uptime_seconds))),
            Span::raw(format!("  frames in use {}", self.frames)),
        ];
        match &self.note {
            Some(note) => title.push(format!("  {note}").bold().red()),
            None => title.push("  q quits, space pauses".dim()),
        }
        let hit_ratio = rates.hit_ratio().map_or_else(|| "-".to_owned(), percent);
        let traffic = format!(
            "received {}/s  transmitted {}/s  dropped {}/s  hits {}/s  misses {}/s  hit ratio {hit_ratio}",
            amount(rates.received),
            amount(rates.transmitted),
            amount(rates.dropped),
            amount(rates.hits),
            amount(rates.misses),
        );
        let latency: Vec<String> =
            rates.latency.iter().filter(|(_, times)| times.count > 0).map(latency).collect();
        vec![Line::from(title), traffic.into(), latency.join("   ").into()]
    }

    fn cores(&self) -> Table<'_> {
        let rows = self.rates.cores.iter().map(|core| {
            Row::new([
                core.core.to_string().into(),
                bar(core.busy, BAR, Color::Green),
                number(percent(core.busy)),
                number(percent(core.housekeeping)),
                number(percent(core.idle)),
                number(per_second(core.packets)),
            ])
        });
        let widths = [4, BAR, 7, 7, 7, 10].map(|width| Constraint::Length(width as u16));
        table("cores", ["core", "", ">busy", ">housek.", ">idle", ">packets"], rows, widths)
    }

    fn stages(&self) -> Table<'_> {
        let stages = &self.rates.stages;
        let most = stages.iter().map(|stage| stage.ticks_per_packet).fold(1.0, f64::max);
        let rows = stages.iter().map(move |stage| {
            Row::new([
                stage.stage.into(),
                bar(stage.ticks_per_packet / most, BAR, Color::Cyan),
                number(format!("{:.1}", stage.ticks_per_packet)),
                number(per_second(stage.packets)),
                number(format!("{:.1}", stage.packets_per_batch)),
            ])
        });
        let widths = [9, BAR, 9, 10, 5].map(|width| Constraint::Length(width as u16));
        table(
            "stages: cycles per packet",
            ["stage", "", ">cycles", ">packets", ">batch"],
            rows,
            widths,
        )
    }

    fn rings(&self) -> Table<'_> {
        let rows = self.rates.rings.iter().map(|ring| {
            Row::new([
                ring.ends.clone().into(),
                ring.carries.clone().into(),
                bar(fill(ring), RING_BAR, Color::Yellow),
                number(format!("{:.0}", ring.occupancy.mean())),
                number(ring.occupancy.max.to_string()),
                alarm(per_second(ring.refused), ring.refused),
            ])
        });
        let widths = [20, 7, RING_BAR, 5, 5, 8].map(|width| Constraint::Length(width as u16));
        table("rings", ["from, to", "carries", "", ">mean", ">max", ">refused"], rows, widths)
    }

    fn ports(&self) -> Table<'_> {
        let rows = self.rates.ports.iter().map(|port| {
            Row::new([
                port.port.clone().into(),
                alarm(if port.link_up { "up" } else { "down" }.into(), f64::from(!port.link_up)),
                number(per_second(port.rx_frames)),
                number(bits(port.rx_bits)),
                number(per_second(port.tx_frames)),
                number(bits(port.tx_bits)),
                alarm(per_second(port.lost), port.lost),
            ])
        });
        let widths = [8, 4, 9, 11, 9, 11, 8].map(Constraint::Length);
        table("ports", ["port", "link", ">rx", "", ">tx", "", ">lost"], rows, widths)
    }

    fn drops(&self) -> Table<'_> {
        let rows = self.rates.drops.iter().take(MAX_ROWS).map(|drop| {
            Row::new([
                drop.reason.clone().into(),
                alarm(per_second(drop.rate), drop.rate),
                number(drop.total.to_string()),
            ])
        });
        let widths = [26, 10, 14].map(Constraint::Length);
        table("drops", ["reason", ">now", ">since start"], rows, widths)
    }

    fn upstreams(&self) -> Table<'_> {
        let rows = self.rates.upstreams.iter().take(MAX_ROWS).map(|upstream| {
            Row::new([
                upstream.address.clone().into(),
                number(per_second(upstream.queries)),
                number(per_second(upstream.replies)),
                alarm(per_second(upstream.failures), upstream.failures),
                number(format!("{:.1} ms", upstream.srtt_ms)),
                alarm(
                    if upstream.rests { "rests" } else { "well" }.into(),
                    f64::from(upstream.rests),
                ),
            ])
        });
        let widths = [21, 9, 9, 8, 9, 5].map(Constraint::Length);
        let head = ["upstream", ">asked", ">replies", ">failed", ">RTT", ">state"];
        table("upstreams", head, rows, widths)
    }
}

impl Widget for &Screen {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let [first, second, third] = self.heights().map(Constraint::Length);
        let rows = [Constraint::Length(HEAD_ROWS), first, second, third, Constraint::Fill(1)];
        let [head, first, second, third, _] = Layout::vertical(rows).areas(area);
        Paragraph::new(self.head()).render(head, buffer);
        let pairs = [
            (first, self.cores(), self.stages()),
            (second, self.rings(), self.ports()),
            (third, self.drops(), self.upstreams()),
        ];
        for (area, left, right) in pairs {
            let halves =
                Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]);
            let [left_area, right_area] = halves.areas(area);
            Widget::render(left, left_area, buffer);
            Widget::render(right, right_area, buffer);
        }
    }
}

/// A table in a frame. Headings that begin with `>` stand above numbers, on the right.
fn table<'a, const N: usize>(
    title: &'a str,
    head: [&'a str; N],
    rows: impl Iterator<Item = Row<'a>>,
    widths: [Constraint; N],
) -> Table<'a> {
    let head = head.map(|text| match text.strip_prefix('>') {
        Some(text) => number(text.to_owned()),
        None => Cell::from(text),
    });
    let head = Row::new(head).style(Style::new().dim());
    Table::new(rows, widths).header(head).block(Block::bordered().title(format!(" {title} ")))
}

/// A bar that fills this share of its columns, to an eighth of one.
fn bar(share: f64, columns: usize, color: Color) -> Cell<'static> {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (columns * 8) as f64).round() as usize;
    let text = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    Cell::from(text).style(Style::new().fg(color))
}

/// A text that stands out while `value` is not zero.
fn alarm(text: String, value: f64) -> Cell<'static> {
    let style = if value > 0.0 { Style::new().fg(Color::Red).bold() } else { Style::new() };
    number(text).style(style)
}

/// A text on the right of its column.
fn number(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn per_second(rate: f64) -> String {
    format!("{}/s", amount(rate))
}

fn bits(rate: f64) -> String {
    format!("{}b/s", amount(rate))
}

/// How full a ring was on average.
fn fill(ring: &RingLoad) -> f64 {
    ring.occupancy.mean() / ring.capacity.max(1) as f64
}

fn latency((class, times): &(&str, Times)) -> String {
    let [p50, p99, p999] = [times.p50_us, times.p99_us, times.p999_us].map(time);
    format!("{class}: p50 {p50}, p99 {p99}, p99.9 {p999}")
}

/// Microseconds in the unit that suits them.
pub(in crate::control) fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// A number with three or four digits and the prefix that suits it.
pub(in crate::control) fn amount(value: f64) -> String {
    match value {
        value if value < 9.95 && value > 0.0 => format!("{value:.1}"),
        value if value < 9999.5 => format!("{value:.0}"),
        value if value < 9_999_500.0 => format!("{:.1} k", value / 1e3),
        value if value < 9_999_500_000.0 => format!("{:.1} M", value / 1e6),
        value => format!("{:.1} G", value / 1e9),
    }
}

pub(in crate::control) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days} d {hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::control::fixture;

    /// The lines that a terminal of this size shows.
    fn shown(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| frame.render_widget(screen, frame.area())).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn everything_is_on_the_screen() {
        let (earlier, later) = fixture::reports();
        let screen = Screen::between(&earlier, &later);
        let lines = shown(&screen, 140, screen.height());
        let has = |parts: &[&str]| {
            let found = lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
            assert!(found, "no line with {parts:?} in\n{}", lines.join("\n"));
        };
        has(&["pmdns 1.2.3", "up 0:00:03", "frames in use 1100 of 8191"]);
        has(&["received 500.0 k/s", "hit ratio 98.0 %"]);
        has(&["hit: p50 1.5 us", "miss: p50 1.0 ms"]);
        has(&["│1    █████████▋", "60.0 %", "1.0 %", "39.0 %", "500.0 k/s"]);
        has(&["parse", "█████████▏", "40.0", "25.0"]);
        has(&["lookup", "████████████████", "70.0"]);
        has(&["core 1 → core 2", "packets", "█ ", "100", "edge", "up", "320.0 Mb/s"]);
        has(&["acl_drop", "100/s", "300", "192.0.2.54:53", "10.0 k/s", "1.5 ms", "well"]);
        for title in ["cores", "stages: cycles per packet", "rings", "ports", "drops", "upstreams"]
        {
            has(&[&format!(" {title} ")]);
        }
    }

    #[test]
    fn a_small_terminal_and_an_empty_report_are_no_harm() {
        let (earlier, later) = fixture::reports();
        for (width, height) in [(1, 1), (20, 5), (80, 24)] {
            shown(&Screen::between(&earlier, &later), width, height);
            shown(&Screen::between(&Report::default(), &Report::default()), width, height);
        }
    }

    #[test]
    fn a_note_takes_the_place_of_the_help() {
        let (earlier, later) = fixture::reports();
        let mut screen = Screen::between(&earlier, &later);
        screen.note(Some("no running instance answers".to_owned()));
        assert!(shown(&screen, 140, 3)[0].contains("no running instance answers"));
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.5, 42.4, 9999.0, 10_000.0, 9.9e6, 1.2e7, 3e10].map(amount);
        assert_eq!(texts, ["0", "0.5", "42", "9999", "10.0 k", "9900.0 k", "12.0 M", "30.0 G"]);
        assert_eq!([12.34, 1234.0, 3.5e6].map(time), ["12.3 us", "1.2 ms", "3.5 s"]);
        assert_eq!(uptime(90_061), "1 d 1:01:01");
    }
}
