//! scripts/run.sh, beside programs that only write down what they are asked; and the steps of scripts/test.sh.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::files::root;

/// What the script runs as it is.
const TOOLS: [&str; 14] = [
    "awk", "bash", "cat", "dirname", "grep", "head", "mktemp", "rm", "seq", "sleep", "tail", "tee",
    "timeout", "true",
];
/// Writes down how it was called.
const NOTE: &str = "echo \"${0##*/} $*\" >> \"$CALLS\"\n";
/// Answers as pmdns does once it runs, and ends when it is told to.
const PMDNS: &str = "\
[[ $1 == run ]] || { [[ -e $CALLS.ready ]]; exit; }
trap 'exit 0' TERM
: > \"$CALLS.ready\"
while :; do sleep 0.05; done
";
/// The right answers to all questions of the self-test.
const DIG: &str = "echo 'NXDOMAIN 10.97.0.1 2001:db8:97::1'\n";

/// A tree with the script, and the only programs that it finds.
struct Machine(PathBuf);

impl Machine {
    /// A machine of an ordinary user, without sudo.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pmdns-run-{name}-{}", std::process::id()));
        for inner in ["scripts", "config/examples", "bin", "target/quick"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        for file in ["scripts/run.sh", "config/examples/tap.toml"] {
            fs::copy(root().join(file), folder.join(file)).unwrap();
        }
        for tool in TOOLS {
            let there = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(tool));
            let tool_file = there.iter().find(|file| file.exists()).expect(tool);
            symlink(tool_file, folder.join("bin").join(tool)).unwrap();
        }
        let machine = Self(folder);
        machine.program("scripts/install.sh", NOTE);
        machine.program("target/quick/pmdns", PMDNS);
        machine.program("bin/cargo", NOTE);
        machine.program("bin/id", "echo 1000\n");
        machine.program("bin/ping", "exit 0\n");
        machine.program("bin/dig", DIG);
        machine
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        fs::write(&file, format!("#!{}\n{text}", self.0.join("bin/bash").display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A sudo that this user may use, and the interfaces that the kernel has.
    fn with_rights(&self, has_interface: bool) {
        // As the shell's own, `kill` needs no program.
        self.program("bin/sudo", "[[ $1 == kill ]] || exec \"$@\"\n\"$@\"\n");
        let show = format!("[[ $1 != link || $2 != show ]] || exit {}\n", u8::from(!has_interface));
        self.program("bin/ip", &format!("{NOTE}{show}"));
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut script = Command::new(self.0.join("bin/timeout"));
        script.arg("30").arg(self.0.join("bin/bash")).arg(self.0.join("scripts/run.sh"));
        script.args(arguments).env_clear();
        script.env("PATH", self.0.join("bin")).env("CALLS", self.0.join("calls"));
        script.output().unwrap()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.0.join("calls")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn d26_a_user_without_rights_learns_it_before_the_build() {
    let machine = Machine::new("rights");
    let (code, _, said) = told(&machine.run(&[]));
    assert_eq!((code, &*machine.calls()), (Some(1), ""), "{said}");
    assert!(said.contains("run this as root, or install sudo"), "{said}");
    // sudo is there, and not for this user.
    machine.program("bin/sudo", "echo 'not in the sudoers file' >&2\nexit 1\n");
    let (code, _, said) = told(&machine.run(&[]));
    assert_eq!((code, &*machine.calls()), (Some(1), ""), "{said}");
    assert!(said.contains("sudo does not let you"), "{said}");
}

#[test]
fn d26_the_kernel_says_whether_there_is_the_interface() {
    let machine = Machine::new("interface");
    // Whatever /sys has: that may be of another network namespace. So one of these would fail.
    machine.with_rights(true);
    let (code, printed, said) = told(&machine.run(&["--selftest"]));
    assert_eq!(code, Some(0), "{printed}{said}");
    assert!(machine.calls().contains("ip address replace 10.97.0.1/24 dev pm0\n"), "{printed}");
    let machine = Machine::new("no-interface");
    machine.with_rights(false);
    let (code, printed, said) = told(&machine.run(&[]));
    assert_eq!(code, Some(1), "{printed}{said}");
    assert!(!printed.contains("pmdns serves at"), "{printed}");
    assert!(said.contains("there is no interface pm0"), "{said}");
}

#[test]
fn every_step_that_test_sh_speaks_of_can_be_asked_for() {
    let script = fs::read_to_string(root().join("scripts/test.sh")).unwrap();
    let lines = script.lines().skip_while(|line| !line.starts_with("# Steps:"));
    let head: String = lines.map_while(|line| line.strip_prefix('#')).collect();
    let spoken_of: Vec<&str> = head.split([' ', ',', '.', ':', ')']).collect();
    let is_function = |step: &str| script.contains(&format!("\n{step}() {{"));
    let mut steps = Vec::new();
    for name in ["FAST", "SLOW", "PARTS", "NAMED"] {
        let (_, list) = script.split_once(&format!("\n{name}=(")).unwrap();
        steps.extend(list.split_once(')').unwrap().0.split(' '));
    }
    for step in &steps {
        assert!(is_function(step), "{step} is no function");
        assert!(spoken_of.contains(step), "the head does not speak of {step}");
    }
    let (_, by_name) = head.split_once("Only by name: ").unwrap();
    let first_words = by_name.split(", ").filter_map(|part| part.split([' ', '(']).next());
    for step in first_words.filter(|step| is_function(step)) {
        assert!(steps.contains(&step), "{step} would be refused");
    }
    let other = Command::new("bash").arg(root().join("scripts/test.sh")).arg("steps").output();
    let (code, _, said) = told(&other.unwrap());
    assert!(code == Some(2) && said.contains("empty-root"), "{said}");
}

/// But for the one of hours, and the sanitizers, which have a job of their own.
#[test]
fn every_step_that_is_run_by_name_only_is_run_each_night() {
    let script = fs::read_to_string(root().join("scripts/test.sh")).unwrap();
    let jobs = fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    let (_, nightly) =
        jobs.split_once("\n  nightly:\n    if: github.event_name == 'schedule'\n").unwrap();
    let nightly: String = nightly.lines().take_while(|line| !line.trim().is_empty()).collect();
    let words: Vec<&str> = nightly.split_whitespace().collect();
    let (_, list) = script.split_once("\nNAMED=(").unwrap();
    for step in list.split_once(')').unwrap().0.split(' ') {
        assert!(words.contains(&step) != ["soak", "sanitizers"].contains(&step), "{step}");
    }
}
