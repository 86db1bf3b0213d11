//! Whether frames come to the sockets of an AF_XDP port, or go on to the kernel. The program on the interface stays.
//!
//! Drivers of NICs may set up their rings anew when a program is put on an interface or taken off. So a process that hands
//! over takes its sockets out of the map of the program (BPF_MAP_TYPE_XSKMAP), and leaves the program. A queue without a
//! socket passes everything on, and a packet socket of the next process gets it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use super::bpf;

/// The type of a map of sockets (linux/bpf.h).
const XSKMAP: u32 = 17;

/// The sockets of a port, each with its place in the map of the program.
#[derive(Debug, Default)]
pub struct XdpSteering(Vec<MapEntry>);

/// A queue: its number is the place in the map.
#[derive(Debug)]
struct MapEntry {
    map: OwnedFd,
    queue: u32,
    socket: OwnedFd,
}

impl XdpSteering {
    /// Everything goes on to the kernel. What sockets have received stays in them.
    pub fn to_kernel(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|entry| match bpf::remove(&entry.map, entry.queue) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }

    /// Everything comes to the sockets again.
    pub fn to_sockets(&self) -> io::Result<()> {
        let mut entries = self.0.iter();
        entries.try_for_each(|MapEntry { map, queue, socket }| bpf::insert(map, *queue, socket))
    }

    /// Adds the queue with this number, whose socket the driver has opened since `before`. The driver keeps its descriptors to
    /// itself. Returns false if they are not found.
    pub(crate) fn add(&mut self, queue: u32, before: &Descriptors) -> io::Result<bool> {
        let (mut map, mut socket) = (None, None);
        for number in Descriptors::list()?.0.difference(&before.0) {
            // SAFETY: it was listed just now. Only DPDK opens and closes descriptors meanwhile, on this thread.
            let new = unsafe { BorrowedFd::borrow_raw(*number) };
            match kind(new) {
                Some(Kind::Map) => map = Some(new.try_clone_to_owned()?),
                Some(Kind::Socket) => socket = Some(new.try_clone_to_owned()?),
                None => {}
            }
        }
        // A program that the driver has loaded has one map for all queues.
        if let (None, Some(entry)) = (&map, self.0.last()) {
            map = Some(entry.map.try_clone()?);
        }
        let (Some(map), Some(socket)) = (map, socket) else { return Ok(false) };
        self.0.push(MapEntry { map, queue, socket });
        Ok(true)
    }
}

/// The descriptors of this process.
pub(crate) struct Descriptors(BTreeSet<RawFd>);

impl Descriptors {
    pub(crate) fn list() -> io::Result<Self> {
        let names = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
        let mut numbers: BTreeSet<_> =
            names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        // The list itself is closed by now, and the next one to open gets its number.
        numbers.retain(|number: &RawFd| {
            fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok()
        });
        Ok(Self(numbers))
    }
}

/// What a queue needs.
enum Kind {
    Map,
    Socket,
}

fn kind(descriptor: BorrowedFd<'_>) -> Option<Kind> {
    let name = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()?;
    let name = name.to_str()?;
    let is_socket = || socket_domain(descriptor).is_ok_and(|domain| domain == AddressFamily::XDP);
    match () {
        () if name == "anon_inode:bpf-map" => {
            (bpf::type_of_map(descriptor).ok()? == XSKMAP).then_some(Kind::Map)
        }
        () if name.starts_with("socket:") && is_socket() => Some(Kind::Socket),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use rustix::net::{SocketType, socket};

    use super::*;
    use crate::DESCRIPTORS;
    use crate::xdp::run::map_of_sockets;

    #[test]
    fn what_a_driver_has_opened_is_found_and_leads_frames_here_and_away() {
        let _guard = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(old) = map_of_sockets() else { return };
        let before = Descriptors::list().unwrap();
        let mut steering = XdpSteering::default();
        assert!(!steering.add(0, &before).unwrap(), "it has opened neither");
        let map = map_of_sockets().unwrap();
        assert!(!steering.add(0, &before).unwrap(), "it has opened no socket");
        let socket = socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
        let _other = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        assert!(steering.add(0, &before).unwrap());
        let before = Descriptors::list().unwrap();
        let _second = rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
        assert!(steering.add(0, &before).unwrap(), "all queues have one map");
        assert_eq!(steering.0.len(), 2);
        steering.0.truncate(1);
        let of_map =
            |map: &OwnedFd| fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()));
        let id = |map: &OwnedFd| {
            let text = of_map(map).unwrap();
            text.lines().find(|line| line.starts_with("map_id")).unwrap().to_owned()
        };
        assert_eq!(id(&steering.0[0].map), id(&map));
        assert_ne!(id(&steering.0[0].map), id(&old));
        for _ in 0..2 {
            steering.to_sockets().unwrap();
            steering.to_kernel().unwrap();
            steering.to_kernel().unwrap();
        }
        drop((map, socket));
        steering.to_sockets().unwrap();
    }
}
