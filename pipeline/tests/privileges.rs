//! What a process can no longer do once it has given up its privileges: any of its threads, those of before included.
//!
//! One test, in a process of its own: there is no way back.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pmdns::privileges::{GrantedPaths, restrict};
use pmdns_config::files::WholeFile;
use pmdns_engine::testing::config;

/// A thread that does what it is told.
struct Hand {
    orders: Sender<fn(&Path)>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Hand {
    fn start(folder: &Path) -> Self {
        let (orders, ordered) = channel::<fn(&Path)>();
        let (tell, done) = channel();
        let folder = folder.to_owned();
        let thread = std::thread::spawn(move || {
            for order in ordered {
                order(&folder);
                tell.send(()).unwrap();
            }
        });
        Self { orders, done, thread }
    }

    fn run(&self, order: fn(&Path)) {
        self.orders.send(order).unwrap();
        self.done.recv().expect("it panicked");
    }
}

#[test]
fn audit_12_no_thread_keeps_privileges_after_start() {
    let folder = std::env::temp_dir().join(format!("pmdns-privileges-{}", std::process::id()));
    for name in ["config", "state", "socket", "other", "driver", "pages"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("other/secret"), "secret").unwrap();
    fs::write(folder.join("socket/left"), "").unwrap();
    fs::write(folder.join("config/pmdns.toml"), "").unwrap();
    let shut = shut_away(&folder);
    let named: Vec<_> = shut.iter().filter(|(name, _)| *name != "readonly").collect();
    let lists = named.iter().map(|(name, _)| format!("[[blocklist]]\nfile = \"FOLDER/{name}\"\n"));
    // A zone that is yet to come is in nobody's way.
    let zone = |file: &str| {
        format!(
            "[[rpz]]\nzone = \"{file}\"\nprimaries = [\"192.0.2.1:53\"]\nfile = \"FOLDER/{file}/zone\"\n"
        )
    };
    let text = lists.chain([zone("state"), zone("readonly")]).collect::<String>();
    let text = format!("{text}[cache]\nsnapshot = \"FOLDER/state/cache\"\n");
    let mut config = config(&text.replace("FOLDER", &folder.display().to_string()));
    config.control.socket = folder.join("socket/s");
    let socket = folder.join("driver/s");
    config.ports[0].device = format!("net_virtio_user0,server=1,path={}", socket.display());
    let held = File::open(folder.join("other/secret")).unwrap();
    // Before: threads of DPDK, for example. A sleeping one is reached as well.
    let before: Vec<_> = (0..3).map(|_| Hand::start(&folder)).collect();

    let places = GrantedPaths::of(
        &config,
        &folder.join("config/pmdns.toml"),
        (&[], &[folder.join("pages")]),
    );
    let report = restrict(&config, &places);
    println!("{report:?}");
    assert!(report.capabilities.is_empty() && report.no_new_privileges);
    assert!(report.seccomp, "the kernel has it: it runs this test");
    let shut: Vec<_> =
        shut.into_iter().filter(|(name, _)| report.landlock || *name != "config/link").collect();
    assert_eq!(report.obstacles.len(), shut.len());
    for (obstacle, (name, why)) in report.obstacles.iter().zip(shut) {
        let begin = format!("{} cannot be ", folder.join(name).display());
        assert!(obstacle.starts_with(&begin) && obstacle.contains(why), "{obstacle}");
    }

    let after = Hand::start(&folder);
    for hand in before.iter().chain([&after]) {
        hand.run(|_| {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            for line in [
                "CapEff:\t0000000000000000",
                "CapPrm:\t0000000000000000",
                "NoNewPrivs:\t1",
                "Seccomp:\t2",
            ] {
                assert!(status.contains(line), "no {line} in {status}");
            }
            let error = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "no programs");
        });
        if report.landlock {
            hand.run(keeps_to_its_places);
        }
    }
    assert_eq!(held.metadata().unwrap().len(), 6, "what is open stays open");
    for hand in before.into_iter().chain([after]) {
        drop(hand.orders);
        hand.thread.join().unwrap();
    }
}

/// Files and a folder that nobody may use, not even their owner unless it has capabilities, and what is said of each.
fn shut_away(folder: &Path) -> [(&'static str, &'static str); 4] {
    for name in ["config/closed", "readonly"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for (name, mode) in [
        ("config/closed/list", 0o644),
        ("config/shut", 0),
        ("config/closed", 0),
        ("readonly", 0o555),
    ] {
        let path = folder.join(name);
        if !path.is_dir() {
            fs::write(&path, "blocked.example\n").unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::symlink(folder.join("other/secret"), folder.join("config/link")).unwrap();
    [
        ("config/closed/list", "closed (it is user"),
        ("config/shut", "may not read it (it is user"),
        ("config/link", "a link into a folder that is not in use"),
        ("readonly", "may not write to it (it is user"),
    ]
}

fn keeps_to_its_places(folder: &Path) {
    let denied = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    fs::read(folder.join("config/pmdns.toml")).unwrap();
    WholeFile::create(&folder.join("state/cache"), 0o600).unwrap().finish().unwrap();
    denied(fs::read(folder.join("other/secret")).unwrap_err());
    denied(fs::read("/etc/passwd").unwrap_err());
    denied(fs::write(folder.join("config/pmdns.toml"), "").unwrap_err());
    denied(fs::write(folder.join("other/new"), "").unwrap_err());
    denied(fs::write(folder.join("socket/new"), "").unwrap_err());
    denied(fs::remove_file(folder.join("other/secret")).unwrap_err());
    // A driver does so when its port is opened again.
    let name = format!("{:?}", std::thread::current().id());
    drop(UnixListener::bind(folder.join("driver").join(&name)).unwrap());
    denied(UnixListener::bind(folder.join("socket").join(&name)).unwrap_err());
    fs::write(folder.join("pages").join(&name), "").unwrap();
    // Once: another thread may have done so.
    if let Err(error) = fs::remove_file(folder.join("socket/left")) {
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
