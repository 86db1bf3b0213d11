//! The calls of bpf(2) that are made here.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use pmdns_config::narrow::{to_u32, to_usize};

/// Commands (linux/bpf.h, enum bpf_cmd).
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
pub(crate) const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_BY_ID: libc::c_int = 13;
const MAP_BY_ID: libc::c_int = 14;
const INFO: libc::c_int = 15;

/// Bytes of an instruction.
pub(crate) const INSTRUCTION: usize = 8;
/// Bytes of a command's argument; the kernel takes what is beyond those it knows for absent if it is zero.
const ATTRIBUTES: usize = 128;
/// Where the name stands in `struct bpf_prog_info`, and its length.
const NAME: std::ops::Range<usize> = 64..80;
/// Where the number of maps and the address of a list of their ids stand there, and how many are listed.
const MAP_COUNT: usize = 52;
const MAP_IDS: usize = 56;
const MAX_MAPS: usize = 8;
/// A type of maps (linux/bpf.h), and the longest value that is read of one.
const ARRAY: u32 = 2;
const MAX_VALUE: usize = 1 << 20;

/// The argument of a command: fields at their offsets in `union bpf_attr`, zero between them.
pub(crate) struct Attributes([u8; ATTRIBUTES]);

impl Attributes {
    pub(crate) fn new() -> Self {
        Self([0; ATTRIBUTES])
    }

    pub(crate) fn with(mut self, offset: usize, value: &[u8]) -> Self {
        self.0[offset..offset + value.len()].copy_from_slice(value);
        self
    }

    /// With the address of `memory`, which must outlive the call.
    pub(crate) fn with_address_of(self, offset: usize, memory: *const u8) -> Self {
        self.with(offset, &(memory as u64).to_ne_bytes())
    }

    #[cfg(test)]
    pub(super) fn u32_at(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.0[offset..offset + 4].try_into().unwrap())
    }
}

/// Gives the kernel a command.
///
/// # Safety
/// Memory that `attributes` name must be valid for what the command does with it, as long as the call lasts.
pub(crate) unsafe fn bpf(
    command: libc::c_int,
    attributes: &mut Attributes,
) -> io::Result<libc::c_int> {
    let (bytes, len) = (attributes.0.as_mut_ptr(), ATTRIBUTES);
    let _held = SignalsHeld::new();
    // SAFETY: `bytes` has `len` bytes; the caller promises the rest.
    let code = unsafe { libc::syscall(libc::SYS_bpf, command, bytes, len) };
    libc::c_int::try_from(code).ok().filter(|code| *code >= 0).ok_or_else(io::Error::last_os_error)
}

/// Signals of this thread, held back. One that waits ends the kernel's check of a program (`EAGAIN`), and the driver of TAPs has
/// a signal sent for what comes.
struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    fn new() -> Self {
        // SAFETY: all-zero bytes are a set of signals.
        let (mut all, mut before) =
            unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
        // SAFETY: the set outlives the call.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets outlive the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self { before }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        let none = std::ptr::null_mut();
        // SAFETY: the set outlives the call, and nothing is written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, none) };
    }
}

/// A descriptor that a command gave.
///
/// # Safety
/// `number` must be a new descriptor that nobody else has.
pub(crate) unsafe fn descriptor(number: libc::c_int) -> OwnedFd {
    // SAFETY: promised by the caller.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The name of the program with this id.
pub(super) fn name_of_program(id: u32) -> io::Result<String> {
    let mut info = [0_u8; NAME.end];
    // SAFETY: no address is in `info`.
    unsafe { fill_in(by_id(PROGRAM_BY_ID, id)?.as_fd(), &mut info) }?;
    let name = info[NAME].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The only values of the arrays of the program with this id. What cannot be read is left out: another's may forbid it.
pub(super) fn values_of_program(id: u32) -> io::Result<Vec<Vec<u8>>> {
    let (mut info, mut ids) = ([0_u8; NAME.end], [[0_u8; 4]; MAX_MAPS]);
    info[MAP_COUNT..MAP_IDS].copy_from_slice(&to_u32(MAX_MAPS).to_ne_bytes());
    let address = ids.as_mut_ptr() as u64;
    info[MAP_IDS..NAME.start].copy_from_slice(&address.to_ne_bytes());
    // SAFETY: `ids` has room for as many as are asked for, and outlives the call.
    unsafe { fill_in(by_id(PROGRAM_BY_ID, id)?.as_fd(), &mut info) }?;
    let maps = ids.into_iter().map(u32::from_ne_bytes).filter(|id| *id != 0);
    let value = |id| only_value(&by_id(MAP_BY_ID, id).ok()?).ok().flatten();
    Ok(maps.filter_map(value).collect())
}

/// The value of an array with one place. `None`: it is another map.
fn only_value(map: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    // `struct bpf_map_info`: type, id, sizes of key and value, places.
    let mut info = [0_u8; 20];
    // SAFETY: no address is in `info`.
    unsafe { fill_in(map.as_fd(), &mut info) }?;
    let number = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let len = to_usize(number(12).into());
    if number(0) != ARRAY || number(16) != 1 || len > MAX_VALUE {
        return Ok(None);
    }
    let (key, mut value) = (0_u32.to_ne_bytes(), vec![0; len]);
    let mut attributes = place_of(map, &key).with_address_of(16, value.as_mut_ptr());
    // SAFETY: the key outlives the call, and `value` has as many bytes as the map's.
    unsafe { bpf(MAP_LOOKUP, &mut attributes) }?;
    Ok(Some(value))
}

/// What has this id.
fn by_id(command: libc::c_int, id: u32) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new().with(0, &id.to_ne_bytes());
    // SAFETY: the command reads the id only.
    let number = unsafe { bpf(command, &mut attributes) }?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { descriptor(number) })
}

/// Has the kernel describe a program or a map.
///
/// # Safety
/// Memory that `info` names must have room for what is asked for there, and outlive the call.
unsafe fn fill_in(what: BorrowedFd<'_>, info: &mut [u8]) -> io::Result<()> {
    let mut attributes = Attributes::new()
        .with(0, &what.as_raw_fd().to_ne_bytes())
        .with(4, &to_u32(info.len()).to_ne_bytes())
        .with_address_of(8, info.as_mut_ptr());
    // SAFETY: the kernel writes at most as many bytes as `info` has; the caller promises the rest.
    unsafe { bpf(INFO, &mut attributes) }.map(drop)
}

/// The type of a map: the first field of `struct bpf_map_info`.
pub(super) fn type_of_map(map: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0_u8; 4];
    // SAFETY: no address is in `info`.
    unsafe { fill_in(map, &mut info) }?;
    Ok(u32::from_ne_bytes(info))
}

/// Puts a descriptor into a place of a map.
pub(super) fn insert(map: &OwnedFd, place: u32, descriptor: &OwnedFd) -> io::Result<()> {
    let (key, value) = (place.to_ne_bytes(), descriptor.as_raw_fd().to_ne_bytes());
    let mut attributes = place_of(map, &key).with_address_of(16, value.as_ptr());
    // SAFETY: key and value outlive the call, and have the sizes of a map of sockets.
    unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(drop)
}

/// Empties a place of a map.
pub(super) fn remove(map: &OwnedFd, place: u32) -> io::Result<()> {
    let key = place.to_ne_bytes();
    // SAFETY: the key outlives the call, and has the size of a map of sockets.
    unsafe { bpf(MAP_DELETE, &mut place_of(map, &key)) }.map(drop)
}

fn place_of(map: &OwnedFd, key: &[u8; 4]) -> Attributes {
    let map = map.as_raw_fd().to_ne_bytes();
    Attributes::new().with(0, &map).with_address_of(8, key.as_ptr())
}
