use domain::base::iana::Rtype;
use pmdns_stages::Step;
use pmdns_stages::wire::be16;

use super::*;
use crate::load::zone::Zone;
use crate::traffic::scattered;
use crate::{Feed, Kit};

const NAMES: usize = 20_000;

/// Per cent of the whole.
fn share(count: usize, whole: usize) -> f64 {
    100.0 * count as f64 / whole as f64
}

fn labels(name: &[u8]) -> usize {
    text_of(name).matches('.').count()
}

#[test]
fn names_are_as_long_as_those_of_the_list() {
    let mixed = Mixed::new(NAMES);
    let mut lengths: Vec<usize> = mixed.questions().iter().map(|asked| asked.name.len()).collect();
    lengths.sort_unstable();
    assert!(
        lengths[0] <= 8 && lengths[NAMES - 1] == 60,
        "{} to {}",
        lengths[0],
        lengths[NAMES - 1]
    );
    // Deciles of the list: 14, 24, 38 bytes; its mean is 25.3.
    for (tenths, of_list) in [(1, 14), (5, 24), (9, 38)] {
        let length = lengths[NAMES * tenths / 10];
        assert!(length.abs_diff(of_list) <= 3, "{length} instead of {of_list}");
    }
    let mean = lengths.iter().sum::<usize>() as f64 / NAMES as f64;
    assert!((24.0..27.0).contains(&mean), "{mean}");
    for (count, of_list) in [(2, 15.7), (3, 46.1), (4, 20.1), (5, 11.3), (6, 6.8)] {
        let names = mixed.questions().iter().filter(|asked| labels(&asked.name) == count).count();
        assert!((share(names, NAMES) - of_list).abs() < 1.5, "{names} names of {count} labels");
    }
}

#[test]
fn two_runs_ask_the_same() {
    let (short, long) = (Mixed::new(100), Mixed::new(NAMES));
    assert_eq!(short.questions(), &long.questions()[..100]);
    assert_eq!(short.frames(500), Mixed::new(100).frames(500));
    // Figures of two commits can be compared only while this sum (FNV-1a) stays.
    const ASKED: usize = 10_000;
    let frames = (0..ASKED).map(|index| long.query(index, scattered(index, ASKED)).frame_bytes());
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    assert_eq!(frames.flatten().fold(0xcbf2_9ce4_8422_2325, fold), 0x352e_5f7f_359d_3321);
}

#[test]
fn types_records_and_options_have_their_shares() {
    let mixed = Mixed::new(NAMES);
    let near = |count: usize, expected: f64, what: &str| {
        assert!((share(count, NAMES) - expected).abs() < 1.5, "{what}: {count} of {NAMES}");
    };
    for (qtype, weight) in TYPES.into_iter().zip(TYPE_WEIGHTS) {
        let asked = mixed.questions().iter().filter(|asked| asked.qtype == qtype).count();
        near(asked, weight.into(), "type");
    }
    let parts: Vec<_> = (0..NAMES).map(|number| mixed.parts(number)).collect();
    assert!(parts.iter().all(|parts| (1..=MAX_RECORDS).contains(&parts.len())));
    let aliases =
        |parts: &Vec<Part>| parts.iter().filter(|part| part.rtype == rtype::CNAME).count();
    for (count, weight) in ALIASES.into_iter().enumerate() {
        near(
            parts.iter().filter(|parts| aliases(parts) == count).count(),
            weight.into(),
            "aliases",
        );
    }
    let queries: Vec<_> = (0..NAMES).map(|index| mixed.query(index, 0)).collect();
    let without = queries.iter().filter(|query| query.edns.is_none()).count();
    near(without, EDNS[0].into(), "no OPT record");
    let plain = queries.iter().filter(|query| query.options.is_empty()).count();
    near(plain - without, EDNS[1].into(), "no option");
}

#[test]
fn every_question_is_a_hit_and_the_zone_says_the_same() {
    const ASKED: usize = 512;
    let mixed = Mixed::new(ASKED);
    let mut zone = Vec::new();
    mixed.write_zone(&mut zone).unwrap();
    let zone = Zone::parse(std::str::from_utf8(&zone).unwrap()).unwrap();
    let kit = Kit::mixed(&mixed);
    let mut line = kit.line();
    for (number, question) in mixed.questions().iter().enumerate() {
        let asked = mixed.query(number, number);
        let mut feed = Feed::new(vec![asked.frame_bytes()], 1);
        kit.process(&mut line, &mut feed.batch);
        assert_eq!(feed.taking(Step::TRANSMIT), 1, "{question:?}");
        let message = &feed.batch[0].frame.bytes()[42..];
        let right = zone.answer(&question.name, Rtype::from_int(question.qtype)).unwrap();
        assert_eq!(be16(message, header::ANCOUNT), Some(to_u16(right.answer.len())));
        let mut parts: Vec<_> = mixed.parts(number).into_iter().map(|part| part.data).collect();
        let mut data: Vec<_> = right.answer.into_iter().map(|record| record.data).collect();
        parts.sort_unstable();
        data.sort_unstable();
        assert_eq!(parts, data);
    }
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let (mixed, mut list) = (Mixed::new(100), Vec::new());
    mixed.write_list(&mut list).unwrap();
    let read = crate::load::questions::read(std::str::from_utf8(&list).unwrap()).unwrap();
    assert_eq!(read, mixed.questions());
}
