//! Namespaces of its own for every lab, and bounded waiting.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything in a lab may take to happen; generous, for small machines that others share.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The lab's folder: on a memory file system that only the lab sees and that ends with it.
pub(crate) const FOLDER: &str = "/run/lab";
/// Huge pages, where only the lab sees them.
pub(crate) const HUGE_FOLDER: &str = "/run/huge";

/// Set in the inner process.
const INSIDE: &str = "PMDNS_LAB_INSIDE";
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// The machine, which namespaces do not divide: its CPUs and its huge pages.
static MACHINE: RwLock<()> = RwLock::new(());

/// The machine beside others, until it is dropped.
pub(crate) fn shared_machine() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` as the test `name` in network, mount and process namespaces of its own, side by side with others.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    run(name, body, || {
        let _machine = shared_machine();
        run_inside(name)
    });
}

/// The same, with the machine for itself: for labs that flood or measure, that reserve huge pages, or that say which CPUs
/// do what.
pub(crate) fn isolated_alone(name: &str, body: impl FnOnce()) {
    run(name, body, || run_alone(name));
}

fn run_alone(name: &str) -> bool {
    let _machine = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run_inside(name)
}

/// Labs that are known to fail at times: the name, the date since when, and the reason. Such a lab has a second try, alone.
/// Who adds a lab here mends it within days: a lab that fails once may have found a fault that needs two tries to show.
const FLAKY: &[(&str, &str, &str)] = &[];

/// Runs a lab. One that fails once has failed, unless it is known to be flaky.
fn run(name: &str, body: impl FnOnce(), first: impl FnOnce() -> bool) {
    if std::env::var_os(INSIDE).is_some() {
        make_private();
        return body();
    }
    if first() {
        return;
    }
    let flaky = FLAKY.iter().find(|(flaky, ..)| *flaky == name);
    let Some((_, since, why)) = flaky else {
        panic!("the lab {name} failed; its report stands above");
    };
    println!(
        "  {name}: FAILED ONCE, its report stands above; flaky since {since} ({why}), it runs again, alone"
    );
    assert!(run_alone(name), "the lab {name} failed twice; its reports stand above");
}

/// Runs this very test again inside new namespaces, repeats what it prints, and says whether it ran
/// and passed. When the inner process ends, for any reason, the kernel kills all its children. It also removes its
/// interfaces, mounts, sockets and files under `/run`. So an interrupted lab leaves nothing behind.
fn run_inside(name: &str) -> bool {
    let pages = fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    let passed = start_inside(name);
    if fs::read_to_string(HUGE_PAGES).unwrap_or_default() != pages {
        let _ = fs::write(HUGE_PAGES, pages.trim());
    }
    passed
}

fn start_inside(name: &str) -> bool {
    let this = std::env::current_exe().unwrap();
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .arg(this)
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1", "--quiet"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare (package util-linux) starts");
    let mut ran = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        ran |= line.starts_with("test result: ok. 1 passed");
        let chatter = line.starts_with("test result:") || line.starts_with("running 1 test");
        if !chatter && line != "." && !line.is_empty() {
            println!("  {name}: {line}");
        }
    }
    child.wait().unwrap().success() && ran
}

/// Gives the namespaces what a lab needs: loopback, and file systems nobody else sees.
fn make_private() {
    sh("mount -t tmpfs lab /run");
    // The /sys of the machine shows the machine's interfaces, not ours.
    sh("mount -t sysfs lab /sys");
    sh("mkdir -p /sys/fs/bpf && mount -t bpf lab /sys/fs/bpf");
    sh(&format!("mkdir -p {FOLDER} {HUGE_FOLDER} /run/netns"));
    sh("ip link set lo up");
}

/// Makes `mebibytes` of 2 MB huge pages available, and a place to map them from. The outer process
/// puts the machine's number of pages back.
pub(crate) fn reserve_huge_pages(mebibytes: usize) {
    let wanted = mebibytes / 2;
    let reserve = || {
        let (total, free) = (memory_info("HugePages_Total:"), memory_info("HugePages_Free:"));
        if free < wanted {
            fs::write(HUGE_PAGES, (total + wanted - free).to_string()).unwrap();
        }
        memory_info("HugePages_Free:")
    };
    let mut free = reserve();
    if free < wanted {
        // A build before this one has scattered the memory: what is only cached goes, the rest moves together.
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        fs::write("/proc/sys/vm/compact_memory", "1").unwrap();
        free = reserve();
    }
    assert!(free >= wanted, "the machine can spare {free} of {wanted} huge pages of 2 MB");
    sh(&format!("mount -t hugetlbfs lab {HUGE_FOLDER}"));
}

/// A number of `/proc/meminfo`.
fn memory_info(key: &str) -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs a shell command that must succeed, and returns what it printed.
pub(crate) fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{command}`: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until `what` is true, looking often; fails after [`PATIENCE`].
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    wait_for(what, || if is_true() { Ok(()) } else { Err("it is not") });
}

/// Waits until `look` finds what is waited for, looking often; fails after [`PATIENCE`] with what it has seen last.
pub(crate) fn wait_for<E: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<(), E>) {
    let (start, mut looks) = (Instant::now(), 0);
    while let Err(seen) = look() {
        looks += 1;
        assert!(
            start.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain, {looks} looks: {what}; the last saw {seen:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `value` is the one that is wanted.
pub(crate) fn wait_for_value<T: PartialEq + std::fmt::Debug>(
    what: &str,
    wanted: T,
    mut value: impl FnMut() -> T,
) {
    wait_for(what, || match value() {
        seen if seen == wanted => Ok(()),
        seen => Err(seen),
    });
}

/// Waits until `value` is what it was a little while ago, and returns it; fails after [`PATIENCE`].
pub(crate) fn settled<T: PartialEq + std::fmt::Debug>(mut value: impl FnMut() -> T) -> T {
    let mut last = value();
    wait_until("a value comes to rest", || {
        thread::sleep(Duration::from_millis(300));
        let now = value();
        let same = now == last;
        last = now;
        same
    });
    last
}

/// A path in the lab's folder.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A program built beside this test.
pub(crate) fn binary(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let file = this.parent().and_then(Path::parent).unwrap().join(name);
    assert!(file.exists(), "{} is missing: cargo build --bins", file.display());
    file
}

/// A file of `pipeline/tests/data`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The bytes of a file compressed with gzip.
pub(crate) fn unzip(file: &Path) -> Vec<u8> {
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert!(output.status.success(), "gzip -dc {}", file.display());
    output.stdout
}
