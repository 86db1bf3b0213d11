//! What is on the screen, at every size of it.

use std::collections::BTreeSet;

use pmdns_control::hitters::{HitterRow, HitterTable};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::rates::StreamRate;
use crate::top::hitters::Tops;
use crate::top::traffic::History;
use pmdns_control::testing as fixture;

/// The lines that a terminal of this size shows.
fn shown(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| frame.render_widget(screen, frame.area())).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    lines.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
}

fn screen() -> Screen {
    let (earlier, later) = fixture::reports();
    Screen::between(&earlier, &later)
}

/// A loaded machine: every number as long as it gets, long names, more rows than fit.
fn loaded() -> Screen {
    let mut screen = screen();
    let rates = &mut screen.rates;
    let core = rates.cores[0].clone();
    rates.cores = (0..8)
        .map(|number| {
            let mut core = core.clone();
            core.core = 120 + number;
            core
        })
        .collect();
    for (number, core) in rates.cores.iter_mut().enumerate() {
        (core.busy, core.idle, core.packets) = (1.0, 0.123, 9_999_000.0 - number as f64);
    }
    for stage in &mut rates.stages {
        (stage.ticks_per_packet, stage.packets, stage.packets_per_batch) = (8765.4, 8001.0, 63.9);
    }
    let ring = RingLoad { ends: "core 127 → slow path 15".to_owned(), ..rates.rings[0].clone() };
    rates.rings = vec![ring; 5];
    rates.ports[0].port = "a-name-of-thirty-two-characters!".to_owned();
    (rates.ports[0].rx_frames, rates.ports[0].tx_frames, rates.ports[0].lost) =
        (8001.0, 7999.0, 1234.0);
    let kinds = rates.qtypes.clone();
    rates.qtypes = kinds.iter().cycle().take(16).cloned().collect();
    (rates.cache.evicted, rates.cache.fill) = (9_998_000.0, 0.987);
    rates.upstreams[0].address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:53".to_owned();
    rates.upstreams[0].srtt_ms = 1234.5;
    let hop = screen.next_hops[0].clone();
    screen.next_hops = ["fd00:1234:5678:9abc:def0:1234:5678:9abc", "203.0.113.254"]
        .map(|address| NextHopReport { address: address.to_owned(), ..hop.clone() })
        .into();
    let lost = &mut screen.next_hops[0];
    (lost.state, lost.mac, lost.age_seconds) = ("failed".to_owned(), None, Some(8_000_000));
    rates.streams = ["quic", "https", "tls", "tcp"]
        .map(|transport| StreamRate {
            transport: transport.to_owned(),
            open: 1_048_576,
            accepted: 8002.0,
            queries: 9_999_000.0,
            refused: 4321.0,
        })
        .into();
    for punt in &mut rates.punts {
        (punt.passed, punt.limited, punt.full) = (8003.0, 8004.0, 8005.0);
    }
    (rates.received, rates.transmitted, rates.dropped, rates.misses) =
        (9_999_000.0, 8001.0, 4321.0, 1001.0);
    screen
}

/// The numbers of these lines, but those of rows not shown.
fn numbers(lines: &[String]) -> BTreeSet<String> {
    let is_title = |line: &str| line.contains('─');
    let lines = lines.iter().filter(|line| !is_title(line));
    let words = lines.flat_map(|line| line.split_whitespace());
    // An address that is cut says so by its mark.
    let is_number =
        |word: &&str| word.contains(|c: char| c.is_ascii_digit()) && !word.ends_with('…');
    words.filter(is_number).map(str::to_owned).collect()
}

#[test]
fn d02_no_digit_is_ever_cut() {
    let mut history = History::default();
    history.add(&screen().rates);
    let [over_time, mut helped] = [screen(), loaded()].map(|one| one.with_history(&mut history));
    helped.show_help(true);
    for screen in [screen(), loaded(), over_time, helped] {
        let whole = numbers(&shown(&screen, 400, 200));
        for width in (20..=250).step_by(13) {
            for height in (5..=80).step_by(15) {
                let lines = shown(&screen, width, height);
                let numbers = numbers(&lines);
                let cut: Vec<_> = numbers.difference(&whole).collect();
                assert!(cut.is_empty(), "{cut:?} at {width}x{height}:\n{}", lines.join("\n"));
            }
        }
    }
}

#[test]
fn d02_the_smallest_terminal_shows_every_table() {
    let lines = shown(&loaded(), 80, 24).join("\n");
    for part in [
        "100.0 %",
        "8765.4",
        "8001/s",
        "core 127 → slow path 15",
        "7999/s",
        "1234/s",
        "acl_drop",
        "fd00:1234:5678:9abc:def0:1234:5678:9abc",
        "failed",
        "quic",
        "1048576",
        "4321/s",
        "link    8003/s",
    ] {
        assert!(lines.contains(part), "no {part:?} in\n{lines}");
    }
    let lines = shown(&screen(), 80, 24).join("\n");
    for part in [
        "60.0 %",
        "39.0 %",
        "receive",
        "hit ratio 98.0 %",
        "core 1 → core 2",
        "acl_drop",
        "192.0.2.54:53",
        "192.0.2.254",
        "reachable",
        "tcp",
        "streams ─",
        "to the kernel (",
    ] {
        assert!(lines.contains(part), "no {part:?} in\n{lines}");
    }
    assert!(lines.contains("cache 25.0 % full") && lines.contains("NOERROR 90.0 %"), "{lines}");
    // Without those two there is room for nearly every stage.
    let mut without = screen();
    (without.rates.streams, without.rates.punts) = Default::default();
    let lines = shown(&without, 80, 24).join("\n");
    assert!(lines.contains("policy") && lines.contains("encode"), "{lines}");
}

#[test]
fn everything_is_on_the_screen() {
    let screen = screen();
    let lines = shown(&screen, 140, screen.height(140));
    let has = |parts: &[&str]| {
        let found = lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line with {parts:?} in\n{}", lines.join("\n"));
    };
    has(&["pmdns 1.2.3", "up 0:00:03", "frames in use 1100 of 8191"]);
    has(&["received 500.0 k/s", "local 0/s", "hit ratio 98.0 %"]);
    has(&["latency p50/p99/p99.9:", "hit 1.5 us/", "miss 1.0 ms/"]);
    has(&["   1 █████████████▊", "60.0 %", "1.0 %", "39.0 %", "500.0 k/s"]);
    has(&["parse", "████████████▋", "40.0", "25.0"]);
    has(&["lookup", "██████████████████████", "70.0"]);
    has(&["hit ratio", "98.0 %"]);
    has(&["NOERROR", "90.0 %", "450.0 k/s"]);
    has(&["AAAA", "25.0 %", "125.0 k/s"]);
    has(&["core 1 → core 2", "packets", "100", "edge", "up", "320.0 Mb/s"]);
    has(&["acl_drop", "100/s", "300", "192.0.2.54:53", "10.0 k/s", "1.5 ms", "well"]);
    has(&["tcp", "7", "100/s", "1000/s", "2.0/s", "link", "0/s"]);
    has(&["control", "10/s", "0/s"]);
    has(&["streams", "50/s", "10/s"]);
    has(&["192.0.2.254", "edge", "reachable", "02:00:00:00:00:fe", "0:00:03", "2"]);
    let titles = ["cores", "stages: cycles per packet", "rings", "ports", "drops", "upstreams"];
    for title in
        titles.into_iter().chain(["next hops", "cache", "answers by rcode", "answers by type"])
    {
        has(&[&format!("{title} ─")]);
    }
}

#[test]
fn next_hops_are_red_unless_reachable_and_lost_ones_come_first() {
    let (earlier, mut later) = fixture::reports();
    let well = later.next_hops[0].clone();
    for state in ["stale", "failed", "incomplete"] {
        let (state, address) = (state.to_owned(), format!("192.0.2.{}", later.next_hops.len()));
        later.next_hops.push(NextHopReport { state, address, ..well.clone() });
    }
    let screen = Screen::between(&earlier, &later);
    let mut terminal = Terminal::new(TestBackend::new(140, screen.height(140))).unwrap();
    terminal.draw(|frame| frame.render_widget(&screen, frame.area())).unwrap();
    let cells: Vec<_> = terminal.backend().buffer().content().chunks(140).collect();
    let text = |line: &[ratatui::buffer::Cell]| -> String {
        line.iter().map(|cell| cell.symbol()).collect()
    };
    let title = cells.iter().position(|line| text(line).starts_with("next hops ─")).unwrap();
    let states: Vec<(String, bool)> = cells[title + 2..]
        .iter()
        .map(|line| {
            let red = line.iter().filter(|cell| cell.fg == Color::Red);
            let red: String = red.map(|cell| cell.symbol()).collect();
            let state = text(line).split_whitespace().nth(2).unwrap().to_owned();
            let is_red = red.contains(&*state);
            (state, is_red)
        })
        .collect();
    let wanted = [("stale", true), ("failed", true), ("incomplete", true), ("reachable", false)];
    assert_eq!(states, wanted.map(|(state, is_red)| (state.to_owned(), is_red)));
}

#[test]
fn without_upstreams_over_ports_there_is_no_panel_of_next_hops() {
    let (earlier, mut later) = fixture::reports();
    later.next_hops.clear();
    let screen = Screen::between(&earlier, &later);
    let lines = shown(&screen, 140, screen.height(140)).join("\n");
    assert!(!lines.contains("next hop"), "{lines}");
}

#[test]
fn d09_one_frame_for_a_pipe_has_no_keys_to_press() {
    let screen = screen();
    let lines = shown(&screen, 140, screen.height(140)).join("\n");
    assert!(!lines.contains("quit") && !lines.contains("pause"), "{lines}");
}

#[test]
fn a_small_terminal_and_an_empty_report_are_no_harm() {
    for (width, height) in [(1, 1), (20, 5), (80, 24)] {
        shown(&screen(), width, height);
        shown(&loaded(), width, height);
        shown(&Screen::between(&Report::default(), &Report::default()), width, height);
    }
}

#[test]
fn a_note_is_shown_to_its_end() {
    let mut screen = screen();
    screen.note(
        "no running instance answers at /run/pmdns.sock: Connection refused (os error 111); start one",
        true,
    );
    let lines = shown(&screen, 80, 24);
    assert!(
        lines[1].contains("no running instance") && lines[2].contains("start one"),
        "{lines:?}"
    );
}

#[test]
fn the_picture_in_the_readme_has_what_is_drawn() {
    let drawing = include_str!("../../../../../docs/images/top.svg");
    let texts = drawing.lines().filter_map(|line| line.strip_suffix("</text>")?.split_once('>'));
    let picture: String = texts.map(|(_, text)| format!("{text}\n")).collect();
    let titles = |lines: &str| -> Vec<String> {
        let titles = lines.split(['\n', '─']).map(str::trim);
        titles.filter(|part| part.starts_with(char::is_alphabetic)).map(str::to_owned).collect()
    };
    let is_title = |line: &&str| line.contains("──");
    let mut history = History::default();
    history.add(&screen().rates);
    let drawn = titles(&shown(&loaded().with_history(&mut history), 104, 80).join("\n"));
    let pictured: Vec<_> = picture.lines().filter(is_title).flat_map(titles).collect();
    assert!(pictured.len() >= 4, "{pictured:?}");
    for title in pictured {
        assert!(drawn.contains(&title), "the picture has {title:?}, top draws {drawn:?}");
    }
    for (line, _) in screen().head(104) {
        for label in line.split("  ").filter_map(|figure| figure.split(' ').next()) {
            assert!(picture.contains(&format!("{label} ")), "the picture has no {label:?}");
        }
    }
}

/// Names and clients that come most, more than any terminal shows.
fn tops() -> Tops {
    let mut tops = Tops::default();
    for what in ["name", "client"] {
        let rows = (0..40_u64).map(|number| {
            let key = format!("{what}{number}");
            HitterRow { key, count: 900 - number, error: 0 }
        });
        let top = HitterTable { total: 1000, rows: rows.collect(), ..HitterTable::default() };
        tops.poll(|_| Ok(top));
    }
    tops
}

#[test]
fn d19_a_large_terminal_is_used() {
    let empty = |lines: &[String]| lines.iter().filter(|line| line.trim().is_empty()).count();
    let mut screen = screen();
    let before = shown(&screen, 200, 60);
    assert!(empty(&before) > 10, "{before:#?}");
    screen.show_tops(tops());
    let after = shown(&screen, 200, 60);
    assert_eq!(empty(&after), 0, "{after:#?}");
    assert!(after.join("\n").contains("top clients of the last minute ("), "{after:#?}");
    let widest = |lines: &[String]| {
        let bars = lines.iter().flat_map(|line| line.split(|c| c != '█'));
        bars.map(|bar| bar.chars().count()).max().unwrap_or(0)
    };
    assert!(widest(&after) > 16, "{after:#?}");
}

#[test]
fn d19_heavy_hitters_take_no_line_of_another_table() {
    for (width, height) in [(80, 24), (104, 30), (140, 40), (200, 60), (120, 80)] {
        let mut screen = screen();
        let without = shown(&screen, width, height);
        screen.show_tops(tops());
        let with = shown(&screen, width, height);
        let rows = without.iter().rposition(|line| !line.trim().is_empty()).unwrap() + 1;
        assert_eq!(with[..rows], without[..rows], "at {width}x{height}");
    }
}
