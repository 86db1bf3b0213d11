//! Conditions of files, folders and sockets.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pmdns_config::files::{folder_of, open_regular};
use pmdns_config::{Config, NamedPath, PathUse};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::facts::{Lack, Machine};
use crate::control::socket::has_group;
use crate::sinks::is_passing;

/// Files that are written to their end, so that links are not followed.
const APPENDED: [&str; 2] = ["query_log.json", "query_log.sqlite"];
/// Files without which pmdns serves all the same, but for a warning.
const DISPENSABLE: [&str; 3] = ["cache.snapshot", "blocklist", "rpz"];

fn paths(config: &Config, usage: PathUse) -> impl Iterator<Item = NamedPath<'_>> {
    config.paths().into_iter().filter(move |path| path.usage == usage)
}

/// Files that the configuration names and that cannot be read.
pub(super) fn readable(_: &Machine, config: &Config) -> Vec<Lack> {
    let lacks = paths(config, PathUse::Read).filter_map(|NamedPath { key, path, .. }| {
        let error = open_regular(path).err()?;
        Some(Lack::fatal(key, format!("cannot be used: {}: {error}", path.display())))
    });
    lacks.collect()
}

/// Files that cannot be written, and folders in which none can be made.
pub(super) fn writable(_: &Machine, config: &Config) -> Vec<Lack> {
    let files = paths(config, PathUse::Write).filter_map(|NamedPath { key, path, .. }| {
        let problem = unwritable(path, APPENDED.contains(&&*key))?;
        let is_dispensable = DISPENSABLE.iter().any(|start| key.starts_with(start));
        Some(if is_dispensable { Lack::other(key, problem) } else { Lack::fatal(key, problem) })
    });
    let folders = paths(config, PathUse::Folder)
        .filter_map(|NamedPath { key, path, .. }| Some(Lack::other(key, no_folder(path)?)));
    files.chain(folders).collect()
}

/// Why this file cannot be written.
fn unwritable(path: &Path, is_appended: bool) -> Option<String> {
    let told = |why: &str| format!("cannot be written: {} {why}", path.display());
    let facts = if is_appended { fs::symlink_metadata(path) } else { fs::metadata(path) };
    match facts {
        Ok(facts) if facts.is_symlink() => {
            return Some(told("is a link, which is not followed; name the file itself"));
        }
        Ok(facts) if !facts.is_file() => return Some(told("is no regular file; name one")),
        Ok(_) if refusal(path, Access::WRITE_OK).is_some() => {
            return Some(told("may not be written by this user"));
        }
        _ => {}
    }
    no_folder(folder_of(path))
}

/// Why no file can be made in this folder.
fn no_folder(folder: &Path) -> Option<String> {
    let why = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "is not there; make the folder, or write another one".to_owned()
        }
        Err(error) => error.to_string(),
        Ok(facts) if !facts.is_dir() => "is no folder; write another one".to_owned(),
        Ok(_) => {
            let error = refusal(folder, Access::WRITE_OK | Access::EXEC_OK)?;
            format!("is no folder to write to: {error}")
        }
    };
    Some(format!("cannot be written: {} {why}", folder.display()))
}

/// Why this user has no such access, unless that may pass: a file system that became read-only ends no service.
fn refusal(path: &Path, access: Access) -> Option<io::Error> {
    let refused = accessat(CWD, path, access, AtFlags::EACCESS).err().map(io::Error::from);
    refused.filter(|error| !is_passing(error))
}

/// Sockets in whose place is something else, or whose folder cannot be made: only the last part of the path may be missing.
pub(super) fn sockets(_: &Machine, config: &Config) -> Vec<Lack> {
    let lacks = paths(config, PathUse::Socket).filter_map(|NamedPath { key, path, .. }| {
        if fs::symlink_metadata(path).is_ok_and(|there| !there.file_type().is_socket()) {
            let problem =
                format!("is {}, which is there and no socket; write another path", path.display());
            return Some(Lack::fatal(key, problem));
        }
        let folder = folder_of(path);
        if folder.is_dir() {
            return None;
        }
        let problem = match folder_of(folder).is_dir() && !folder.exists() {
            true => return None,
            false => format!("is in {}, which is no folder; make it", folder.display()),
        };
        Some(Lack::fatal(key, problem))
    });
    lacks.collect()
}

/// The group whose members may ask.
pub(super) fn group(_: &Machine, config: &Config) -> Vec<Lack> {
    let group = config.control.group.as_deref().filter(|group| !has_group(group));
    let problem = |group| {
        format!(
            "is `{group}`, and this machine has no such group (`groupadd --system {group}` makes it)"
        )
    };
    group.map(|group| Lack::fatal("control.group", problem(group))).into_iter().collect()
}
