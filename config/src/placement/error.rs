//! Why placements do not run the whole line, and what to write.

use super::{StageName, Stretch};

/// Why placements do not run the whole line. The text follows the name of one of them, and says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No core would run these stages.
    #[error(
        "names no core, so no core would run {stages}; list at least one CPU, as in cores = [1]"
    )]
    NoCores {
        /// The stretch left without a worker.
        stages: Stretch,
    },
    /// A core runs one poll loop and cannot run a second.
    #[error(
        "names core {core}, which placement[{other}] has already; \
         every core runs one stretch only, so give this placement another core"
    )]
    CoreTwice {
        /// The CPU.
        core: usize,
        /// Index of the placement that names it first; the same one if it names it twice.
        other: usize,
    },
    /// Stages before this stretch are left out.
    #[error(
        "begins with {begins}, but no placement before it runs {missing}; \
         let it begin with `{from}` (stages = \"{fix}\") or put a placement for \"{missing}\" before it"
    )]
    Gap {
        /// Where the stretch begins.
        begins: StageName,
        /// The stages that no placement runs.
        missing: Stretch,
        /// The stage it should begin with.
        from: StageName,
        /// The stretch that would close the gap.
        fix: Stretch,
    },
    /// A placement further down the file runs the missing stages.
    #[error(
        "runs {stages}, but stands before placement[{other}], which runs {missing}; \
         write the placements in line order, from parse to encode"
    )]
    OutOfOrder {
        /// The stretch that stands too early.
        stages: Stretch,
        /// Index of the placement that belongs before it.
        other: usize,
        /// The first of the stages that belong before it.
        missing: StageName,
    },
    /// Two placements for the same stretch: sharding is said otherwise.
    #[error(
        "runs {stages} as placement[{other}] does; \
         to share a stretch between cores, list all of them in one placement: cores = {cores:?}"
    )]
    SameStretch {
        /// The stretch both name.
        stages: Stretch,
        /// Index of the earlier placement.
        other: usize,
        /// The cores of both.
        cores: Vec<usize>,
    },
    /// A stage would be done twice.
    #[error(
        "runs {stage}, which placement[{other}] runs already; every stage is run once, so {fix}"
    )]
    Overlap {
        /// The first stage that is run twice.
        stage: StageName,
        /// Index of the earlier placement.
        other: usize,
        /// What to do instead.
        fix: String,
    },
    /// The line breaks off.
    #[error(
        "is the last placement and ends with {ends}, so no placement runs {missing}. \
         Let it end with `encode` (stages = \"{fix}\") or add a placement for \"{missing}\""
    )]
    Unfinished {
        /// Where the last stretch ends.
        ends: StageName,
        /// The stages that no placement runs.
        missing: Stretch,
        /// The stretch that would finish the line.
        fix: Stretch,
    },
    /// A core resolves, but other cores receive or send.
    #[error(
        "is true, but the placement runs {stages} only; a core that resolves runs the whole line: \
         write stages = \"all\", or remove `resolver`"
    )]
    ResolvesInPart {
        /// The stretch.
        stages: Stretch,
    },
}

impl PlacementError {
    /// The key to change.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::NoCores { .. } | Self::CoreTwice { .. } => "cores",
            Self::ResolvesInPart { .. } => "resolver",
            _ => "stages",
        }
    }
}
