//! Conditions of files, folders and sockets.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pmdns_config::files::{folder_of, open_regular};
use pmdns_config::{Config, NamedPath, PathUse};
use pmdns_encrypted::{UpstreamRoots, UpstreamRootsError, roots};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use pmdns_nics::machine::{Lack, Machine};

use crate::control::socket::has_group;
use pmdns_config::files::is_passing;
use pmdns_insight::query_log;

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

/// Certificates that servers are checked with. An upstream without them cannot be asked; a list is only not fetched.
pub(super) fn certificates(_: &Machine, config: &Config) -> Vec<Lack> {
    const OF_SYSTEM: &str =
        "needs trusted certificates, and this system has none; install the package ca-certificates";
    let unusable = |file: &Path, why: &str| format!("cannot be used: {}: {why}", file.display());
    // Those that cannot be read are told as files.
    let can_be_read = |file: &Path| open_regular(file).is_ok();
    let mut found = Vec::new();
    for error in UpstreamRoots::errors(&config.upstreams) {
        found.push(match error {
            UpstreamRootsError::Unreadable { file, .. } if !can_be_read(&file) => continue,
            UpstreamRootsError::Unreadable { upstream, file, why } => {
                Lack::fatal(format!("upstream[{upstream}].ca_file"), unusable(&file, &why))
            }
            UpstreamRootsError::NoRoots { upstream } => Lack::fatal(
                format!("upstream[{upstream}].address"),
                format!("{OF_SYSTEM}, or set ca_file or pin"),
            ),
            UpstreamRootsError::Setup { upstream, why } => {
                Lack::fatal(format!("upstream[{upstream}].address"), format!("has no TLS: {why}"))
            }
        });
    }
    let fetched = config.blocklists.iter().enumerate().filter(|(_, list)| list.url.is_some());
    let mut has_system = None;
    for (index, list) in fetched {
        match &list.ca_file {
            Some(file) if can_be_read(file) => {
                let why = roots::of_file(file).err();
                found.extend(why.map(|why| {
                    Lack::other(format!("blocklist[{index}].ca_file"), unusable(file, &why))
                }));
            }
            Some(_) => {}
            None if *has_system.get_or_insert_with(|| roots::of_system().is_some()) => {}
            None => found.push(Lack::other(
                format!("blocklist[{index}].url"),
                format!("{OF_SYSTEM}, or set ca_file"),
            )),
        }
    }
    found
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
    files.chain(folders).chain(other_database(config)).collect()
}

/// A file that is there and no database is left as it is, and no query is logged to it.
fn other_database(config: &Config) -> Option<Lack> {
    let path = config.query_log.sqlite.as_deref().filter(|path| !query_log::is_database(path))?;
    let problem = format!(
        "is {}, which is no database: it is left alone, and queries are not logged there; move it away, or write another path",
        path.display()
    );
    Some(Lack::other("query_log.sqlite", problem))
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
    denial(path, access).filter(|error| !is_passing(error))
}

/// Why this user has no such access.
fn denial(path: &Path, access: Access) -> Option<io::Error> {
    accessat(CWD, path, access, AtFlags::EACCESS).err().map(io::Error::from)
}

/// Sockets in whose place is something else, or whose folder cannot be made or written to: only the last part of its path may
/// be missing.
pub(super) fn sockets(_: &Machine, config: &Config) -> Vec<Lack> {
    let lacks = paths(config, PathUse::Socket).filter_map(|NamedPath { key, path, .. }| {
        if fs::symlink_metadata(path).is_ok_and(|there| !there.file_type().is_socket()) {
            let problem =
                format!("is {}, which is there and no socket; write another path", path.display());
            return Some(Lack::fatal(key, problem));
        }
        let folder = folder_of(path);
        let is_made = !folder.exists();
        let written = if is_made { folder_of(folder) } else { folder };
        let problem = if written.is_dir() {
            let error = denial(written, Access::WRITE_OK | Access::EXEC_OK)?;
            let (folder, written) = (folder.display(), written.display());
            match is_made {
                true => format!(
                    "is in {folder}, which is not there, and this user cannot make it in {written}: {error}; make it"
                ),
                false => format!(
                    "is in {folder}, where this user cannot make a socket: {error}; write another folder"
                ),
            }
        } else {
            format!("is in {}, which is no folder; make it", folder.display())
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
