//! Raw bindings to the system's libdpdk, generated when the crate is built.
//!
//! * The bindings that bindgen makes of the headers: `rte_*` functions and types, and the `DPDK_*`
//!   constants that `c/wrapper.h` types.
//! * The `shim_*` functions of `c/shim.c`, over functions that DPDK offers only inline.
//! * [`mbuf`] and [`burst`]: the few inline functions that a data core calls all the time, written again in
//!   Rust (docs/adr/0003-rx-tx-burst-in-rust-or-c.md).
//!
//! Nothing is safe here. The safe side is `pmdns_nics::dpdk`.

pub mod burst;
pub mod mbuf;

#[expect(clippy::all, clippy::undocumented_unsafe_blocks, reason = "bindgen wrote it, not we")]
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn,
    reason = "C's names, and what bindgen generates for whichever DPDK is installed"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
