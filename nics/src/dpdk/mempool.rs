//! Frame pools: `rte_mempool`s of mbufs, shared by every core, with a cache of free frames on each.
//!
//! Frames that no cache holds wait in a stack without locks (docs/adr/0033-free-frames-wait-in-a-lock-free-stack.md).

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpdk_sys::{DPDK_MBUF_HEADROOM, mbuf, rte_mbuf, rte_mempool};

use super::eal::{self, Environment};
use super::{error_text, last_error};
use crate::POOL_CACHE_FRAMES;
use crate::frame::{Frame, Origin};
use crate::heap::FRAME_ROOM;

/// `SOCKET_ID_ANY`: memory from whichever NUMA node has it.
const ANY_NODE: i32 = -1;

/// DPDK's default: a ring that ends its operations in the order they began, so a thread that is preempted in one stops all others.
const RING: &CStr = c"ring_mp_mc";
/// Takes its place: no thread ever waits for another.
const STACK: &CStr = c"lf_stack";

/// A fixed number of frames. Cloning it gives another handle to the same pool.
#[derive(Clone, Debug)]
pub struct Mempool {
    pool: Arc<Pool>,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The environment is not running.
    #[error("a frame pool needs DPDK's environment: call Eal::init first")]
    NoEnvironment,

    /// The name cannot be used.
    #[error(
        "a pool cannot be named {0:?}: choose 1 to 20 letters and digits, another for each pool"
    )]
    Name(String),

    /// A running port frees its frames without looking at their pool.
    #[error("a second frame pool cannot be made once a port runs: make all pools first")]
    PortRuns,

    /// Not enough memory.
    #[error(
        "no memory for {frames} frames ({mib} MiB): {reason}; reserve more hugepages \
         (`sysctl -w vm.nr_hugepages=...`), raise -m in eal.args, or lower frames.count"
    )]
    Memory {
        /// Frames asked for.
        frames: u32,
        /// What they take.
        mib: u64,
        /// DPDK's own words.
        reason: String,
    },
}

impl Mempool {
    /// A pool of `frames` frames on a NUMA node, or wherever there is memory. `name` must be its own.
    pub fn new(name: &str, frames: u32, numa_node: Option<u32>) -> Result<Self, PoolError> {
        let environment = eal::running().ok_or(PoolError::NoEnvironment)?;
        let c_name = CString::new(name).map_err(|_| PoolError::Name(name.to_owned()))?;
        let mut pools = registry();
        if pools.fast_freeing_ports > 0 {
            return Err(PoolError::PortRuns);
        }
        // A pool so small that caches could hide all of it has none.
        let cache = if frames >= 8 * POOL_CACHE_FRAMES { POOL_CACHE_FRAMES } else { 0 };
        let node = numa_node.and_then(|node| i32::try_from(node).ok()).unwrap_or(ANY_NODE);
        let room = FRAME_ROOM + DPDK_MBUF_HEADROOM;
        let keeper = keeper();
        let c_name = c_name.as_ptr();
        // SAFETY: the environment runs, and both names are C strings.
        let raw = unsafe {
            dpdk_sys::shim_pktmbuf_pool_create(c_name, frames, cache, room, node, keeper)
        };
        let raw = NonNull::new(raw).ok_or_else(|| pool_error(name, frames))?;
        pools.live += 1;
        Ok(Self { pool: Arc::new(Pool { raw, capacity: frames, environment }) })
    }

    /// A fresh frame of length zero; `None` when all are in use.
    #[inline]
    pub fn take(&self) -> Option<Frame> {
        // SAFETY: the pool lives as long as `self`.
        let raw = unsafe { dpdk_sys::shim_mbuf_alloc(self.pool.raw.as_ptr()) };
        let raw = NonNull::new(raw)?;
        // SAFETY: the mbuf was just given to us; it is direct and of one segment.
        Some(unsafe { frame_of(raw, 0) })
    }

    /// Frames that somebody holds, those in RX and TX queues among them.
    pub fn in_use(&self) -> usize {
        self.pool.in_use() as usize
    }

    /// Frames in all.
    pub fn capacity(&self) -> usize {
        self.pool.capacity as usize
    }

    /// The pool itself, for the port and for benches that compare with C.
    pub fn as_ptr(&self) -> *mut rte_mempool {
        self.pool.raw.as_ptr()
    }
}

/// The mempool driver that keeps free frames: the operator's choice (`--mbuf-pool-ops-name`), or the platform's
/// hardware, or the stack if it is installed. The environment must run.
fn keeper() -> *const c_char {
    // SAFETY: the environment runs. It gives a text of its own, or NULL.
    let named = unsafe { dpdk_sys::rte_mbuf_user_mempool_ops() };
    if !named.is_null() {
        return named;
    }
    // SAFETY: as above, and never NULL.
    let best = unsafe { dpdk_sys::rte_mbuf_best_mempool_ops() };
    // SAFETY: a C string, which nobody changes.
    let is_default = unsafe { CStr::from_ptr(best) } == RING;
    // SAFETY: a C string.
    let is_installed = unsafe { dpdk_sys::shim_has_mempool_ops(STACK.as_ptr()) };
    if is_default && is_installed { STACK.as_ptr() } else { best }
}

/// The frame over an mbuf, `len` bytes long.
///
/// # Safety
/// The mbuf must be the caller's, direct, of one segment, and hold `len` bytes of data.
#[inline(always)]
pub(super) unsafe fn frame_of(raw: NonNull<rte_mbuf>, len: u16) -> Frame {
    // SAFETY: the mbuf is ours.
    let buffer = unsafe { mbuf::buf_addr(raw.as_ptr()) };
    // SAFETY: as above.
    let headroom = unsafe { mbuf::data_off(raw.as_ptr()) };
    // SAFETY: as above.
    let whole = unsafe { mbuf::buf_len(raw.as_ptr()) };
    // SAFETY: the headroom lies inside the buffer.
    let data = unsafe { buffer.add(usize::from(headroom)) };
    // SAFETY: a direct mbuf has a buffer.
    let data = unsafe { NonNull::new_unchecked(data) };
    // SAFETY: the caller gives us the mbuf; from `data` on `whole - headroom` bytes belong to it, which
    // the kernel zeroed when it mapped the pool.
    unsafe { Frame::new(Origin::Dpdk, raw.cast(), data, len, whole.wrapping_sub(headroom)) }
}

/// How many pools there are, and how many ports rely on there being one.
#[derive(Debug)]
struct Registry {
    live: u32,
    fast_freeing_ports: u32,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { live: 0, fast_freeing_ports: 0 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leave for one port to give transmitted mbufs back without looking at each
/// (`RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE`). That is lawful while every frame is direct, has one owner,
/// and comes from one pool. The first two hold for all frames. For the third, there is exactly one pool while this lives.
#[derive(Debug)]
pub(super) struct FastFree(());

impl FastFree {
    pub(super) fn claim() -> Option<Self> {
        let mut pools = registry();
        (pools.live == 1).then(|| {
            pools.fast_freeing_ports += 1;
            Self(())
        })
    }
}

impl Drop for FastFree {
    fn drop(&mut self) {
        registry().fast_freeing_ports -= 1;
    }
}

#[derive(Debug)]
struct Pool {
    raw: NonNull<rte_mempool>,
    capacity: u32,
    environment: Arc<Environment>,
}

// SAFETY: mempools are made to be used by all cores at once, also from threads the EAL does not know.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.raw.as_ptr()) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.in_use() > 0 {
            // A frame is still held somewhere: its memory must stay, and with it the environment.
            self.environment.keep();
            return;
        }
        // SAFETY: nobody has a handle to the pool any more, and all its frames are back.
        unsafe { dpdk_sys::rte_mempool_free(self.raw.as_ptr()) };
        registry().live -= 1;
    }
}

fn pool_error(name: &str, frames: u32) -> PoolError {
    match last_error() {
        libc::EEXIST | libc::ENAMETOOLONG => PoolError::Name(name.to_owned()),
        code => {
            let bytes = u64::from(frames) * u64::from(FRAME_ROOM + DPDK_MBUF_HEADROOM + 128 + 64);
            let (mib, reason) = (bytes.div_ceil(1 << 20), error_text(code));
            PoolError::Memory { frames, mib, reason }
        }
    }
}
