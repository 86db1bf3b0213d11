//! Compiles the XDP program of ports that are shared with the kernel. It is part of the executable: a machine that runs
//! pmdns needs no compiler.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "src/xdp/filter.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_DPDK").is_none() {
        return;
    }
    let compiler = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("filter.o");
    // The machine of bytes is the one that runs it. `-g`: the map is described by type information (BTF), which libbpf
    // reads.
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let flags = ["-target", target, "-O2", "-g", "-Wall", "-Wextra", "-fdebug-compilation-dir=."];
    let status = Command::new(&compiler).args(flags).args(["-c", SOURCE, "-o"]).arg(&out).status();
    let reason = match status {
        Ok(status) if status.success() => return,
        Ok(status) => format!("{compiler} ended with {status}"),
        Err(error) => format!("cannot run {compiler}: {error}"),
    };
    panic!(
        "\n\nthe XDP program {SOURCE} was not compiled:\n  {reason}\n\
         Install clang with\n  apt-get install clang\n\
         (or say which one by CLANG=PATH),\n\
         or build without the DPDK driver: --no-default-features\n\n"
    );
}
