//! Sockets that are open already: those that another process has passed, and copies of this one's own.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pmdns_handover::{Passed, PassedCache};
use pmdns_nics::Tap;

/// Sockets by what they are for. Who opens one asks here first.
#[derive(Debug, Default)]
pub struct OpenSockets(Vec<(Passed, OwnedFd)>);

impl OpenSockets {
    /// The socket of a key and an address of the configuration.
    pub fn take(&mut self, key: &str, address: SocketAddr) -> Option<OwnedFd> {
        self.take_passed(&Passed::Socket(key.to_owned(), address))
    }

    /// The same, for packets.
    pub fn take_packets(&mut self, key: &str, address: SocketAddr) -> Option<OwnedFd> {
        self.take_passed(&Passed::Packets(key.to_owned(), address))
    }

    /// The local socket of a key of the configuration, if it has this file. Nobody can connect once the file is gone.
    pub fn take_local(&mut self, key: &str, path: &Path) -> Option<OwnedFd> {
        let socket = self.take_passed(&Passed::LocalSocket(key.to_owned(), path.to_owned()))?;
        let file = fs::symlink_metadata(path).ok()?;
        file.file_type().is_socket().then_some(socket)
    }

    fn take_passed(&mut self, wanted: &Passed) -> Option<OwnedFd> {
        let taken = self.take_one(|passed| (passed == wanted).then_some(()));
        taken.map(|((), socket)| socket)
    }

    /// The first one of which something is `known`, with that.
    fn take_one<T>(&mut self, known: impl Fn(&Passed) -> Option<T>) -> Option<(T, OwnedFd)> {
        let find = |(place, (passed, _)): (usize, &(Passed, _))| Some((place, known(passed)?));
        let (place, known) = self.0.iter().enumerate().find_map(find)?;
        Some((known, self.0.swap_remove(place).1))
    }
}

#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "without ports nothing is handed over")
)]
impl OpenSockets {
    /// What has come with an offer that names it.
    pub(crate) fn named(passed: Vec<Passed>, sockets: Vec<OwnedFd>) -> Self {
        Self(passed.into_iter().zip(sockets).collect())
    }

    /// The memory of the cache.
    pub(crate) fn take_cache(&mut self) -> Option<(PassedCache, OwnedFd)> {
        self.take_one(|passed| match passed {
            Passed::Cache(cache) => Some(*cache),
            _ => None,
        })
    }

    /// The memory that a crash is written into.
    pub(crate) fn take_crashes(&mut self) -> Option<OwnedFd> {
        self.take_passed(&Passed::Crashes)
    }

    pub(crate) fn add_crashes(&mut self, memory: OwnedFd) {
        self.0.push((Passed::Crashes, memory));
    }

    /// The kernel's ends of ports, with the names of their interfaces.
    pub(crate) fn take_taps(&mut self) -> Vec<(String, OwnedFd)> {
        let is_tap = |(passed, _): &mut (Passed, OwnedFd)| matches!(passed, Passed::Tap(_));
        let taken = self.0.extract_if(.., is_tap).filter_map(|(passed, tap)| match passed {
            Passed::Tap(name) => Some((name, tap)),
            _ => None,
        });
        taken.collect()
    }

    /// Drops those that somebody has deleted or renamed. The next process makes others.
    pub(crate) fn drop_lost_taps(&mut self) {
        self.0.retain(|(passed, tap)| !matches!(passed, Passed::Tap(name) if !Tap::is(tap, name)));
    }

    pub(crate) fn add_tap(&mut self, name: String, tap: OwnedFd) {
        self.0.push((Passed::Tap(name), tap));
    }

    /// An end of the way for frames, with the names of the other process's ports.
    pub(crate) fn take_relay(&mut self) -> Option<(Vec<String>, OwnedFd)> {
        self.take_one(|passed| match passed {
            Passed::Relay(ports) => Some(ports.clone()),
            _ => None,
        })
    }

    /// Where answers come from, and for which settings.
    pub(crate) fn take_answers(&mut self) -> Option<(u64, OwnedFd)> {
        self.take_one(|passed| match passed {
            Passed::Answers(basis) => Some(*basis),
            _ => None,
        })
    }

    /// The changes of operators, and whether those of clients are among them.
    pub(crate) fn take_changes(&mut self) -> Option<(OwnedFd, bool)> {
        let taken = self.take_one(|passed| match passed {
            Passed::Changes { has_clients } => Some(*has_clients),
            _ => None,
        });
        taken.map(|(has_clients, memory)| (memory, has_clients))
    }

    pub(crate) fn add(&mut self, key: &str, address: SocketAddr, socket: OwnedFd) {
        self.0.push((Passed::Socket(key.to_owned(), address), socket));
    }

    pub(crate) fn add_packets(&mut self, key: &str, address: SocketAddr, socket: OwnedFd) {
        self.0.push((Passed::Packets(key.to_owned(), address), socket));
    }

    pub(crate) fn add_local(&mut self, key: &str, path: &Path, socket: OwnedFd) {
        self.0.push((Passed::LocalSocket(key.to_owned(), path.to_owned()), socket));
    }

    /// The memory of the cache, in the place of what was there; `None`: it does not pass.
    pub(crate) fn set_cache(&mut self, cache: Option<(PassedCache, OwnedFd)>) {
        self.0.retain(|(passed, _)| !matches!(passed, Passed::Cache(_)));
        self.0.extend(cache.map(|(cache, memory)| (Passed::Cache(cache), memory)));
    }

    /// Other sockets take the place of those of this key.
    pub(crate) fn replace(&mut self, key: &str, others: Self) {
        self.0.retain(|(passed, _)| !matches!(passed, Passed::Socket(of, _) if of == key));
        self.0.extend(others.0);
    }

    /// Other descriptors of the same sockets.
    pub(crate) fn copy(&self) -> io::Result<Self> {
        let copy = |(passed, socket): &(Passed, OwnedFd)| Ok((passed.clone(), socket.try_clone()?));
        self.0.iter().map(copy).collect::<io::Result<_>>().map(Self)
    }

    /// What each of them is, and their descriptors in the same order.
    pub(crate) fn passed(&self) -> (Vec<Passed>, Vec<BorrowedFd<'_>>) {
        self.0.iter().map(|(passed, socket)| (passed.clone(), socket.as_fd())).unzip()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_local_socket_whose_file_is_gone_is_not_used() {
        let path = std::env::temp_dir().join(format!("pmdns-gone-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut sockets = OpenSockets::default();
        let mut take = || {
            sockets.add_local("control.socket", &path, listener.try_clone().unwrap().into());
            sockets.take_local("control.socket", &path)
        };
        assert!(take().is_some());
        fs::remove_file(&path).unwrap();
        assert!(take().is_none());
        fs::write(&path, "").unwrap();
        assert!(take().is_none(), "it is another file");
        fs::remove_file(&path).unwrap();
        assert!(sockets.passed().0.is_empty(), "it is closed");
    }
}
