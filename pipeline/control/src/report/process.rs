//! The process in a report, and what it still may.

use serde::{Deserialize, Serialize};

/// The process as the system sees it; all zero if `/proc` cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessReport {
    /// Time on CPUs of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Bytes of memory in use; huge pages are not among them.
    pub resident_bytes: u64,
    /// Bytes of address space.
    pub virtual_bytes: u64,
    /// The most bytes of address space that it may have; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_virtual_bytes: Option<u64>,
    /// File descriptors that are open.
    pub open_fds: u64,
    /// The most file descriptors that it may have.
    pub max_fds: u64,
    /// Threads.
    pub threads: u64,
    /// When it was started, in seconds since 1970.
    pub start_seconds: f64,
}

/// The privileges that the process still has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivilegeReport {
    /// Capabilities that any thread has, by name; empty: none.
    pub capabilities: Vec<String>,
    /// Whether no thread can get privileges by running a program.
    pub no_new_privileges: bool,
    /// Whether Landlock confines every thread to the folders in use.
    pub landlock: bool,
    /// Whether pmdns's own filter of system calls holds for every thread.
    pub seccomp: bool,
    /// Files that a reload cannot read and folders that cannot be written to any more, each with what to change.
    pub obstacles: Vec<String>,
}
