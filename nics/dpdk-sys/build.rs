//! Finds the system's libdpdk, generates its bindings and compiles the shim over its inline functions.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The oldest DPDK whose burst functions and names this crate uses (`rte_eth_fp_ops`, `rte_dev_name`).
const OLDEST_DPDK: &str = "22.11";

/// The releases that this crate was built against. What differs between them in what it uses is compiled away:
///
/// | release | what differs | how this crate takes it |
/// |---|---|---|
/// | 22.11 | `rte_eth_fp_ops` has its functions before its queues | bindgen reads the order |
/// | 23.11 | the queues come first; `rte_eth_rss_conf` has an `algorithm` | the same; zero is the default algorithm |
/// | | the log has a library of its own, `rte_log` | it is linked where pkg-config names it |
/// | 24.11 | fields of `rte_mbuf` are in nameless unions | the C compiler takes their offsets (`c/wrapper.h`) |
/// | | the IPv6 address of a flow rule is a struct | `shim.c` copies its bytes |
/// | 25.11 | `rte_eth_stats` has no counters of queues, and `rte_eth_link` a connector | neither is read |
/// | | a wrong kind of process is read before other arguments | `trial.rs` asks by a device |
/// | | arguments that it cannot read end the process | `trial.rs` asks a copy first; `shim.c` keeps what was said |
/// | | net_tap asks the kernel by netlink for flags and MAC | the unit allows `AF_NETLINK` |
const RELEASES: [&str; 4] = ["22.11", "23.11", "24.11", "25.11"];

/// Libraries that are linked; the drivers are loaded by the EAL when the program starts.
const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

/// Functions that the `dpdk` driver calls; no other enters the bindings.
const FUNCTIONS: &str = "rte_(eal_(init|cleanup|get_runtime_dir)|strerror|version\
    |thread_(register|unregister)|dev_(probe|remove|name|event_callback_(register|unregister))\
    |ring_(create_elem|free)\
    |pktmbuf_free_bulk|mbuf_(best|user)_mempool_ops|mempool_(free|in_use_count)\
    |eth_call_[rt]x_callbacks\
    |eth_dev_(adjust_nb_rx_tx_desc|callback_(register|unregister)|close|configure|get_port_by_name|info_get|socket_id\
    |rss_hash_conf_get|rx_intr_(ctl_q|disable|enable)|set_mc_addr_list|start|stop|vlan_filter)|epoll_wait\
    |eth_(find_next_owned_by|macaddr_get|promiscuous_enable|promiscuous_disable|allmulticast_enable)\
    |eth_(rx|tx)_queue_setup|eth_stats_(get|reset)|eth_xstats_(get|get_names))|shim_.*";

/// Types that no function above names.
const TYPES: &str = "rte_mbuf|rte_eth_fp_ops";

/// Variables: the table of burst functions, the folder of drivers, and the typed constants of `wrapper.h`.
const VARIABLES: &str = "rte_eth_fp_ops|RTE_EAL_PMD_PATH|DPDK_.*|SHIM_.*";

fn main() {
    println!("cargo::rerun-if-changed=c/wrapper.h");
    println!("cargo::rerun-if-changed=c/shim.c");
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let version = pkg_config(&["--modversion"]).concat();
    if !RELEASES.iter().any(|release| version.starts_with(release)) {
        println!(
            "cargo::warning=this crate was never built against DPDK {version}, only against {}",
            RELEASES.join(", ")
        );
    }
    let compiler_flags = pkg_config(&["--cflags"]);
    compile_shim(&compiler_flags);
    generate_bindings(&compiler_flags);
    link();
}

/// Asks pkg-config itself: the crate of that name hides `-march` and `-include`, and both are needed.
fn pkg_config(questions: &[&str]) -> Vec<String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let request = format!("libdpdk >= {OLDEST_DPDK}");
    let output = Command::new(&program).args(questions).arg(&request).output();
    let reason = match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8(output.stdout).expect("pkg-config prints ASCII");
            return text.split_whitespace().map(str::to_owned).collect();
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("cannot run {program}: {error}"),
    };
    panic!(
        "\n\nlibdpdk {OLDEST_DPDK} or newer was not found:\n  {reason}\n\
         Install it with\n  apt-get install dpdk-dev libclang-dev clang pkg-config\n\
         (or point PKG_CONFIG_PATH at the libdpdk.pc of your own build),\n\
         or build without the DPDK driver: --no-default-features\n\n"
    );
}

fn compile_shim(compiler_flags: &[String]) {
    let mut build = cc::Build::new();
    build.file("c/shim.c").include("c").opt_level(3).warnings(true);
    for flag in compiler_flags {
        // cc puts its own -march first; DPDK's later one wins, which its inline functions need.
        build.flag(flag);
    }
    build.define("_GNU_SOURCE", None);
    build.compile("dpdk_shim");
}

fn generate_bindings(compiler_flags: &[String]) {
    let bindings = bindgen::Builder::default()
        .header("c/wrapper.h")
        .clang_args(compiler_flags)
        .clang_arg("-D_GNU_SOURCE")
        .allowlist_function(FUNCTIONS)
        .allowlist_type(TYPES)
        .allowlist_var(VARIABLES)
        // bindgen takes thread-local variables for plain statics, and the linker says nothing.
        .blocklist_item("per_lcore_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        .derive_copy(true)
        .derive_debug(false)
        .generate_comments(false)
        .formatter(bindgen::Formatter::None)
        .generate()
        .unwrap_or_else(|error| {
            panic!(
                "\n\nbindgen cannot read the DPDK headers:\n  {error}\n\
                 If libclang is missing: apt-get install libclang-dev clang\n\
                 Or build without the DPDK driver: --no-default-features\n\n"
            )
        });
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR can be written");
}

/// Links the shared libraries: the EAL then finds and loads every driver that is installed.
fn link() {
    for flag in pkg_config(&["--libs-only-L"]) {
        if let Some(path) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={path}");
        }
    }
    let all = pkg_config(&["--libs-only-l"]);
    let log = all.iter().any(|flag| flag == "-lrte_log").then_some("rte_log");
    for library in LIBRARIES.into_iter().chain(log) {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
