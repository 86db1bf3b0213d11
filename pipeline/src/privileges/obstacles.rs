//! Obstacles of a later reload or snapshot. At start root could use any file; without its capabilities the files' own
//! rights count.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmdns_config::files::open_regular;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::places::GrantedPaths;

/// Tries the later accesses with this thread's rights. For each file or folder that fails, the result says what to
/// change.
pub(super) fn find(places: &GrantedPaths) -> Vec<String> {
    let files = places.files.iter().filter_map(|file| unreadable(file));
    let folders = places.write.iter().filter_map(|folder| unwritable(folder));
    files.chain(folders).collect()
}

fn unreadable(file: &Path) -> Option<String> {
    let error = open_regular(file).err()?;
    let file = whole(file);
    let why = match error.kind() {
        // The file of a zone that has not been transferred yet.
        ErrorKind::NotFound => return None,
        ErrorKind::PermissionDenied => way_into(&file).unwrap_or_else(|| not_allowed(&file)),
        _ => error.to_string(),
    };
    Some(format!("{} cannot be read again: {why}", file.display()))
}

/// Why a file cannot be read although its folders can be entered.
fn not_allowed(file: &Path) -> String {
    match may(file, Access::READ_OK) {
        // Landlock: the folder in its path is in use, but the link leads to another.
        true => "it is a link into a folder that is not in use; name the file it leads to".into(),
        false => refused(file, "read it", "let its group read it"),
    }
}

fn unwritable(folder: &Path) -> Option<String> {
    if may(folder, Access::WRITE_OK | Access::EXEC_OK) {
        return None;
    }
    let folder = whole(folder);
    let refusal = || refused(&folder, "write to it", "let its group write to it");
    let why = way_into(&folder).unwrap_or_else(refusal);
    Some(format!("{} cannot be written to again: {why}", folder.display()))
}

/// The absolute path of a file.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The problem with the first folder on the way to `path` that may not be entered.
fn way_into(path: &Path) -> Option<String> {
    let is_closed = |folder: &&Path| {
        let seen = fs::metadata(folder.join("."));
        seen.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    // Ancestors come from the inside out, so the last match is the first folder on the way.
    let closed = path.ancestors().skip(1).filter(is_closed).last()?;
    Some(refused(closed, &format!("enter {}", closed.display()), "open it (`chmod a+x`)"))
}

fn may(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

/// The text of an obstacle: the user, the access, and what to change.
fn refused(path: &Path, what: &str, remedy: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let owner = fs::metadata(path).map(|facts| (facts.uid(), facts.mode() & 0o7777));
    let owner = owner.map_or_else(
        |error: io::Error| error.to_string(),
        |(owner, mode)| format!("it is user {owner}'s, mode {mode:04o}"),
    );
    format!(
        "without capabilities user {user} may not {what} ({owner}); give it to user {user}, or {remedy}"
    )
}
