//! A capture of malformed packets, replayed by an ordinary user: no panic, every packet counted once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hickory_proto::op::{Message, MessageType};

use crate::frames;
use crate::harness::{data, shared_machine, unzip};
use crate::malformed::{self, good_query, v4_path, v6_path};
use crate::messages::id;
use crate::pcap;
use crate::pmdns::BINARY;
use crate::stats::Stats;

/// What the replayed line knows and answers: no upstream is needed for it.
pub(crate) const CONFIG: &str = r#"
[[port]]
name = "wire"
device = "replay"
addresses = ["10.77.0.2/16", "fd77::2/64"]
vlans = ["untagged", 7, [7, 8]]

[cache]
size = "16MiB"
pages = "normal"

# They differ from one process to the next.
[cookies]
enabled = false

[acl]
default = "allow"
refuse = ["10.77.66.0/24"]
drop = ["10.77.67.0/24"]

# Every error in the capture is to be seen.
[ratelimit]
error_replies_per_second = 0

[block]
names = ["blocked.test"]

[[local]]
name = "local.test"
type = "A"
data = "192.0.2.1"

# Nobody listens there: misses end with SERVFAIL, and none is shed for being one too many.
[[upstream]]
address = "127.0.0.1:9"

[slowpath]
max_waiting_per_client = 65536
"#;

#[test]
fn malformed_packets_are_counted_and_survived() {
    let _machine = shared_machine();
    let folder = Folder::new("malformed");
    let kinds = malformed::kinds();
    let names: BTreeSet<&String> = kinds.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), kinds.len(), "every kind has a name of its own");
    assert!(kinds.len() >= 200);
    let corpus = pcap::parse(&unzip(&data("corpus-licensed.pcap.gz")));
    assert!(corpus.len() > 1000);

    let mut all: Vec<&[u8]> = kinds.iter().map(|(_, frame)| frame.as_slice()).collect();
    all.extend(corpus.iter().map(Vec::as_slice));
    let (stats, answers) = folder.replay(CONFIG, &all);
    check(&stats, &answers, all.len());
    println!("{} kinds and {} corpus packets: {}", kinds.len(), corpus.len(), stats.summary());
}

#[test]
fn trap_25_a_malformed_flood_writes_no_more_log_lines() {
    let _machine = shared_machine();
    let folder = Folder::new("flood");
    let kinds: Vec<Vec<u8>> = malformed::kinds().into_iter().map(|(_, frame)| frame).collect();
    let lines = |times: usize| {
        let frames: Vec<&Vec<u8>> = kinds.iter().cycle().take(kinds.len() * times).collect();
        let (_, said) = folder.replay_aloud(CONFIG, &frames);
        said.lines().count()
    };
    assert_eq!(lines(20), lines(1), "twenty times the packets, and not a line more");
}

#[test]
fn good_packets_in_one_capture_are_all_answered() {
    let _machine = shared_machine();
    let folder = Folder::new("good");
    let frames: Vec<Vec<u8>> = [v4_path(&[]), v6_path(&[]), v4_path(&[7]), v6_path(&[7, 8])]
        .iter()
        .map(|path| path.frame(&good_query()))
        .collect();
    let (stats, answers) = folder.replay(CONFIG, &frames);
    check(&stats, &answers, frames.len());
    assert_eq!(answers.len(), frames.len());
    for (asked, answered) in frames.iter().zip(&answers) {
        let asked = frames::read(asked).unwrap().unwrap();
        let answered = frames::read(answered).unwrap().unwrap();
        assert_eq!(answered.path.from, asked.path.to);
        assert_eq!(answered.path.to, asked.path.from);
        assert_eq!(answered.path.vlans, asked.path.vlans, "the reply wears the query's tags");
        let message = Message::from_vec(answered.payload).unwrap();
        assert_eq!(message.answers.len(), 1);
    }
}

/// Every packet is in one counter, and what was answered is sound.
fn check(stats: &Stats, answers: &[Vec<u8>], packets: usize) {
    let packets = u64::try_from(packets).unwrap();
    assert_eq!(stats.total("received"), packets);
    assert_eq!(stats.total("held"), 0);
    stats.assert_balanced();
    assert_eq!(
        stats.left_the_line(),
        packets,
        "each packet left the line at one stage, by one exit"
    );
    assert_eq!(stats.total("transmitted"), u64::try_from(answers.len()).unwrap());
    for frame in answers {
        let read = frames::read(frame).unwrap_or_else(|error| panic!("{error} in {frame:02x?}"));
        let Some(datagram) = read else { continue };
        assert_eq!(datagram.path.from.2, 53);
        let message = Message::from_vec(datagram.payload)
            .unwrap_or_else(|error| panic!("{error} in the answer {:02x?}", datagram.payload));
        assert_eq!(message.metadata.message_type, MessageType::Response);
        assert_eq!(message.metadata.id, id(datagram.payload));
    }
}

/// A folder for one test, which an ordinary user can read and write; removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A folder whose name nobody else has.
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("pmdns-replay-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("out")).unwrap();
        Self(folder)
    }

    /// Replays `frames` and returns the counters and the frames sent.
    pub(crate) fn replay<F: AsRef<[u8]>>(
        &self,
        config: &str,
        frames: &[F],
    ) -> (Stats, Vec<Vec<u8>>) {
        let (stats, _) = self.replay_aloud(config, frames);
        (stats, pcap::read(&self.0.join("out/out.pcap")))
    }

    /// Replays `frames` and returns the counters and the log.
    fn replay_aloud<F: AsRef<[u8]>>(&self, config: &str, frames: &[F]) -> (Stats, String) {
        let (input, output) = (self.0.join("in.pcap"), self.0.join("out/out.pcap"));
        pcap::write(&input, frames);
        fs::write(self.0.join("pmdns.toml"), config).unwrap();
        let result = self.run_as_ordinary_user(&input, &output);
        let said = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(0), "pmdns replay: {}\n{said}", result.status);
        assert!(!said.contains("panicked"), "{said}");
        let stats = Stats::parse(std::str::from_utf8(&result.stdout).unwrap());
        (stats, said.into_owned())
    }

    /// Runs the replay; root becomes nobody first. The build folder may be root's alone, so nobody
    /// gets a copy of the binary.
    fn run_as_ordinary_user(&self, input: &Path, output: &Path) -> Output {
        let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&self.0).unwrap()) == 0;
        let binary = if is_root { self.0.join("pmdns") } else { BINARY.into() };
        let mut command = if is_root {
            // Another process copies the file. If this one opened it for writing, children of other tests would inherit
            // the descriptor for a moment. The program could not be run meanwhile.
            assert!(Command::new("cp").arg(BINARY).arg(&binary).status().unwrap().success());
            std::os::unix::fs::chown(self.0.join("out"), Some(65_534), Some(65_534)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary);
            command
        } else {
            Command::new(binary)
        };
        command.arg("replay").arg(input).arg("-o").arg(output);
        command.arg("-c").arg(self.0.join("pmdns.toml")).arg("--json").output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
