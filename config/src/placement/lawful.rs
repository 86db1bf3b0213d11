//! Checks that the placements together run the line, each stage exactly once.

use super::error::PlacementError;
use super::{StageName, Stretch};
use crate::settings::{Config, Idle, Placement};

impl Config {
    /// The placements to run: what the file says, or one worker on `default_core` for the whole line.
    pub fn placements_or_default(&self, default_core: usize) -> Vec<Placement> {
        if self.placements.is_empty() {
            let whole = Placement {
                stages: Stretch::ALL,
                cores: vec![default_core],
                idle: Idle::default(),
                resolver: false,
            };
            return vec![whole];
        }
        self.placements.clone()
    }
}

/// Checks that `placements` run every stage exactly once, by contiguous stretches in line order, and
/// no core twice. No placements at all are lawful: one worker runs the line.
///
/// # Errors
///
/// The index of the first placement at fault, and its fault.
pub(crate) fn check_placements(placements: &[Placement]) -> Result<(), (usize, PlacementError)> {
    for index in 0..placements.len() {
        check_cores(placements, index).map_err(|error| (index, error))?;
        check_stretch(placements, index).map_err(|error| (index, error))?;
        check_resolver(&placements[index]).map_err(|error| (index, error))?;
    }
    Ok(())
}

/// The placement at `index` names cores, and none that an earlier entry names.
fn check_cores(placements: &[Placement], index: usize) -> Result<(), PlacementError> {
    let Placement { stages, cores, .. } = &placements[index];
    if cores.is_empty() {
        return Err(PlacementError::NoCores { stages: *stages });
    }
    for (place, core) in cores.iter().enumerate() {
        let earlier = placements[..index].iter().position(|other| other.cores.contains(core));
        let again = cores[..place].contains(core).then_some(index);
        if let Some(other) = earlier.or(again) {
            return Err(PlacementError::CoreTwice { core: *core, other });
        }
    }
    Ok(())
}

/// The stretch at `index` begins where the one before it ended, and the last one ends the line.
fn check_stretch(placements: &[Placement], index: usize) -> Result<(), PlacementError> {
    let stages = placements[index].stages;
    let done = index.checked_sub(1).map(|before| placements[before].stages.last);
    // `None` once the line is complete: then any further placement overlaps.
    let expected = match done {
        None => Some(StageName::Parse),
        Some(last) => last.next(),
    };
    match expected {
        Some(expected) if stages.first > expected => {
            return Err(gap(placements, index, expected));
        }
        Some(expected) if stages.first == expected => {}
        _ => return Err(overlap(placements, index, expected)),
    }
    match stages.last.next() {
        Some(from) if index + 1 == placements.len() => Err(PlacementError::Unfinished {
            ends: stages.last,
            missing: Stretch { first: from, last: StageName::Encode },
            fix: Stretch { first: stages.first, last: StageName::Encode },
        }),
        _ => Ok(()),
    }
}

/// A core that resolves receives and sends by itself.
fn check_resolver(placement: &Placement) -> Result<(), PlacementError> {
    let stages = placement.stages;
    match placement.resolver && stages != Stretch::ALL {
        true => Err(PlacementError::ResolvesInPart { stages }),
        false => Ok(()),
    }
}

/// The message when the stretch at `index` begins after `expected`.
fn gap(placements: &[Placement], index: usize, expected: StageName) -> PlacementError {
    let stages = placements[index].stages;
    let later = placements.iter().skip(index + 1).position(|other| other.stages.contains(expected));
    if let Some(later) = later {
        return PlacementError::OutOfOrder { stages, other: index + 1 + later, missing: expected };
    }
    PlacementError::Gap {
        begins: stages.first,
        missing: Stretch { first: expected, last: stages.first.previous().unwrap_or(expected) },
        from: expected,
        fix: Stretch { first: expected, last: stages.last },
    }
}

/// The message when the stretch at `index` begins with a stage that is run already; `free` is the
/// first one that is not.
fn overlap(placements: &[Placement], index: usize, free: Option<StageName>) -> PlacementError {
    let Placement { stages, cores, .. } = &placements[index];
    let earlier = placements[..index].iter().position(|other| other.stages.contains(stages.first));
    // Every stage before the free one belongs to an earlier placement, checked one by one.
    let other = earlier.unwrap_or(0);
    if placements[other].stages == *stages {
        let cores = placements[other].cores.iter().chain(cores).copied().collect();
        return PlacementError::SameStretch { stages: *stages, other, cores };
    }
    let fix = match free {
        Some(first) if first <= stages.last => {
            format!("write stages = \"{}\"", Stretch { first, last: stages.last })
        }
        _ => "remove this placement".to_owned(),
    };
    PlacementError::Overlap { stage: stages.first, other, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(lines: &[(&str, &[usize])]) -> Vec<Placement> {
        let placement = |(stages, cores): &(&str, &[usize])| Placement {
            stages: stages.parse().unwrap(),
            cores: cores.to_vec(),
            idle: Idle::Spin,
            resolver: false,
        };
        lines.iter().map(placement).collect()
    }

    fn mistake(lines: &[(&str, &[usize])]) -> (usize, String) {
        let (index, error) = check_placements(&placed(lines)).unwrap_err();
        (index, error.to_string())
    }

    #[test]
    fn fused_split_and_sharded_placements_are_lawful() {
        let lawful: [&[(&str, &[usize])]; 5] = [
            &[],
            &[("all", &[1])],
            &[("all", &[1, 2, 3, 4])],
            &[("parse..lookup", &[1]), ("policy..encode", &[2])],
            &[("parse", &[1, 2]), ("neighbor..policy", &[5]), ("encode", &[3, 4])],
        ];
        for lines in lawful {
            assert_eq!(check_placements(&placed(lines)), Ok(()), "{lines:?}");
        }
    }

    #[test]
    fn no_placement_is_one_worker_for_the_whole_line() {
        let placements = Config::default().placements_or_default(3);
        assert_eq!(placements.len(), 1);
        assert_eq!(placements[0].stages, Stretch::ALL);
        assert_eq!(placements[0].cores, [3]);
        let config = Config { placements: placed(&[("all", &[7])]), ..Config::default() };
        assert_eq!(config.placements_or_default(3)[0].cores, [7]);
    }

    #[test]
    fn a_stretch_needs_a_core() {
        let (index, text) = mistake(&[("all", &[])]);
        assert_eq!(index, 0);
        assert!(text.contains("no core would run all; list at least one CPU"), "{text}");
    }

    #[test]
    fn a_core_mans_one_stretch() {
        let (index, text) = mistake(&[("parse..lookup", &[1]), ("policy..encode", &[2, 1])]);
        assert_eq!(index, 1);
        assert!(text.contains("names core 1, which placement[0] has already"), "{text}");
        let (index, text) = mistake(&[("all", &[4, 4])]);
        assert_eq!(index, 0);
        assert!(text.contains("core 4, which placement[0] has"), "{text}");
    }

    #[test]
    fn the_line_has_no_gaps() {
        let (index, text) = mistake(&[("acl..encode", &[1])]);
        assert_eq!(index, 0);
        assert!(text.contains("no placement before it runs parse..neighbor"), "{text}");
        assert!(text.contains("stages = \"all\""), "{text}");
        let (index, text) = mistake(&[("parse..acl", &[1]), ("policy..encode", &[2])]);
        assert_eq!(index, 1);
        assert!(text.contains("runs ratelimit..lookup"), "{text}");
        assert!(text.contains("stages = \"ratelimit..encode\""), "{text}");
    }

    #[test]
    fn the_line_does_not_break_off() {
        let (index, text) = mistake(&[("parse..lookup", &[1])]);
        assert_eq!(index, 0);
        assert!(text.contains("ends with lookup, so no placement runs policy..encode"), "{text}");
        assert!(text.contains("stages = \"all\""), "{text}");
    }

    #[test]
    fn placements_stand_in_line_order() {
        let (index, text) = mistake(&[("policy..encode", &[1]), ("parse..lookup", &[2])]);
        assert_eq!(index, 0);
        assert!(text.contains("stands before placement[1], which runs parse"), "{text}");
    }

    #[test]
    fn sharding_is_one_placement_with_several_cores() {
        let (index, text) = mistake(&[("all", &[1]), ("all", &[2])]);
        assert_eq!(index, 1);
        assert!(text.contains("cores = [1, 2]"), "{text}");
    }

    #[test]
    fn a_core_that_resolves_runs_the_whole_line() {
        let mut placements = placed(&[("parse..lookup", &[1]), ("policy..encode", &[2])]);
        placements[1].resolver = true;
        let (index, error) = check_placements(&placements).unwrap_err();
        assert_eq!((index, error.key()), (1, "resolver"));
        let text = error.to_string();
        assert!(text.contains("runs policy..encode only"), "{text}");
        assert!(text.contains("write stages = \"all\", or remove `resolver`"), "{text}");
        let mut placements = placed(&[("all", &[1, 2])]);
        placements[0].resolver = true;
        assert_eq!(check_placements(&placements), Ok(()));
    }

    #[test]
    fn no_stage_is_manned_twice() {
        let (index, text) = mistake(&[("parse..policy", &[1]), ("lookup..encode", &[2])]);
        assert_eq!(index, 1);
        assert!(text.contains("runs lookup, which placement[0] runs already"), "{text}");
        assert!(text.contains("write stages = \"encode\""), "{text}");
        let (index, text) = mistake(&[("all", &[1]), ("lookup", &[2])]);
        assert_eq!(index, 1);
        assert!(text.contains("remove this placement"), "{text}");
    }
}
