//! The figures of a comparison, which plotters draws as SVG: bars and curves, with the spread of their rounds.

use std::io;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use pmdns_config::narrow::to_u32;

use crate::raw::{Line, Results, Summary};

/// In pixels, as every size here.
const WIDTH: u32 = 720;
const CURVES_HEIGHT: u32 = 380;
/// A bar and the gap to the next one.
const BAR: u32 = 26;
/// Room for the names of programs.
const NAMES: u32 = 150;
const TEXT: (&str, i32) = ("sans-serif", 15);
/// Loads no further apart than this are one.
const SAME_LOAD: f64 = 1.02;
/// Distinguishable by people who see red and green alike (Okabe and Ito). A server has one colour in every figure.
const COLOURS: [(&str, RGBColor); 7] = [
    ("pmdns", RGBColor(0x00, 0x72, 0xb2)),
    ("knot-xdp", RGBColor(0xd5, 0x5e, 0x00)),
    ("unbound", RGBColor(0x00, 0x9e, 0x73)),
    ("pdns-recursor", RGBColor(0xcc, 0x79, 0xa7)),
    ("dnsdist", RGBColor(0xe6, 0x9f, 0x00)),
    ("bind", RGBColor(0x56, 0xb4, 0xe9)),
    ("knot-resolver", BLACK),
];
/// What is no server: a program that is measured beside them.
const OTHER: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// Throughput by group, as bars.
const BARS: [(&str, &str, &str); 10] = [
    ("virtio_user", "throughput-virtio-user", "frames a second over virtio-user, one core"),
    ("veth", "throughput-veth", "replies a second, XDP on veth, kxdpgun"),
    ("cached", "throughput-cached", "cached answers a second, one CPU each, dnsperf"),
    (
        "cached_kxdpgun",
        "throughput-cached-kxdpgun",
        "cached answers a second, kernel sockets, kxdpgun",
    ),
    ("cold", "throughput-cold", "answers a second, cold cache, dnsperf"),
    ("miss", "throughput-miss", "new names a second, one CPU each, dnsperf"),
    ("miss_kxdpgun", "throughput-miss-kxdpgun", "new names a second, one CPU each, kxdpgun"),
    (
        "mixed",
        "throughput-mixed",
        "one new name beside nine cached ones, answers a second, dnsperf",
    ),
    ("mixed_kxdpgun", "throughput-mixed-kxdpgun", "the same mix, answers a second, kxdpgun"),
    ("capsule", "throughput-capsule", "frames a second, forwarded and parsed"),
];

/// What came of drawing; in memory it does not fail.
type Drawn<T> = Result<T, DrawingAreaErrorKind<io::Error>>;
type Page<'s> = DrawingArea<SVGBackend<'s>, Shift>;
/// Lines over the load that was offered, by name. At each load: the lowest round, the median, the highest.
type Curves = Vec<(String, Vec<(f64, [f64; 3])>)>;

/// Every figure there are results for: file name without its ending, and the SVG.
pub(crate) fn all(results: &Results) -> Drawn<Vec<(&'static str, String)>> {
    let mut figures = Vec::new();
    for (group, file, title) in BARS {
        let summaries = results.summaries(group);
        if !summaries.is_empty() {
            figures.push((file, bars(title, &summaries)?));
        }
    }
    let load = ["load", "load_steps"];
    let own = curves(results, &load, Some("pmdns"), |line| line.rate);
    let goodput = curves(results, &["veth_load", "cached_kxdpgun_load"], None, |line| line.rate);
    // Without answers there is no latency.
    let latency = |line: &Line, figure: &str| line.figure(figure).filter(|us| *us > 0.0);
    let mean = curves(results, &["cached_latency"], None, |line| latency(line, "latency_us"));
    let ceiling = results.group("load").find(|line| line.program.starts_with("ceiling"));
    let ceiling = ceiling.and_then(|line| line.rate).unwrap_or(f64::INFINITY);
    let percentiles = [("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us")];
    let servers = [("load", "pmdns"), ("load_forward", "forward")];
    let percentiles = servers.iter().flat_map(|(group, server)| {
        percentiles.iter().flat_map(move |(name, figure)| {
            curves(results, &[group], Some(&format!("{server} {name}")), |line| {
                // Past the ceiling latency would be the length of a queue.
                latency(line, figure).filter(|_| line.offered < Some(ceiling))
            })
        })
    });
    for (file, title, unit, curves) in [
        ("goodput", "goodput past saturation, kxdpgun", "replies/s", goodput),
        ("latency", "mean latency against load, dnsperf", "us", mean),
        (
            "latency-virtio-user",
            "latency over virtio-user, pmdns and our plain loop",
            "us",
            percentiles.collect(),
        ),
        ("goodput-virtio-user", "pmdns over virtio-user: goodput", "right answers/s", own),
    ] {
        let values = || curves.iter().flat_map(|(_, points)| points).flat_map(|point| point.1);
        let Some(most) = values().max_by(f64::total_cmp) else { continue };
        // Times have an axis of whole decades.
        let decade = |value: f64| 10_f64.powf(value.log10().floor());
        let decades = decade(values().fold(most, f64::min))..decade(most) * 10.0;
        let svg = match unit {
            "us" => draw(title, unit, &curves, decades.log_scale()),
            _ => draw(title, unit, &curves, 0.0..most * 1.05),
        };
        figures.push((file, svg?));
    }
    Ok(figures)
}

/// The lines of these groups, by their programs if no name is given; rounds at about one load are a point.
fn curves(
    results: &Results,
    groups: &[&str],
    name: Option<&str>,
    value: impl Fn(&Line) -> Option<f64>,
) -> Curves {
    let mut curves: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for line in groups.iter().flat_map(|group| results.group(group)) {
        let (Some(load), Some(value)) = (line.offered, value(line)) else { continue };
        let name = name.unwrap_or(&line.program);
        match curves.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rounds)) => rounds.push((load, value)),
            None => curves.push((name, vec![(load, value)])),
        }
    }
    let point = |rounds: &[(f64, f64)]| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round.1).collect();
        values.sort_by(f64::total_cmp);
        let (middle, last) = ((rounds.len() - 1) / 2, rounds.len() - 1);
        (rounds[middle].0, [values[0], values[middle], values[last]])
    };
    let points = |(name, mut rounds): (&str, Vec<(f64, f64)>)| {
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rounds = rounds.chunk_by(|a, b| b.0 <= a.0 * SAME_LOAD);
        (name.to_owned(), rounds.map(point).collect())
    };
    curves.into_iter().map(points).collect()
}

/// Horizontal bars of medians, on each its spread.
fn bars(title: &str, summaries: &[(String, Summary)]) -> Drawn<String> {
    let rows = to_u32(summaries.len());
    let most = summaries.iter().map(|(_, sum)| sum.high).fold(1.0, f64::max);
    svg(72 + BAR * rows, title, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(6)
            .margin_left(NAMES)
            .margin_right(70)
            .x_label_area_size(30)
            .build_cartesian_2d(0.0..most, f64::from(rows)..0.0)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().disable_y_axis().light_line_style(TRANSPARENT);
        mesh.x_labels(8).x_label_formatter(&|value| short(*value)).label_style(TEXT).draw()?;
        let area = chart.plotting_area();
        for (row, (program, sum)) in (0..).map(f64::from).zip(summaries) {
            let (middle, &Summary { low, median, high, .. }) = (row + 0.5, sum);
            let name = Text::new(program.clone(), (-8, 0), text(HPos::Right));
            area.draw(&(EmptyElement::at((0.0, middle)) + name))?;
            let bar = [(0.0, row + 0.15), (median, row + 0.85)];
            area.draw(&Rectangle::new(bar, colour_of(program).filled()))?;
            // A white edge keeps the spread visible on a dark bar.
            for style in [WHITE.stroke_width(3), BLACK.stroke_width(1)] {
                area.draw(&ErrorBar::new_horizontal(middle, low, median, high, style, 6))?;
            }
            let median = Text::new(short(median), (8, 0), text(HPos::Left));
            area.draw(&(EmptyElement::at((high, middle)) + median))?;
        }
        Ok(())
    })
}

/// Curves on this axis of values; their names stand right of it.
fn draw<Y>(title: &str, unit: &str, curves: &Curves, values: Y) -> Drawn<String>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let loads = curves.iter().flat_map(|(_, points)| points).map(|point| point.0);
    let loads = 0.0..loads.fold(1.0, f64::max) * 1.05;
    svg(CURVES_HEIGHT, title, |canvas| {
        let (left, names) = canvas.split_horizontally(WIDTH - NAMES);
        let mut chart = ChartBuilder::on(&left)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(loads, values)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).label_style(TEXT).axis_desc_style(TEXT);
        mesh.x_labels(8).x_label_formatter(&|load| short(*load)).x_desc("offered/s");
        mesh.y_labels(8).y_label_formatter(&|value| short(*value)).y_desc(unit).draw()?;
        for (row, (name, points)) in (0..).zip(curves) {
            // Several curves of one server are shades of its colour.
            let above = curves.iter().take_while(|curve| curve.0 != *name);
            let alike = above.filter(|curve| colour_of(&curve.0) == colour_of(name));
            let colour = colour_of(name).mix(alike.map(|_| 0.65).product());
            let line = points.iter().map(|(load, values)| (*load, values[1]));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            chart.draw_series(points.iter().map(|(load, [low, median, high])| {
                ErrorBar::new_vertical(*load, *low, *median, *high, colour.filled(), 8)
            }))?;
            names.draw(&Text::new(name.as_str(), (18, 20 + 20 * row), text(HPos::Left)))?;
            names.draw(&Circle::new((8, 20 + 20 * row), 4, colour.filled()))?;
        }
        Ok(())
    })
}

/// A white page with a title.
fn svg(height: u32, title: &str, draw: impl FnOnce(&Page<'_>) -> Drawn<()>) -> Drawn<String> {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    canvas.fill(&WHITE)?;
    draw(&canvas.titled(title, ("sans-serif", 18))?)?;
    canvas.present()?;
    drop(canvas);
    Ok(svg)
}

/// Text left or right of a point.
fn text(side: HPos) -> TextStyle<'static> {
    TextStyle::from(TEXT.into_font()).pos(Pos::new(side, VPos::Center))
}

/// The colour of a server, whatever it is started with.
fn colour_of(program: &str) -> RGBColor {
    let own = COLOURS.iter().find(|(server, _)| program.starts_with(server));
    own.map_or(OTHER, |(_, colour)| *colour)
}

/// A number in three digits or so.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", (v / 1e4).round() / 1e2),
        v if v >= 1e3 => format!("{} k", (v / 1e2).round() / 1e1),
        v => format!("{}", (v * 1e2).round() / 1e2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reports/plots");

    fn read(name: &str) -> String {
        std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
    }

    /// The book's figures, drawn again.
    fn figures() -> Vec<(&'static str, String)> {
        all(&Results::parse(&read("results.jsonl")).unwrap()).unwrap()
    }

    /// The texts of a figure: the tag, what it says, and what is drawn after it.
    fn texts(svg: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        svg.split("<text").skip(1).map(|part| {
            let (tag, rest) = part.split_once('>').unwrap();
            let (text, after) = rest.split_once("</text>").unwrap();
            (tag, text.trim(), after.trim())
        })
    }

    fn attribute<'s>(tag: &'s str, name: &str) -> &'s str {
        let (_, value) = tag.split_once(&format!(" {name}=\"")).unwrap();
        value.split_once('"').unwrap().0
    }

    /// The number that `short` wrote.
    fn number(text: &str) -> Option<f64> {
        let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
        let unit = [("", 1.0), ("k", 1e3), ("M", 1e6)].iter().find(|(name, _)| *name == unit)?;
        Some(digits.parse::<f64>().ok()? * unit.1)
    }

    #[test]
    fn the_book_has_the_figures_of_its_results() {
        let figures = figures();
        for (name, svg) in &figures {
            let kept = read(&format!("{name}.svg"));
            assert!(
                kept == *svg,
                "{name}.svg is not of results.jsonl: docs/reports/2026-11-benchmarks.md, redraw"
            );
        }
        assert_eq!(figures.len() + 1, std::fs::read_dir(FOLDER).unwrap().count());
    }

    #[test]
    fn d16_a_server_has_one_colour_in_every_plot() {
        let mut seen = 0;
        for (figure, svg) in figures() {
            for (_, program, shape) in texts(&svg) {
                let own = COLOURS.iter().find(|(server, _)| program.starts_with(server));
                if let Some((_, RGBColor(r, g, b))) = own
                    && (shape.starts_with("<rect") || shape.starts_with("<circle"))
                {
                    let colour = format!("#{r:02X}{g:02X}{b:02X}");
                    assert_eq!(attribute(shape, "fill"), colour, "{program} in {figure}");
                    seen += 1;
                }
            }
        }
        assert!(seen >= 35, "{seen} servers in the plots");
        let values: std::collections::BTreeSet<_> = COLOURS.iter().map(|(_, c)| c.rgb()).collect();
        assert_eq!(values.len(), COLOURS.len());
    }

    #[test]
    fn ticks_are_round() {
        for (figure, svg) in figures() {
            for (axis, anchor) in [("load", "middle"), ("values", "end")] {
                let ticks: Vec<f64> = texts(&svg)
                    .filter(|(tag, ..)| attribute(tag, "text-anchor") == anchor)
                    .filter_map(|(_, text, _)| number(text))
                    .collect();
                let step = ticks.iter().copied().filter(|tick| *tick > 0.0).fold(1e9, f64::min);
                let digit = step / 10_f64.powf(step.log10().floor());
                let is_latency = axis == "values" && figure.starts_with("latency");
                let digits: &[f64] = if is_latency { &[1.0] } else { &[1.0, 2.0, 5.0] };
                assert!(digits.contains(&digit), "{figure}, {axis}: steps of {step}");
                for (index, tick) in (0_i32..).zip(&ticks) {
                    let wanted = if is_latency { 10_f64.powi(index) } else { f64::from(index) };
                    assert_eq!(*tick, step * wanted, "{figure}, {axis}: {ticks:?}");
                }
            }
        }
    }

    #[test]
    fn no_text_is_clipped() {
        for (figure, svg) in figures() {
            for (tag, text, _) in texts(&svg).filter(|(tag, ..)| !tag.contains("rotate")) {
                let number = |name| attribute(tag, name).parse::<f64>().unwrap();
                let width = number("font-size") * 0.6 * text.len() as f64;
                let left = match attribute(tag, "text-anchor") {
                    "start" => number("x"),
                    "middle" => number("x") - width / 2.0,
                    _ => number("x") - width,
                };
                let inside = left >= 0.0 && left + width <= f64::from(WIDTH);
                assert!(inside, "{text} in {figure}: {left} and {width} wide");
            }
        }
    }

    #[test]
    fn rounds_at_one_load_become_one_point() {
        let text = r#"{"group":"veth_load","program":"a","offered":100,"rate":90}
{"group":"veth_load","program":"a","offered":101,"rate":70}
{"group":"veth_load","program":"a","offered":102,"rate":80}
{"group":"veth_load","program":"a","offered":200,"rate":110}"#;
        let results = Results::parse(text).unwrap();
        let curves = curves(&results, &["veth_load"], None, |line| line.rate);
        let points = vec![(101.0, [70.0, 80.0, 90.0]), (200.0, [110.0, 110.0, 110.0])];
        assert_eq!(curves, [("a".to_owned(), points)]);
        let [(name, svg)] = &all(&results).unwrap()[..] else { panic!("one figure") };
        assert!(*name == "goodput" && svg.ends_with("</svg>\n"), "{name}: {svg}");
    }
}
