//! Plots as inline SVG: lines over time, bars, stacked bars, histograms. Colours are CSS classes, so that the
//! page's light and dark looks apply.

use super::xml::Element;

/// The size of a plot's canvas; the page scales it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
/// Room for labels: left of and below the plot, above it.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;
/// Height of a bar and the gap below it.
const BAR: f64 = 18.0;
const GAP: f64 = 8.0;
/// Where bars begin, behind their names, and where they end, before their values.
const NAMES: f64 = 190.0;
const VALUES: f64 = 110.0;
/// The most marks of an axis, besides that at 0.
const MARKS: f64 = 5.0;
/// Height of a histogram.
const HISTOGRAM: f64 = HEIGHT / 2.0;

/// A named line of a plot over time: points of x and y.
pub(super) struct Series {
    /// What it shows.
    pub(super) name: &'static str,
    /// Its points.
    pub(super) points: Vec<(f64, f64)>,
}

/// A bar: a name, parts that lie behind each other, and the value in words.
pub(super) struct Bar {
    /// What it shows.
    pub(super) name: String,
    /// Sizes of its parts.
    pub(super) parts: Vec<f64>,
    /// What stands behind it.
    pub(super) value: String,
}

/// Lines over time, from 0 up. Class `s0`, `s1`, ... colours them.
pub(super) fn lines(series: &[Series], amount: fn(f64) -> String) -> Element {
    let all = || series.iter().flat_map(|one| &one.points);
    let most_x = all().map(|point| point.0).fold(1e-9, f64::max);
    let marks = marks(all().map(|point| point.1).fold(0.0, f64::max));
    let most_y = marks.last().copied().unwrap_or(1.0);
    let place = |x: f64, y: f64| {
        let across = LEFT + x / most_x * (WIDTH - LEFT - 8.0);
        (across, TOP + (1.0 - y / most_y) * (HEIGHT - TOP - BOTTOM))
    };
    let mut svg = canvas(WIDTH, HEIGHT);
    for mark in marks {
        let (_, y) = place(0.0, mark);
        svg = svg.child(line(LEFT, y, WIDTH - 8.0, y).class("grid"));
        svg = svg.child(label(LEFT - 6.0, y + 4.0, "end", &amount(mark)));
    }
    for mark in self::marks(most_x).into_iter().filter(|mark| *mark <= most_x) {
        let (x, _) = place(mark, 0.0);
        let anchor = if x > WIDTH - LEFT { "end" } else { "middle" };
        svg = svg.child(label(x, HEIGHT - 6.0, anchor, &format!("{} s", amount(mark))));
    }
    for (index, one) in series.iter().enumerate() {
        let points: Vec<String> = one
            .points
            .iter()
            .map(|(x, y)| place(*x, *y))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let path = Element::new("polyline").with("points", points.join(" "));
        svg = svg.child(path.class(&format!("line s{index}")));
    }
    svg
}

/// Bars one below the other; a part of size `whole` fills the width. Class `s0`, `s1`, ... colours the parts.
pub(super) fn bars(bars: &[Bar], whole: f64) -> Element {
    let room = WIDTH - NAMES - VALUES;
    let mut svg = canvas(WIDTH, bars.len() as f64 * (BAR + GAP) + GAP);
    for (row, bar) in bars.iter().enumerate() {
        let y = GAP + row as f64 * (BAR + GAP);
        let mut x = NAMES;
        svg = svg.child(label(NAMES - 8.0, y + 13.0, "end", &bar.name));
        svg = svg.child(rectangle(NAMES, y, room, BAR).class("track"));
        for (index, part) in bar.parts.iter().enumerate() {
            let width = (part / whole.max(1e-9)).clamp(0.0, 1.0) * room;
            svg = svg.child(rectangle(x, y, width, BAR).class(&format!("fill s{index}")));
            x += width;
        }
        svg = svg.child(label(WIDTH - VALUES + 8.0, y + 13.0, "start", &bar.value));
    }
    svg
}

/// Columns side by side, each with a name below; a few of the names are shown. All have the class `s{colour}`.
pub(super) fn columns(
    columns: &[(String, u64)],
    colour: usize,
    amount: fn(f64) -> String,
) -> Element {
    let marks = marks(columns.iter().map(|column| column.1).max().unwrap_or(0) as f64);
    let most = marks.last().copied().unwrap_or(1.0);
    let step = (WIDTH - LEFT - 8.0) / columns.len().max(1) as f64;
    let each = columns.len().div_ceil(8).max(1);
    let mut svg = canvas(WIDTH, HISTOGRAM + BOTTOM);
    let height = |count: f64| count / most * (HISTOGRAM - TOP);
    for mark in marks {
        let y = HISTOGRAM - height(mark);
        svg = svg.child(line(LEFT, y, WIDTH - 8.0, y).class("grid"));
        svg = svg.child(label(LEFT - 6.0, y + 4.0, "end", &amount(mark)));
    }
    for (index, (name, count)) in columns.iter().enumerate() {
        let height = height(*count as f64);
        let x = LEFT + index as f64 * step;
        let column = rectangle(x, HISTOGRAM - height, (step - 2.0).max(0.5), height);
        let title = Element::new("title").text(format!("{name}: {count}"));
        svg = svg.child(column.class(&format!("fill s{colour}")).child(title));
        if index % each == 0 {
            // The first and the last would stand out of the canvas.
            let (at, anchor) = match index {
                0 => (x, "start"),
                _ if index + each >= columns.len() => (x + step, "end"),
                _ => (x + step / 2.0, "middle"),
            };
            svg = svg.child(label(at, HISTOGRAM + 16.0, anchor, name));
        }
    }
    svg
}

/// Where an axis that shows values up to `most` has marks: 0, and multiples of 1, 2 or 5 times a power of ten. The last
/// is not below `most`.
fn marks(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / MARKS).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    // Values that were computed may miss a mark by a rounding error.
    let needed = |step: f64| (most / step - 1e-9).ceil();
    let step = steps.into_iter().find(|step| needed(*step) <= MARKS).unwrap_or(most);
    (0..=16)
        .map(f64::from)
        .take_while(|number| *number <= needed(step))
        .map(|number| number * step)
        .collect()
}

/// The legend of a plot's colours.
pub(super) fn legend(names: &[&str]) -> Element {
    let entry = |(index, name): (usize, &&str)| {
        let patch = Element::new("span").class(&format!("patch s{index}")).text("■");
        Element::new("span").class("entry").child(patch).text(format!(" {name}"))
    };
    Element::new("p").class("legend").children(names.iter().enumerate().map(entry))
}

fn canvas(width: f64, height: f64) -> Element {
    Element::new("svg").with("viewBox", format!("0 0 {width:.0} {height:.0}")).with("role", "img")
}

fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Element {
    shape("rect", [("x", x), ("y", y), ("width", width), ("height", height)])
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64) -> Element {
    shape("line", [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)])
}

fn shape<const N: usize>(name: &'static str, places: [(&str, f64); N]) -> Element {
    let place = |shape: Element, (name, value)| shape.with(name, format!("{value:.1}"));
    places.into_iter().fold(Element::new(name), place)
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> Element {
    shape("text", [("x", x), ("y", y)]).with("text-anchor", anchor).text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers_up_to_the_highest_value() {
        assert_eq!(marks(6596.0), [0.0, 2000.0, 4000.0, 6000.0, 8000.0]);
        assert_eq!(marks(5.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(marks(1_000_001.0), [0.0, 500e3, 1e6, 1.5e6]);
        assert_eq!(marks(0.3).len(), 4);
        assert_eq!(marks(0.0).last(), Some(&1.0));
        for most in (1..2000).map(|number| f64::from(number) * 0.37) {
            let marks = marks(most);
            let last = marks[marks.len() - 1];
            assert!(
                last >= most * 0.999_999 && (3..=6).contains(&marks.len()),
                "{most}: {marks:?}"
            );
        }
    }
}
