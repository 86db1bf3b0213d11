//! Mapping an [`Arena`]: which pages the kernel has, on which NUMA node, and the advice if it has none.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use memmap2::{Advice, MmapOptions, MmapRaw};
use pmdns_config::Pages;
use rustix::fs::MemfdFlags;

use super::memfd::{AdoptError, Memfd};
use super::{Arena, Memory};
use crate::sync::AtomicU64;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// `MPOL_PREFERRED` of mbind(2).
const MPOL_PREFERRED: libc::c_int = 1;
/// `MPOL_F_NODE | MPOL_F_ADDR` of get_mempolicy(2): on which node is the page at this address?
const NODE_OF_ADDRESS: libc::c_ulong = 1 | 2;
/// Whether the kernel may put the pages of a memfd together to huge ones: `advise` is enough.
const SHMEM_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
/// NUMA nodes that can be named: bits of one mask.
const MAX_NODES: u32 = u64::BITS;

/// The pages an arena got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Normal pages, 4 KiB on x86-64.
    Normal,
    /// Huge pages of 2 MiB.
    Huge2M,
    /// Huge pages of 1 GiB.
    Huge1G,
}

/// The pages that an arena got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaReport {
    /// Bytes taken: those asked for, rounded up to whole pages.
    pub bytes: usize,
    /// The pages it is on.
    pub page: PageKind,
    /// The NUMA node of its first page, if the kernel tells.
    pub numa_node: Option<u32>,
    /// Differences from the request, and the command that changes them.
    pub warning: Option<String>,
}

/// Why there is no arena at all.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// Nothing was asked for.
    #[error("the cache has no size: set cache.size to at least \"1M\"")]
    Empty,

    /// The NUMA node does not exist.
    #[error(
        "this machine has no NUMA node {node} for the cache (it has: {online}): correct cache.numa_node"
    )]
    NoSuchNode {
        /// The node asked for.
        node: u32,
        /// The nodes there are, as the kernel lists them.
        online: String,
    },

    /// Not even normal pages.
    #[error("the machine has no {mib} MiB of memory for the cache ({source}): lower cache.size")]
    NoMemory {
        /// What was asked for.
        mib: usize,
        /// The kernel's reason.
        source: io::Error,
    },

    /// The memory of another process cannot be taken over.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
}

impl PageKind {
    /// Bytes of one page.
    pub fn bytes(self) -> usize {
        match self {
            Self::Normal => 4 * KIB,
            Self::Huge2M => 2 * MIB,
            Self::Huge1G => GIB,
        }
    }
}

impl Arena {
    /// An arena of `bytes` bytes, rounded up to whole pages of the kind `pages`, or the best kind there is. It is
    /// on the NUMA node if one is given. All of it is in place and zero.
    pub fn new(
        bytes: usize,
        pages: Pages,
        numa_node: Option<u32>,
    ) -> Result<(Self, ArenaReport), ArenaError> {
        if bytes == 0 {
            return Err(ArenaError::Empty);
        }
        check_node(numa_node)?;
        let huge_wanted = pages != Pages::Normal;
        for &page in candidates(bytes, pages) {
            let (mapping, memfd) = match map(bytes, page, numa_node, huge_wanted) {
                Ok(mapped) => mapped,
                Err(source) if page == PageKind::Normal => {
                    return Err(ArenaError::NoMemory { mib: bytes.div_ceil(MIB), source });
                }
                Err(_) => continue,
            };
            let node = node_of(&mapping);
            let mut warnings = Vec::new();
            if huge_wanted && page == PageKind::Normal {
                warnings.push(advice(bytes, pages, numa_node));
            }
            if let (Some(asked), Some(got)) = (numa_node, node)
                && asked != got
            {
                warnings.push(format!(
                    "the cache is on NUMA node {got} because node {asked} has no room for it: \
                     reserve huge pages there, or lower cache.size"
                ));
            }
            let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
            let report = ArenaReport { bytes: mapping.len(), page, numa_node: node, warning };
            return Ok((over(mapping, memfd), report));
        }
        unreachable!("normal pages are the last candidate, and end the loop either way")
    }

    /// The memory that another process has made and filled, by a copy of its [`Arena::descriptor`].
    pub fn adopt(descriptor: OwnedFd) -> Result<(Self, ArenaReport), ArenaError> {
        let (memfd, page_bytes) = Memfd::adopt(descriptor)?;
        // Its pages are there already; in the tables of this process they have yet to be.
        let mapping = MmapOptions::new().len(memfd.bytes).populate().map_raw(memfd.file());
        let mapping = mapping.map_err(AdoptError::NotMapped)?;
        let mut huge = [PageKind::Huge2M, PageKind::Huge1G].into_iter();
        let page = huge.find(|page| page.bytes() == page_bytes);
        let report = ArenaReport {
            bytes: memfd.bytes,
            page: page.unwrap_or(PageKind::Normal),
            numa_node: node_of(&mapping),
            warning: None,
        };
        Ok((over(mapping, Some(memfd)), report))
    }
}

/// The pages to try, in this order.
fn candidates(bytes: usize, pages: Pages) -> &'static [PageKind] {
    use PageKind::{Huge1G, Huge2M, Normal};
    match pages {
        // Gigabyte pages only where nothing is wasted: the cache is bounded by its size.
        Pages::Auto if bytes.is_multiple_of(GIB) => &[Huge1G, Huge2M, Normal],
        Pages::Auto | Pages::Huge2M => &[Huge2M, Normal],
        Pages::Huge1G => &[Huge1G, Normal],
        Pages::Normal => &[Normal],
    }
}

/// Maps the memory, as a memfd if the kernel has one on such pages, and puts every page in place. A failure here is no
/// failure of the arena yet.
fn map(
    bytes: usize,
    page: PageKind,
    node: Option<u32>,
    huge_wanted: bool,
) -> io::Result<(MmapRaw, Option<Memfd>)> {
    let len = bytes.checked_next_multiple_of(page.bytes()).ok_or(io::ErrorKind::OutOfMemory)?;
    let mut options = MmapOptions::new();
    options.len(len);
    let pages = match page {
        PageKind::Normal => MemfdFlags::empty(),
        PageKind::Huge2M => {
            options.huge(Some(21));
            MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB
        }
        PageKind::Huge1G => {
            options.huge(Some(30));
            MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB
        }
    };
    // What the machine can never have, the kernel refuses as anonymous memory only. A memfd would take page after page
    // until processes are killed.
    drop(options.map_anon()?);
    // Without reserved pages, huge ones of the kernel's own accord are worth more than memory that can pass.
    let can_pass = page != PageKind::Normal || !huge_wanted || finds_shared_pages();
    let memfd = if can_pass { Memfd::new(len, pages).ok() } else { None };
    let shared = memfd.as_ref().map(|memfd| MmapOptions::new().len(len).map_raw(memfd.file()));
    let (mapping, memfd) = match shared {
        Some(Ok(mapping)) => (mapping, memfd),
        _ => (options.map_anon()?.into(), None),
    };
    if let Some(node) = node {
        prefer_node(&mapping, node);
    }
    if page == PageKind::Normal && huge_wanted {
        // The kernel may still find huge pages of its own accord; for a memfd if `SHMEM_PAGES` says so.
        let _only_a_hint = mapping.advise(Advice::HugePage);
    }
    populate(&mapping, page)?;
    Ok((mapping, memfd))
}

/// Puts every page in place, after its node was chosen. Asking the kernel turns a page that cannot be
/// had into an error; touching it would kill the process.
fn populate(mapping: &MmapRaw, page: PageKind) -> io::Result<()> {
    match mapping.advise(Advice::PopulateWrite) {
        // Linux before 5.14 does not know the request.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            for offset in (0..mapping.len()).step_by(page.bytes()) {
                // SAFETY: the offset is inside the mapping.
                let byte = unsafe { mapping.as_mut_ptr().add(offset) };
                // SAFETY: the byte is ours; volatile, so that the write stays.
                unsafe { byte.write_volatile(0) };
            }
            Ok(())
        }
        outcome => outcome,
    }
}

/// Wraps a mapping that is in place.
fn over(mapping: MmapRaw, memfd: Option<Memfd>) -> Arena {
    // The end of a crash does not wait for gigabytes of a core file, which has no answers of clients either.
    let _only_a_hint = mapping.advise(Advice::DontDump);
    let count = mapping.len() / size_of::<AtomicU64>();
    let start: NonNull<AtomicU64> =
        NonNull::new(mapping.as_mut_ptr()).expect("a mapping is not at null").cast();
    Arena {
        // Page-aligned, and in the mapping's own memory, which does not move with the value.
        words: NonNull::slice_from_raw_parts(start, count),
        memory: Memory::Mapped { _mapping: mapping, memfd },
    }
}

fn check_node(node: Option<u32>) -> Result<(), ArenaError> {
    let Some(node) = node else { return Ok(()) };
    let exists = fs::exists(format!("/sys/devices/system/node/node{node}")).unwrap_or(false);
    // A kernel without NUMA lists no nodes and has one.
    if exists || node == 0 {
        return Ok(());
    }
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    Err(ArenaError::NoSuchNode { node, online: online.trim().to_owned() })
}

/// Asks for pages of a node, before there are any. If it has none the kernel takes another.
fn prefer_node(mapping: &MmapRaw, node: u32) {
    let mask: u64 = 1_u64.checked_shl(node).unwrap_or(0);
    // SAFETY: the range is a mapping of ours and the mask has the bits it says. A refusal, as in a
    // container without the right, leaves the kernel's own choice, which is reported.
    unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.as_ptr(),
            mapping.len(),
            MPOL_PREFERRED,
            &raw const mask,
            libc::c_ulong::from(MAX_NODES),
            0,
        )
    };
}

/// The node of the first page.
fn node_of(mapping: &MmapRaw) -> Option<u32> {
    let mut node: libc::c_int = -1;
    // SAFETY: the address is mapped, and `node` can be written.
    let code = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<u64>(),
            0_usize,
            mapping.as_ptr(),
            NODE_OF_ADDRESS,
        )
    };
    if code == 0 { u32::try_from(node).ok() } else { None }
}

/// How an operator gets huge pages for the cache.
fn advice(bytes: usize, pages: Pages, node: Option<u32>) -> String {
    let page = if pages == Pages::Huge1G { PageKind::Huge1G } else { PageKind::Huge2M };
    let needed = bytes.div_ceil(page.bytes());
    let (name, kib) = match page {
        PageKind::Huge1G => ("1 GB", page.bytes() / KIB),
        _ => ("2 MB", page.bytes() / KIB),
    };
    let folder = match node {
        Some(node) => format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB"),
        None => format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB"),
    };
    let count = |file: &str| -> usize {
        let text = fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let (all, free) = (count("nr_hugepages"), count("free_hugepages"));
    let target = all + needed.saturating_sub(free);
    let command = match (page, node) {
        (PageKind::Huge2M, None) => format!("sysctl -w vm.nr_hugepages={target}"),
        _ => format!("echo {target} > {folder}/nr_hugepages"),
    };
    let early = if page == PageKind::Huge1G {
        format!(" (or boot with hugepagesz=1G hugepages={target})")
    } else {
        String::new()
    };
    format!(
        "the cache is on normal pages and hits will be slower. It needs {needed} huge pages of \
         {name} and {free} are free. Reserve them with `{command}`{early} and restart"
    )
}

/// Whether the kernel may find huge pages for a memfd of its own accord.
fn finds_shared_pages() -> bool {
    let setting = fs::read_to_string(SHMEM_PAGES).unwrap_or_default();
    ["[always]", "[within_size]", "[advise]", "[force]"]
        .iter()
        .any(|choice| setting.contains(choice))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn normal_pages_are_rounded_up_zero_and_without_warning() {
        let (arena, report) = Arena::new(10_000, Pages::Normal, None).unwrap();
        assert_eq!((report.bytes, report.page), (12_288, PageKind::Normal));
        assert_eq!(report.warning, None);
        assert_eq!(arena.words().len(), 12_288 / 8);
        assert!(arena.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        arena.words()[1535].store(1, Ordering::Relaxed);
    }

    #[test]
    fn huge_pages_or_a_warning_with_the_command() {
        let (arena, report) = Arena::new(3 * MIB, Pages::Huge2M, None).unwrap();
        match report.page {
            PageKind::Huge2M => assert_eq!((report.bytes, report.warning), (4 * MIB, None)),
            _ => assert!(report.warning.unwrap().contains("sysctl -w vm.nr_hugepages=")),
        }
        assert_eq!(arena.words().len() * 8, report.bytes);
    }

    #[test]
    fn more_huge_pages_than_there_are_fall_back_to_normal_ones() {
        // No machine that runs this has 3 free gigabyte pages to give to a test.
        let pages =
            fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages");
        if pages.is_ok_and(|text| text.trim() != "0") {
            return;
        }
        let (_arena, report) = Arena::new(MIB, Pages::Huge1G, None).unwrap();
        assert_eq!((report.page, report.bytes), (PageKind::Normal, MIB));
        let warning = report.warning.unwrap();
        assert!(warning.contains("needs 1 huge pages of 1 GB and 0 are free"), "{warning}");
        assert!(warning.contains("nr_hugepages` (or boot with hugepagesz=1G"), "{warning}");
    }

    #[test]
    fn the_node_is_reported_and_must_exist() {
        let (_arena, report) = Arena::new(MIB, Pages::Normal, Some(0)).unwrap();
        assert!(matches!(report.numa_node, Some(0) | None));
        let error = Arena::new(MIB, Pages::Normal, Some(4000)).unwrap_err();
        assert!(error.to_string().contains("correct cache.numa_node"), "{error}");
    }

    #[test]
    fn advice_counts_what_is_there_already() {
        let advice = advice(64 * MIB, Pages::Auto, None);
        assert!(advice.contains("It needs 32 huge pages of 2 MB"), "{advice}");
    }

    #[test]
    fn nothing_and_too_much_are_errors() {
        assert!(matches!(Arena::new(0, Pages::Auto, None), Err(ArenaError::Empty)));
        let error = Arena::new(usize::MAX / 4, Pages::Normal, None).unwrap_err();
        assert!(error.to_string().contains("lower cache.size"), "{error}");
    }

    #[test]
    fn only_whole_gigabytes_are_tried_on_gigabyte_pages() {
        assert_eq!(candidates(GIB, Pages::Auto)[0], PageKind::Huge1G);
        assert_eq!(candidates(GIB + 1, Pages::Auto)[0], PageKind::Huge2M);
        assert_eq!(candidates(64 * MIB, Pages::Auto)[0], PageKind::Huge2M);
    }
}
