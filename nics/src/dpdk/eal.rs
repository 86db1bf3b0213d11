//! The environment abstraction layer: started once per process, cleaned up when its last user goes.

use std::ffi::{CString, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{fs, io, mem};

use pmdns_config::{PciAddress, device_text};

use super::advice::{self, EalError};
use super::runtime_files::{FilesBeside, RuntimeFiles};
use super::{error_text, last_error, log};

/// Options that say on which CPUs the EAL's own threads live.
const CORE_OPTIONS: [&str; 4] = ["-c", "-l", "--lcores", "-S"];

/// An address that no machine has.
const NO_DEVICE: &str = "ffff:ff:1f.7";

/// Whether this process has ever tried to start DPDK: it cannot be started twice.
static STARTED: AtomicBool = AtomicBool::new(false);

/// The running environment, for what is made without naming it.
static RUNNING: Mutex<Weak<Environment>> = Mutex::new(Weak::new());

/// DPDK's environment, started.
#[derive(Debug)]
pub struct Eal {
    environment: Arc<Environment>,
}

impl Eal {
    /// Starts DPDK's environment with these arguments (`rte_eal_init`), and leaves the calling thread
    /// on the CPUs it was on. `program` is what DPDK calls us in its log.
    pub fn init(program: &str, arguments: &[String]) -> Result<Self, EalError> {
        let arguments = with_cores(arguments);
        let texts = c_strings(program, &arguments)?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(EalError::AlreadyInitialised);
        }
        // The EAL pins its caller, and every thread made later would inherit that.
        let affinity = Affinity::of_this_thread();
        let (parsed, messages) = log::capture(|| without(&io::stdout(), || initialise(&texts)));
        let code = last_error();
        affinity.restore();
        if parsed < 0 {
            return Err(advice::diagnose(code, arguments, &messages));
        }
        let environment = Arc::new(Environment {
            _texts: texts,
            messages,
            runtime_files: RuntimeFiles::find(&arguments),
            keep: AtomicBool::new(false),
        });
        *running_slot() = Arc::downgrade(&environment);
        Ok(Self { environment })
    }

    /// The log of the EAL's start: warnings that an operator may want to see.
    pub fn messages(&self) -> &[String] {
        &self.environment.messages
    }

    /// Folders in which the clean-up removes files.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.environment.runtime_files.folders()
    }

    /// Folders in which it makes a file for each page of its memory.
    pub fn page_folders(&self) -> Vec<PathBuf> {
        self.environment.runtime_files.page_folders()
    }

    /// The files of the other one of two processes that run beside each other. `is_second`: this one was started by
    /// [`beside_another`](super::beside_another).
    pub fn files_beside(&self, is_second: bool) -> FilesBeside {
        self.environment.runtime_files.beside(is_second)
    }

    /// Cleans up: no hugepages and no runtime files remain. Ports, pools and adopted threads must be
    /// gone; if one is not, the clean-up happens when the last of them goes.
    pub fn close(self) -> Result<(), EalError> {
        let environment = Arc::into_inner(self.environment).ok_or(EalError::InUse)?;
        let environment = mem::ManuallyDrop::new(environment);
        environment.clean_up()
    }

    pub(super) fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }
}

/// The EAL arguments for these ports: the operator's own, and an `-a` for each PCI device, so that the
/// EAL takes only our devices. Without a PCI port it looks at no PCI device.
pub fn arguments(
    settings: &pmdns_config::EalSettings,
    ports: &[pmdns_config::PortSettings],
) -> Vec<String> {
    let devices = ports.iter().map(|port| port.device.as_str());
    let devices: Vec<&str> = devices.filter(|device| PciAddress::of(device).is_some()).collect();
    let mut arguments = settings.args.clone();
    if devices.is_empty() {
        if !arguments.iter().any(|word| word == "--no-pci" || word.starts_with("-a")) {
            arguments.push("--no-pci".to_owned());
        }
        return arguments;
    }
    arguments.retain(|word| word != "--no-pci");
    for device in devices {
        let same = |word: &String| {
            let word = word.strip_prefix("-a").unwrap_or(word);
            PciAddress::of(word) == PciAddress::of(device)
        };
        if !arguments.iter().any(same) {
            arguments.extend(["-a".to_owned(), device_text(device)]);
        }
    }
    arguments
}

/// These arguments without the PCI devices of ports that are opened later: the EAL would take them at its start.
pub fn without_devices(mut arguments: Vec<String>, later: &[&str]) -> Vec<String> {
    let is_later = |word: &str| {
        let address = PciAddress::of(word);
        address.is_some() && later.iter().any(|device| PciAddress::of(device) == address)
    };
    let before = arguments.len();
    while let Some(place) = arguments.windows(2).position(|two| two[0] == "-a" && is_later(&two[1]))
    {
        arguments.drain(place..place + 2);
    }
    arguments.retain(|word| !word.strip_prefix("-a").is_some_and(is_later));
    // With no `-a` at all it would take every device.
    if arguments.len() < before && !arguments.iter().any(|word| word.starts_with("-a")) {
        arguments.extend(["-a".to_owned(), NO_DEVICE.to_owned()]);
    }
    arguments
}

/// The environment if it is running.
pub(super) fn running() -> Option<Arc<Environment>> {
    running_slot().upgrade()
}

fn running_slot() -> std::sync::MutexGuard<'static, Weak<Environment>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The environment, which is cleaned up once nothing of DPDK is used any more.
#[derive(Debug)]
pub(super) struct Environment {
    /// The EAL may keep pointers into its arguments.
    _texts: Vec<CString>,
    messages: Vec<String>,
    runtime_files: RuntimeFiles,
    keep: AtomicBool,
}

impl Environment {
    /// Never clean up: somebody still holds memory that would be unmapped.
    pub(super) fn keep(&self) {
        self.keep.store(true, Ordering::Release);
    }

    fn clean_up(&self) -> Result<(), EalError> {
        if self.keep.load(Ordering::Acquire) || super::are_devices_shared() {
            return Err(EalError::InUse);
        }
        // SAFETY: every port, pool and thread holds this environment and is gone, since this is its
        // end; frames would have kept it (`keep`).
        let (code, _) = log::capture(|| unsafe { dpdk_sys::rte_eal_cleanup() });
        self.runtime_files.remove();
        if code == 0 { Ok(()) } else { Err(EalError::Cleanup(error_text(code))) }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Nobody is left to tell; `Eal::close` is for those who want to know.
        let _told_nobody = self.clean_up();
    }
}

pub(super) fn initialise(texts: &[CString]) -> c_int {
    let mut pointers: Vec<*mut c_char> =
        texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
    pointers.push(std::ptr::null_mut());
    // SAFETY: `pointers` holds `count` strings and a null; the EAL reorders the pointers and does not
    // write to the strings, which outlive it.
    unsafe { dpdk_sys::rte_eal_init(count, pointers.as_mut_ptr()) }
}

/// Runs `call` while an output leads nowhere: of a wrong argument the EAL prints a hundred lines of its manual.
pub(super) fn without<T>(output: &impl AsFd, call: impl FnOnce() -> T) -> T {
    // SAFETY: flushes every stream of C; nobody else uses them while we start.
    let flush = || unsafe { libc::fflush(std::ptr::null_mut()) };
    let (Ok(kept), Ok(null)) =
        (output.as_fd().try_clone_to_owned(), fs::File::options().write(true).open("/dev/null"))
    else {
        return call();
    };
    let lead_to = |file: BorrowedFd<'_>| {
        flush();
        // SAFETY: both are open.
        unsafe { libc::dup2(file.as_raw_fd(), output.as_fd().as_raw_fd()) };
    };
    lead_to(null.as_fd());
    let result = call();
    lead_to(kept.as_fd());
    result
}

pub(super) fn c_strings(program: &str, arguments: &[String]) -> Result<Vec<CString>, EalError> {
    std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .map(|text| CString::new(text).map_err(|_| EalError::ZeroByte(text.to_owned())))
        .collect()
}

/// The arguments with a core for the EAL, unless the operator chose: the CPU we are on, which we are
/// certainly allowed to use. It gets lcore number 0, not its own.
pub(super) fn with_cores(arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let chosen = |word: &String| CORE_OPTIONS.iter().any(|option| word.starts_with(option));
    if !arguments.iter().any(chosen) {
        // SAFETY: asks the kernel for a number.
        let cpu = unsafe { libc::sched_getcpu() };
        arguments.push(format!("--lcores=0@{}", cpu.max(0)));
    }
    arguments
}

/// The CPUs a thread may run on.
struct Affinity(Option<libc::cpu_set_t>);

impl Affinity {
    fn of_this_thread() -> Self {
        // SAFETY: a CPU set is a bit field; zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the set is as large as said.
        let code = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        Self((code == 0).then_some(set))
    }

    fn restore(&self) {
        if let Some(set) = &self.0 {
            // SAFETY: the set is as large as said. It was ours before, so the kernel takes it.
            unsafe { libc::sched_setaffinity(0, size_of_val(set), std::ptr::from_ref(set)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn settings(args: &str) -> pmdns_config::EalSettings {
        pmdns_config::EalSettings { args: words(args) }
    }

    fn port(device: &str) -> pmdns_config::PortSettings {
        pmdns_config::PortSettings::new("wan", device)
    }

    #[test]
    fn only_our_devices_are_taken() {
        assert_eq!(arguments(&settings("-m 64"), &[port("net_null0")]), words("-m 64 --no-pci"));
        assert_eq!(arguments(&settings("--no-pci"), &[port("net_null0")]), words("--no-pci"));
        let pci = [port("0000:01:00.0"), port("net_tap0")];
        assert_eq!(arguments(&settings("--no-pci"), &pci), words("-a 0000:01:00.0"));
        for given in ["-a 0000:01:00.0", "-a 01:00.0,dv_flow_en=0", "-a01:00.0"] {
            assert_eq!(arguments(&settings(given), &pci), words(given));
        }
    }

    #[test]
    fn bound_medium_a_pci_address_is_given_to_dpdk_in_full() {
        let short = [port("0A:00.0,opt=1")];
        assert_eq!(arguments(&settings("--no-pci"), &short), words("-a 0000:0a:00.0,opt=1"));
    }

    #[test]
    fn devices_that_are_opened_later_are_not_taken_at_the_start() {
        let without = |text, later: &[&str]| without_devices(words(text), later);
        assert_eq!(without("--no-pci", &["net_memif0"]), words("--no-pci"));
        let two = "-a 0000:01:00.0 -m 64 -a0000:02:00.0";
        assert_eq!(without(two, &["1:00.0,opt=1"]), words("-m 64 -a0000:02:00.0"));
        assert_eq!(without(two, &["2:00.0"]), words("-a 0000:01:00.0 -m 64"));
        let all = without(two, &["2:00.0", "1:00.0"]);
        assert_eq!(all, words(&format!("-m 64 -a {NO_DEVICE}")), "else the EAL would take all");
    }

    #[test]
    fn a_core_is_added_unless_chosen() {
        assert!(with_cores(&words("--no-pci"))[1].starts_with("--lcores=0@"));
        for chosen in ["-l 0", "-l0", "--lcores=0@1", "-c 1"] {
            assert_eq!(with_cores(&words(chosen)), words(chosen));
        }
    }
}
