//! A table whose columns are as wide as their contents, so no number is ever cut. If there is too little room, whole
//! columns are left out, the least important first. The title says how many rows are not shown.

use pmdns_config::narrow::{floor_u64, to_u16, to_usize};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::text::per_second;

/// The widest bar of a narrow table, in columns of the terminal.
const MAX_BAR: usize = 16;
/// The part of a wide table that a bar may have.
const BAR_PART: usize = 3;
/// A narrower bar says nothing.
const MIN_BAR: usize = 4;
/// A text that does not fit is cut to no less than this.
const MIN_TEXT: usize = 8;
/// Title and headings.
const HEAD_ROWS: usize = 2;

/// A table with a title.
pub(super) struct Panel {
    title: &'static str,
    columns: Vec<Column>,
}

/// A column.
pub(super) struct Column {
    head: &'static str,
    cells: Cells,
    /// Columns of the highest rank are left out first; those of rank 0 never.
    rank: u8,
}

enum Cells {
    /// Aligned left. A text that is too long ends with an ellipsis.
    Texts(Vec<Cell>),
    /// Aligned right, never cut.
    Numbers(Vec<Cell>),
    /// Bars, which share the remaining width.
    Bars(Vec<f64>, Color),
    /// Lines of values, the newest at the right, as many as there is room for.
    Sparklines(Vec<Vec<f64>>, Color),
}

/// A text, and whether it stands out.
pub(super) struct Cell {
    text: String,
    is_alarm: bool,
}

impl Cell {
    /// A text that stands out while `value` is not zero.
    pub(super) fn alarm(text: String, value: f64) -> Self {
        Self { text, is_alarm: value > 0.0 }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, is_alarm: false }
    }
}

impl Column {
    pub(super) fn texts(head: &'static str, texts: impl Iterator<Item = String>) -> Self {
        Self { head, cells: Cells::Texts(texts.map(Cell::from).collect()), rank: 0 }
    }

    pub(super) fn numbers<C: Into<Cell>>(
        head: &'static str,
        numbers: impl Iterator<Item = C>,
    ) -> Self {
        Self { head, cells: Cells::Numbers(numbers.map(Into::into).collect()), rank: 0 }
    }

    /// Rates that stand out while they are not zero.
    pub(super) fn alarms(head: &'static str, rates: impl Iterator<Item = f64>) -> Self {
        Self::numbers(head, rates.map(|rate| Cell::alarm(per_second(rate), rate)))
    }

    pub(super) fn bars(shares: impl Iterator<Item = f64>, color: Color) -> Self {
        Self { head: "", cells: Cells::Bars(shares.collect(), color), rank: u8::MAX }
    }

    pub(super) fn sparklines(lines: impl Iterator<Item = Vec<f64>>, color: Color) -> Self {
        Self { head: "", cells: Cells::Sparklines(lines.collect(), color), rank: u8::MAX }
    }

    pub(super) fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Columns of the terminal that it needs.
    fn width(&self) -> usize {
        match &self.cells {
            Cells::Texts(cells) | Cells::Numbers(cells) => {
                let widest = cells.iter().map(|cell| length(&cell.text)).max();
                widest.unwrap_or(0).max(length(self.head))
            }
            Cells::Bars(..) | Cells::Sparklines(..) => MIN_BAR,
        }
    }

    fn rows(&self) -> usize {
        match &self.cells {
            Cells::Texts(cells) | Cells::Numbers(cells) => cells.len(),
            Cells::Bars(shares, _) => shares.len(),
            Cells::Sparklines(lines, _) => lines.len(),
        }
    }
}

impl Panel {
    pub(super) fn new(title: &'static str, columns: Vec<Column>) -> Self {
        Self { title, columns }
    }

    /// Rows of the terminal that show everything.
    pub(super) fn height(&self) -> usize {
        HEAD_ROWS + self.rows().max(1)
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::rows)
    }

    /// Columns of the terminal that the table needs at least, and for all of its columns.
    pub(super) fn widths(&self) -> (usize, usize) {
        let total = |columns: &mut dyn Iterator<Item = &Column>| -> usize {
            columns.map(|column| column.width() + 1).sum::<usize>().saturating_sub(1)
        };
        let least = total(&mut self.columns.iter().filter(|column| column.rank == 0));
        (least.max(length(self.title)), total(&mut self.columns.iter()))
    }

    /// The columns that fit into so many, each with its width.
    fn fitting(&self, room: usize) -> Vec<(&Column, usize)> {
        let mut columns: Vec<_> = self.columns.iter().map(|one| (one, one.width())).collect();
        let needed = |columns: &[(&Column, usize)]| {
            (columns.iter().map(|(_, width)| width + 1).sum::<usize>()).saturating_sub(1)
        };
        while needed(&columns) > room {
            let most = columns.iter().map(|(column, _)| column.rank).max().unwrap_or(0);
            if most == 0 {
                break;
            }
            // The last of those that matter least.
            let last = columns.iter().rposition(|(column, _)| column.rank == most);
            last.map(|index| columns.remove(index));
        }
        let (missing, spare) =
            (needed(&columns).saturating_sub(room), room.saturating_sub(needed(&columns)));
        for (column, width) in &mut columns {
            match column.cells {
                Cells::Bars(..) => *width = (*width + spare).min(MAX_BAR.max(room / BAR_PART)),
                Cells::Sparklines(..) => *width += spare,
                Cells::Texts(_) => {
                    *width = width.saturating_sub(missing).max(MIN_TEXT.min(*width));
                }
                Cells::Numbers(_) => {}
            }
        }
        columns
    }

    /// Draws the table, as many of its rows as there is room for.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        // Where one row is missing, the headings stand in place of the title.
        let headings_at = usize::from(usize::from(area.height) > HEAD_ROWS);
        let first_row = headings_at + 1;
        let (room, shown) =
            (usize::from(area.width), usize::from(area.height).saturating_sub(first_row));
        let dim = Style::new().dim();
        let mut write = |x: usize, y: usize, text: &str, room: usize, style: Style| {
            if y < usize::from(area.height) && x < usize::from(area.width) {
                let (x, y) = (area.x + to_u16(x), area.y + to_u16(y));
                buffer.set_stringn(x, y, text, room, style);
            }
        };
        let rows = self.rows();
        let counted = format!("{} ({shown} of {rows}) ", self.title);
        let title = match rows > shown && length(&counted) < room {
            true => counted,
            false => format!("{} ", self.title),
        };
        if headings_at > 0 {
            write(0, 0, &format!("{title}{}", "─".repeat(room)), room, dim);
        }
        let mut x = 0;
        for (column, width) in self.fitting(room) {
            let is_number = matches!(column.cells, Cells::Numbers(_));
            // In less than the least room, a number is left out rather than cut.
            if is_number && x + width > room {
                break;
            }
            let head_at = if is_number { x + width - length(column.head) } else { x };
            write(head_at, headings_at, column.head, width, dim);
            match &column.cells {
                Cells::Bars(shares, color) => {
                    for (row, share) in shares.iter().take(shown).enumerate() {
                        let style = Style::new().fg(*color);
                        write(x, first_row + row, &bar(*share, width), width, style);
                    }
                }
                Cells::Sparklines(lines, color) => {
                    for (row, line) in lines.iter().take(shown).enumerate() {
                        let style = Style::new().fg(*color);
                        write(x, first_row + row, &sparkline(line, width), width, style);
                    }
                }
                Cells::Texts(cells) | Cells::Numbers(cells) => {
                    for (row, cell) in cells.iter().take(shown).enumerate() {
                        let text = elided(&cell.text, width);
                        let at = if is_number { x + width - length(&text) } else { x };
                        let style = match cell.is_alarm {
                            true => Style::new().fg(Color::Red).bold(),
                            false => Style::new(),
                        };
                        write(at, first_row + row, &text, width, style);
                    }
                }
            }
            x += width + 1;
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The text, or as much of it as there is room for.
fn elided(text: &str, width: usize) -> String {
    match length(text) > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A bar that fills this share of its columns, to an eighth of one.
fn bar(share: f64, columns: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = to_usize(floor_u64((share.clamp(0.0, 1.0) * (columns * 8) as f64).round()));
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// The newest values, one a column, each as high as its share of the highest.
fn sparkline(values: &[f64], columns: usize) -> String {
    const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let shown = &values[values.len().saturating_sub(columns)..];
    let highest = shown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let level = |value: &f64| LEVELS[to_usize(floor_u64((value / highest * 8.0).ceil())).min(8)];
    format!("{}{}", " ".repeat(columns - shown.len()), shown.iter().map(level).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(panel: &Panel, width: u16, height: u16) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        panel.draw(buffer.area, &mut buffer);
        let lines = buffer.content().chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    fn panel() -> Panel {
        let all = |text: &str| [text.to_owned(), "1".to_owned()].into_iter();
        Panel::new(
            "rates",
            vec![
                Column::texts("name", all("2001:db8:1234::53")),
                Column::bars([1.0, 0.5].into_iter(), Color::Green),
                Column::numbers("now", all("1234567")),
                Column::numbers("since", all("7654321")).rank(1),
            ],
        )
    }

    #[test]
    fn a_sparkline_has_the_newest_values_at_the_right() {
        let values = [8.0, 0.0, 1.0, 2.0, 4.0];
        assert_eq!(sparkline(&values, 8), "   █ ▁▂▄");
        assert_eq!(sparkline(&values, 3), "▂▄█", "the highest of those shown");
        assert_eq!(sparkline(&[0.0; 3], 4), "    ");
    }

    #[test]
    fn columns_are_left_out_before_anything_is_cut() {
        let panel = panel();
        assert_eq!(panel.widths(), (25, 38));
        assert_eq!(
            drawn(&panel, 50, 4),
            [
                "rates ────────────────────────────────────────────",
                "name                                   now   since",
                "2001:db8:1234::53 ████████████████ 1234567 7654321",
                "1                 ████████               1       1",
            ]
        );
        assert_eq!(drawn(&panel, 33, 4)[2], "2001:db8:1234::53 1234567 7654321");
        assert_eq!(drawn(&panel, 32, 4)[2].trim_end(), "2001:db8:1234::53 1234567");
        assert_eq!(drawn(&panel, 20, 4)[2], "2001:db8:12… 1234567", "a text, with a mark");
        assert_eq!(drawn(&panel, 50, 3)[0].split('─').next(), Some("rates (1 of 2) "));
        let lowest = drawn(&panel, 50, 2);
        assert!(lowest[0].starts_with("name ") && lowest[1].starts_with("2001:db8"), "{lowest:?}");
    }
}
