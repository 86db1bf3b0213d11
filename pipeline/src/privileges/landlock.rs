//! Landlock (landlock(7)) limits the files that may be opened from now on, by folder. Files that are open stay usable.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, path_beneath_rules,
};

use super::places::GrantedPaths;

/// The version of Landlock whose rights are restricted. Rights that the kernel does not know are left out.
const ABI_KNOWN: ABI = ABI::V5;

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// The crate or the kernel refuses.
    #[error(transparent)]
    Ruleset(#[from] RulesetError),
    /// The kernel has no Landlock.
    #[error("the kernel has none, or it is not enabled (lsm=landlock)")]
    Absent,
}

/// A ruleset for these places. Each thread has to enforce it on itself.
pub(super) fn ruleset(places: &GrantedPaths) -> Result<OwnedFd, Problem> {
    let rules = |folders: &[PathBuf], access: BitFlags<AccessFs>| {
        path_beneath_rules(folders.to_vec(), access)
    };
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile;
    // A database shortens its files.
    let write = write | AccessFs::Truncate;
    // A folder has to be read to find the files to remove.
    let remove = AccessFs::ReadDir | AccessFs::RemoveFile | AccessFs::RemoveDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_KNOWN))?
        .create()?
        .add_rules(rules(&places.read, read))?
        .add_rules(rules(&places.write, write))?
        .add_rules(rules(&places.remove, remove))?
        .add_rules(rules(&places.sockets, AccessFs::MakeSock.into()))?
        .add_rules(rules(&places.devices, device))?
        .add_rules(rules(&places.pages, write))?;
    Option::<OwnedFd>::from(created).ok_or(Problem::Absent)
}
