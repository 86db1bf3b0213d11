//! The help, in a box over the tables.

use pmdns_config::narrow::to_u16;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _};

/// A key or a word, and what it means.
const LINES: [(&str, &str); 15] = [
    ("q, Esc", "quit"),
    ("space", "pause, and go on"),
    ("s", "sort tables: as usual, by name, by load"),
    ("?", "show and hide this help"),
    ("", ""),
    ("busy", "turns of a core's loop that found packets"),
    ("housek.", "publishing counters, swapping rules"),
    ("cycles", "ticks of the clock a packet took in a stage"),
    ("mean, max, of", "values that wait in a ring, and its slots"),
    ("refused", "values that found a ring or a place taken"),
    ("uneven", "the busiest queue of a port beside the mean"),
    ("RTT", "smoothed round-trip time of an upstream"),
    ("hit ratio", "hits of hits and misses: what the cache was asked"),
    ("local", "answered by a rule: own names, blocked names"),
    ("red", "look here first"),
];
/// Columns of the keys.
const KEYS: usize = 15;

/// Draws it, as much of it as there is room for. It covers whole lines, so that it cuts no number.
pub(super) fn draw(area: Rect, buffer: &mut Buffer) {
    let height = to_u16(LINES.len() + 2).min(area.height);
    let place = Rect { y: area.y + (area.height - height) / 2, height, ..area };
    let line = |(key, meaning): &(&str, &str)| Line::from(format!(" {key:<KEYS$}{meaning}"));
    let block = Block::bordered().title(" help ").title_alignment(Alignment::Center);
    Clear.render(place, buffer);
    let text = Paragraph::new(LINES.iter().map(line).collect::<Vec<_>>());
    text.block(block).style(Style::new().bold()).render(place, buffer);
}
