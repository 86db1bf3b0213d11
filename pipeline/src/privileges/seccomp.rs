//! Seccomp (seccomp(2)): system calls that only an intruder needs fail with EPERM, in every thread.
//!
//! The filter lists denied calls, not allowed ones. Drivers and libraries differ from machine to machine, and one call
//! missing from a list of allowed ones would end the process under load. The denied calls reach other processes or deep
//! into the kernel. They run programs, mount, load modules, enter namespaces, use keys, trace, or belong to interfaces
//! with a history of faults.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};

/// Denied with any ports.
const DENIED: &[c_long] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_personality,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Namespaces.
    libc::SYS_setns,
    libc::SYS_unshare,
    // The kernel itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // The clock.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // Keys, and interfaces that local attacks go through.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
];

/// Denied on this processor as well.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_fork,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[c_long] = &[];

/// Filters the system calls of every thread from now on. Needs no-new-privs.
pub(super) fn filter(needs_bpf: bool) -> Result<(), seccompiler::Error> {
    apply_filter_all_threads(&program(needs_bpf)?)
}

fn program(needs_bpf: bool) -> Result<BpfProgram, seccompiler::Error> {
    let bpf = if needs_bpf { None } else { Some(libc::SYS_bpf) };
    let denied = DENIED.iter().chain(DENIED_HERE).copied().chain(bpf);
    let rules: BTreeMap<_, _> = denied.map(|number| (number, Vec::new())).collect();
    let (allow, deny) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM.cast_unsigned()));
    let architecture = ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, allow, deny, architecture)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_a_program_that_the_kernel_takes() {
        const MOST: usize = 4096;
        let (with, without) = (program(false).unwrap(), program(true).unwrap());
        assert!(without.len() < with.len() && with.len() < MOST);
    }
}
