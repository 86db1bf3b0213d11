//! Loads the program as libbpf does, and has the kernel run it over frames (BPF_PROG_TEST_RUN).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};

use pmdns_config::PortSettings;
use pmdns_config::narrow::to_u32;

use super::bpf::{Attributes, INSTRUCTION, PROGRAM_LOAD, bpf, descriptor};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const RUN: i32 = 10;
const FREEZE: i32 = 22;

const ARRAY: u32 = 2;
/// A map of devices stands for that of sockets: to an empty map of sockets nothing is redirected.
const DEVMAP: u32 = 14;
const XSKMAP: u32 = 17;
const READ_ONLY: u32 = 1 << 7;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACH: u32 = 37;
const LOOPBACK: u32 = 1;
const LOG: usize = 1 << 20;

/// The kernel's verdict on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kernel,
    Ours,
}

/// A loaded program.
pub(super) struct Program {
    program: OwnedFd,
    _maps: [OwnedFd; 2],
}

impl Program {
    /// `None`: the kernel does not let us.
    pub(super) fn load(port: &PortSettings) -> Option<Self> {
        let object = super::object(port);
        let elf = Elf::read(&object);
        let settings = map(ARRAY, elf.section(".rodata").len(), READ_ONLY)?;
        update(&settings, elf.section(".rodata"));
        let mut attributes = Attributes::new().with(0, &settings.as_raw_fd().to_ne_bytes());
        // SAFETY: the command has no memory.
        unsafe { bpf(FREEZE, &mut attributes) }.unwrap();
        let sockets = map(DEVMAP, 4, 0)?;
        update(&sockets, &LOOPBACK.to_ne_bytes());
        let mut code = elf.section("xdp").to_vec();
        for (offset, symbol, value) in elf.relocations(".relxdp") {
            let (map, source) = match symbol {
                "settings" => (&settings, 2),
                "xsks_map" => (&sockets, 1),
                other => panic!("{other} is no map"),
            };
            let addend: [u8; 4] = code[offset + 4..offset + 8].try_into().unwrap();
            let place = to_u32(value) + u32::from_ne_bytes(addend);
            code[offset + 1] = code[offset + 1] & 0xf | source << 4;
            code[offset + 4..offset + 8].copy_from_slice(&map.as_raw_fd().to_ne_bytes());
            code[offset + 12..offset + 16].copy_from_slice(&place.to_ne_bytes());
        }
        Some(Self { program: load(&code), _maps: [settings, sockets] })
    }

    pub(super) fn verdict(&self, frame: &[u8]) -> Verdict {
        let mut attributes = Attributes::new()
            .with(0, &self.program.as_raw_fd().to_ne_bytes())
            .with(8, &to_u32(frame.len()).to_ne_bytes())
            .with_address_of(16, frame.as_ptr())
            .with(32, &1_u32.to_ne_bytes());
        // SAFETY: the frame has as many bytes as said, and nothing is written.
        unsafe { bpf(RUN, &mut attributes) }.unwrap();
        match attributes.u32_at(4) {
            2 => Verdict::Kernel,
            4 => Verdict::Ours,
            other => panic!("verdict {other}"),
        }
    }
}

/// An empty map of sockets.
pub(super) fn map_of_sockets() -> Option<OwnedFd> {
    map(XSKMAP, 4, 0)
}

fn map(kind: u32, value_len: usize, flags: u32) -> Option<OwnedFd> {
    let words = [kind, 4, to_u32(value_len), 1, flags];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    // SAFETY: the command has no memory.
    let made = unsafe { bpf(MAP_CREATE, &mut Attributes::new().with(0, &bytes)) };
    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        eprintln!("skipped: needs root, for bpf(2)");
        return None;
    }
    // SAFETY: the kernel has just made it.
    Some(unsafe { descriptor(made.unwrap()) })
}

fn update(map: &OwnedFd, value: &[u8]) {
    let key = 0_u32.to_ne_bytes();
    let mut attributes = Attributes::new()
        .with(0, &map.as_raw_fd().to_ne_bytes())
        .with_address_of(8, key.as_ptr())
        .with_address_of(16, value.as_ptr());
    // SAFETY: the key has four bytes, the value as many as the map's.
    unsafe { bpf(MAP_UPDATE, &mut attributes) }.unwrap();
}

fn load(code: &[u8]) -> OwnedFd {
    let mut log = vec![0_u8; LOG];
    let mut attributes = Attributes::new()
        .with(0, &XDP_PROGRAM.to_ne_bytes())
        .with(4, &to_u32(code.len() / INSTRUCTION).to_ne_bytes())
        .with_address_of(8, code.as_ptr())
        .with_address_of(16, c"Dual MIT/GPL".as_ptr().cast())
        .with(24, &1_u32.to_ne_bytes())
        .with(28, &to_u32(LOG).to_ne_bytes())
        .with_address_of(32, log.as_mut_ptr())
        .with(68, &XDP_ATTACH.to_ne_bytes());
    // SAFETY: the code, the licence and the log outlive the call, and the log has as many bytes as said.
    let loaded = unsafe { bpf(PROGRAM_LOAD, &mut attributes) };
    let text =
        || String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap()).into_owned();
    let number = loaded.unwrap_or_else(|error| panic!("{error}: {}", text()));
    // SAFETY: the kernel has just made it.
    unsafe { descriptor(number) }
}

/// The parts of an ELF object that matter here.
struct Elf<'o> {
    sections: HashMap<&'o str, &'o [u8]>,
}

impl<'o> Elf<'o> {
    fn read(object: &'o [u8]) -> Self {
        let (table, count, names) =
            (number(object, 0x28, 8), number(object, 0x3c, 2), number(object, 0x3e, 2));
        let header = |index: usize| &object[table + 64 * index..][..64];
        let bytes = |header: &[u8]| {
            let (at, len) = (number(header, 24, 8), number(header, 32, 8));
            object.get(at..at + len).unwrap_or_default()
        };
        let names = bytes(header(names));
        let name = |header: &[u8]| text(names, number(header, 0, 4));
        let sections = (1..count).map(|index| (name(header(index)), bytes(header(index))));
        Self { sections: sections.collect() }
    }

    fn section(&self, name: &str) -> &'o [u8] {
        self.sections[name]
    }

    /// Offset, symbol, and the symbol's value.
    fn relocations(&self, name: &str) -> impl Iterator<Item = (usize, &'o str, usize)> {
        let (symbols, names) = (self.section(".symtab"), self.section(".strtab"));
        self.section(name).chunks_exact(16).map(move |entry| {
            let symbol = &symbols[24 * number(entry, 12, 4)..][..24];
            (number(entry, 0, 8), text(names, number(symbol, 0, 4)), number(symbol, 8, 8))
        })
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    usize::from_le_bytes(word)
}

fn text(names: &[u8], at: usize) -> &str {
    str::from_utf8(names[at..].split(|byte| *byte == 0).next().unwrap()).unwrap()
}
