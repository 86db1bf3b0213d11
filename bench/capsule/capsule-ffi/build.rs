//! Bindings over the system's libdpdk by pkg-config, the shim, and the libraries that capsule calls.

use std::path::PathBuf;
use std::process::Command;

/// Their headers combine `packed` and aligned members, which Rust has no type for.
const OPAQUE: &str = "rte_arp_(ipv4|hdr)|rte_l2tpv2_.*|rte_gtp_psc_.*";
/// Drivers are loaded by the EAL when the program starts.
const LIBRARIES: [&str; 8] =
    ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_net", "numa", "pcap"];

fn main() {
    println!("cargo::rerun-if-changed=c");
    let flags = pkg_config("--cflags");
    let mut shim = cc::Build::new();
    shim.file("c/shim.c").include("c").opt_level(3).define("_GNU_SOURCE", None);
    for flag in &flags {
        shim.flag(flag);
    }
    shim.compile("capsule_shim");
    let bindings = bindgen::Builder::default()
        .header("c/bindings.h")
        .clang_args(flags)
        .clang_arg("-D_GNU_SOURCE")
        .allowlist_type("(rte|eth|pcap)_.*")
        .allowlist_function("(_rte|rte|eth|numa|pcap)_.*")
        .allowlist_var("(RTE|DEV|ETH|MEMPOOL|PKT|CAPSULE|rte)_.*")
        .blocklist_item("per_lcore_.*")
        // The shim's stands in for it.
        .blocklist_function("rte_eal_init")
        .opaque_type(OPAQUE)
        .derive_default(true)
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .generate_comments(false)
        .formatter(bindgen::Formatter::None)
        .generate()
        .expect("libclang reads the DPDK headers");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR can be written");
    for path in pkg_config("--libs-only-L") {
        println!("cargo::rustc-link-search=native={}", path.trim_start_matches("-L"));
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

fn pkg_config(question: &str) -> Vec<String> {
    let output = Command::new("pkg-config").args([question, "libdpdk"]).output();
    let output = output.expect("pkg-config starts: scripts/install.sh installs it");
    assert!(output.status.success(), "no libdpdk: scripts/install.sh installs it");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}
