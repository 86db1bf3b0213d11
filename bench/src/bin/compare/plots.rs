//! Plots as SVG: bars with their spread, and curves.

use std::fmt::Write as _;

use crate::raw::{Line, Results, Summary};

const WIDTH: f64 = 720.0;
const BAR: f64 = 26.0;
/// Where bars begin, right of their names.
const NAMES: f64 = 180.0;
const CURVE_HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
/// Where the axes end, below title and name.
const TOP: f64 = 56.0;
/// Loads no further apart than this are one.
const SAME_LOAD: f64 = 1.02;
/// Distinguishable by people who see red and green alike (Okabe and Ito). A server has one colour in every plot.
const COLOURS: [(&str, &str); 7] = [
    ("pmdns", "#0072b2"),
    ("knot-xdp", "#d55e00"),
    ("unbound", "#009e73"),
    ("pdns-recursor", "#cc79a7"),
    ("dnsdist", "#e69f00"),
    ("bind", "#56b4e9"),
    ("knot-resolver", "#000000"),
];
/// What is no server: a program that is measured beside them.
const OTHER: &str = "#999999";

/// Throughput by group, as bars.
const BARS: [(&str, &str, &str); 6] = [
    ("virtio_user", "throughput-virtio-user", "frames a second over virtio-user, one core"),
    ("veth", "throughput-veth", "replies a second, XDP on veth, kxdpgun"),
    ("cached", "throughput-cached", "cached answers a second, one CPU each, dnsperf"),
    (
        "cached_kxdpgun",
        "throughput-cached-kxdpgun",
        "cached answers a second, kernel sockets, kxdpgun",
    ),
    ("cold", "throughput-cold", "answers a second, cold cache, dnsperf"),
    ("capsule", "throughput-capsule", "frames a second, forwarded and parsed"),
];

/// A line of points for each program: x and y.
pub(crate) type Curves = Vec<(String, Vec<(f64, f64)>)>;

/// Every plot there are figures for: file name without its ending, and the SVG.
pub(crate) fn all(results: &Results) -> Vec<(String, String)> {
    let mut plots: Vec<(String, String)> = BARS
        .iter()
        .map(|(group, file, title)| ((*file).to_owned(), title, results.summaries(group)))
        .filter(|(_, _, summaries)| !summaries.is_empty())
        .map(|(file, title, summaries)| (file, bars(title, &summaries)))
        .collect();
    let goodput = points(results, &["veth_load", "cached_kxdpgun_load"], |line| line.rate);
    if !goodput.is_empty() {
        let svg = curves("goodput past saturation (kxdpgun)", "offered/s", "replies/s", &goodput);
        plots.push(("goodput".to_owned(), svg));
    }
    let latency = points(results, &["cached_latency"], |line| line.figure("latency_us"));
    if !latency.is_empty() {
        let svg = curves("mean latency against load (dnsperf)", "offered/s", "us", &latency);
        plots.push(("latency".to_owned(), svg));
    }
    plots.extend(under_load(results));
    plots
}

/// Latency and goodput of pmdns alone, by pmdns-load; latency past the ceiling would be the length of a queue.
fn under_load(results: &Results) -> Vec<(String, String)> {
    let collect = |figure: &dyn Fn(&Line) -> Option<f64>| {
        let lines = results.group("load").chain(results.group("load_steps"));
        thinned(lines.filter_map(|line| Some((line.offered?, figure(line)?))).collect())
    };
    let goodput = vec![("pmdns".to_owned(), collect(&|line| line.rate))];
    if goodput[0].1.is_empty() {
        return Vec::new();
    }
    let ceiling = results.group("load").find(|line| line.program.starts_with("ceiling"));
    let ceiling = ceiling.and_then(|line| line.rate).unwrap_or(f64::INFINITY);
    let percentiles = ["p50", "p99", "p999"].map(|name| {
        let figure = format!("{name}_us");
        let points = collect(&|line| line.figure(&figure));
        (name.to_owned(), points.into_iter().filter(|point| point.0 <= ceiling).collect())
    });
    let plot = |file: &str, title: &str, y_name: &str, lines: &Curves| {
        (file.to_owned(), curves(title, "offered/s", y_name, lines))
    };
    vec![
        plot(
            "latency-virtio-user",
            "pmdns over virtio-user: latency against load",
            "us",
            &percentiles.to_vec(),
        ),
        plot("goodput-virtio-user", "pmdns over virtio-user: goodput", "right answers/s", &goodput),
    ]
}

/// What lines of these groups say over what was offered; rounds at about the same load become their median.
fn points(results: &Results, groups: &[&str], y: impl Fn(&Line) -> Option<f64>) -> Curves {
    let mut curves: Curves = Vec::new();
    for line in groups.iter().flat_map(|group| results.group(group)) {
        let (Some(offered), Some(value)) = (line.offered, y(line)) else { continue };
        match curves.iter_mut().find(|(program, _)| *program == line.program) {
            Some((_, points)) => points.push((offered, value)),
            None => curves.push((line.program.clone(), vec![(offered, value)])),
        }
    }
    for (_, points) in &mut curves {
        *points = thinned(std::mem::take(points));
    }
    curves
}

/// In order, those of about the same load replaced by their median.
fn thinned(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.chunk_by(|a, b| b.0 <= a.0 * SAME_LOAD).map(middle).collect()
}

/// The point of median height.
fn middle(points: &[(f64, f64)]) -> (f64, f64) {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    sorted[(sorted.len() - 1) / 2]
}

/// Horizontal bars of medians, a thin line from the lowest to the highest round on each.
pub(crate) fn bars(title: &str, summaries: &[(String, Summary)]) -> String {
    let most = summaries.iter().map(|(_, sum)| sum.high).fold(1.0, f64::max);
    let scale = |value: f64| value / most * (WIDTH - NAMES - 110.0);
    let mut svg = open(title, 50.0 + BAR * summaries.len() as f64);
    for (row, (program, sum)) in summaries.iter().enumerate() {
        let y = 40.0 + BAR * row as f64;
        let colour = colour_of(program).unwrap_or(OTHER);
        let (low, high, text_y) = (NAMES + scale(sum.low), NAMES + scale(sum.high), y + 14.0);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"{colour}\"/>\
             <path d=\"M{low:.1} {}H{high:.1}\" stroke=\"black\"/>\
             <text x=\"{:.1}\" y=\"{text_y}\">{}</text>",
            NAMES - 8.0,
            escape(program),
            scale(sum.median),
            y + 9.0,
            high + 6.0,
            short(sum.median),
        );
    }
    svg + "</svg>\n"
}

/// One line for each program, axes from zero.
pub(crate) fn curves(title: &str, x_name: &str, y_name: &str, curves: &Curves) -> String {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let (most_x, most_y) =
        all().fold((1.0_f64, 1.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let (left, bottom) = (MARGIN, CURVE_HEIGHT - MARGIN);
    let right = WIDTH - 160.0;
    let x = |value: f64| left + value / most_x * (right - left);
    let y = |value: f64| bottom - value / most_y * (bottom - TOP);
    let mut svg = open(title, CURVE_HEIGHT);
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{x_name}</text>\
         <text x=\"12\" y=\"40\">{y_name}</text>",
        bottom + 36.0
    );
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x(most_x * part),
            bottom + 18.0,
            short(most_x * part),
            left - 6.0,
            y(most_y * part) + 4.0,
            short(most_y * part),
        );
    }
    for (index, (program, points)) in curves.iter().enumerate() {
        // Curves of something else, of percentiles for example, are told apart by their order.
        let colour = colour_of(program).unwrap_or(COLOURS[index % COLOURS.len()].1);
        for point in points {
            let (x, y) = (x(point.0), y(point.1));
            let _ =
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let path: Vec<String> =
            points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            path.join(" "),
            right + 10.0,
            50.0 + 18.0 * index as f64,
            escape(program),
        );
    }
    svg + "</svg>\n"
}

/// The colour of a server, whatever it is started with.
fn colour_of(program: &str) -> Option<&'static str> {
    COLOURS.iter().find(|(server, _)| program.starts_with(server)).map(|(_, colour)| *colour)
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\">{}</text>\n",
        escape(title)
    )
}

/// A number in three digits or so.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e3 => format!("{:.0} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs of a plot with their colours.
    fn colours(svg: &str) -> Vec<(&str, &str)> {
        let between = |text: &'static str, at: usize, end: char| {
            let start = svg[at..].find(text).map(|found| at + found + text.len());
            start.and_then(|start| svg[start..].split(end).next())
        };
        let names = svg.match_indices("</text>").filter_map(|(end, _)| {
            let start = svg[..end].rfind('>')? + 1;
            let tag = svg[..start].rfind("<text")?;
            let own =
                svg[tag..start].split("fill=\"").nth(1).and_then(|rest| rest.split('"').next());
            let is_bar = svg[end..].starts_with("</text><rect");
            let colour = own.or_else(|| between("fill=\"", end, '"').filter(|_| is_bar))?;
            Some((&svg[start..end], colour))
        });
        names.collect()
    }

    #[test]
    fn d16_a_server_has_one_colour_in_every_plot() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/plots");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            let svg = std::fs::read_to_string(&file).unwrap();
            for (program, colour) in colours(&svg) {
                if let Some(own) = colour_of(program) {
                    assert_eq!(colour, own, "{program} in {}", file.display());
                    seen += 1;
                }
            }
        }
        assert!(seen >= 25, "{seen} servers in the plots");
        let values: std::collections::BTreeSet<_> =
            COLOURS.iter().map(|(_, colour)| colour).collect();
        assert_eq!(values.len(), COLOURS.len());
        let text = r#"{"group":"cached","program":"dnsdist","rate":90}
{"group":"cached","program":"pmdns-fused","rate":80}"#;
        let some = Results::parse(text).unwrap().summaries("cached");
        let bars = bars("bars", &some);
        assert_eq!(colours(&bars), [("dnsdist", "#e69f00"), ("pmdns-fused", "#0072b2")]);
        let lines = vec![("dnsdist".to_owned(), vec![(1.0, 1.0)])];
        assert_eq!(colours(&curves("curves", "x", "y", &lines)), [("dnsdist", "#e69f00")]);
    }

    #[test]
    fn rounds_at_one_load_become_one_point() {
        let text = r#"{"group":"veth_load","program":"a","offered":100,"rate":90}
{"group":"veth_load","program":"a","offered":101,"rate":70}
{"group":"veth_load","program":"a","offered":102,"rate":80}
{"group":"veth_load","program":"a","offered":200,"rate":110}"#;
        let results = Results::parse(text).unwrap();
        let curves = points(&results, &["veth_load"], |line| line.rate);
        assert_eq!(curves, [("a".to_owned(), vec![(102.0, 80.0), (200.0, 110.0)])]);
        let svg = &all(&results)[0].1;
        assert!(svg.contains("<polyline") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
