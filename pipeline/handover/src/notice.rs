//! What a process says to its keeper: the messages of `sd_notify(3)`, so that a service manager takes the same ones.

/// Bytes of a message. It takes more than any that is sent, and less is read of one that is longer.
pub const MAX_NOTICE: usize = 1024;
/// What asks a keeper for the next process. Service managers pass over it.
pub const SUCCESSOR: &str = "X_PMDNS_SUCCESSOR=1";
/// What a keeper says to the process that serves when the next one has failed. Why stands behind it.
pub const FAILED: &str = "X_PMDNS_FAILED=";

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// It serves.
    pub is_ready: bool,
    /// It is about to end.
    pub is_stopping: bool,
    /// It works.
    pub is_alive: bool,
    /// The next process is to be started. It takes over.
    pub wants_successor: bool,
    /// Its state in a sentence. One that fails says why.
    pub status: Option<String>,
    /// What the descriptors beside the message are, which are to be kept.
    pub kept: Option<String>,
    /// What is kept no longer.
    pub removed: Option<String>,
}

impl Notice {
    /// Reads a message. Lines that it does not know say nothing.
    pub fn read(message: &[u8]) -> Self {
        let lines = message.split(|byte| *byte == b'\n').map(str::from_utf8);
        let lines: Vec<_> = lines.filter_map(Result::ok).collect();
        let has = |line| lines.contains(&line);
        let name = lines.iter().find_map(|line| line.strip_prefix("FDNAME="));
        let named = |line| name.filter(|name| has(line) && is_name(name)).map(str::to_owned);
        Self {
            is_ready: has("READY=1"),
            is_stopping: has("STOPPING=1"),
            is_alive: has("WATCHDOG=1"),
            wants_successor: has(SUCCESSOR),
            status: lines.iter().find_map(|line| line.strip_prefix("STATUS=")).map(str::to_owned),
            kept: named("FDSTORE=1"),
            removed: named("FDSTOREREMOVE=1"),
        }
    }
}

/// Whether a service manager takes it as the name of a descriptor.
fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    (1..=255).contains(&name.len()) && name.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_say_what_is_meant() {
        let status = Some("x".to_owned());
        let ready = Notice { is_ready: true, is_alive: true, status, ..Notice::default() };
        assert_eq!(Notice::read(b"READY=1\nSTATUS=x\nWATCHDOG=1\n"), ready);
        let kept = Notice { kept: Some("pmdns.1".to_owned()), ..Notice::default() };
        assert_eq!(Notice::read(b"FDNAME=pmdns.1\nFDSTORE=1"), kept);
        let removed = Notice { removed: Some("pmdns.1".to_owned()), ..Notice::default() };
        assert_eq!(Notice::read(b"FDSTOREREMOVE=1\nFDNAME=pmdns.1\n"), removed);
        let successor = Notice { wants_successor: true, ..Notice::default() };
        assert_eq!(Notice::read(SUCCESSOR.as_bytes()), successor);
        assert!(Notice::read(b"STOPPING=1").is_stopping);
    }

    #[test]
    fn what_has_no_name_is_not_kept() {
        for message in ["FDSTORE=1", "FDSTORE=1\nFDNAME=", "FDSTORE=1\nFDNAME=a:b", "FDNAME=a"] {
            assert_eq!(Notice::read(message.as_bytes()), Notice::default(), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_stop_the_reader(message: Vec<u8>) {
            let notice = Notice::read(&message);
            prop_assert!(notice.kept.is_none_or(|name| is_name(&name)));
        }
    }
}
