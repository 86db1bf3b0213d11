//! `named-checkzone` as the judge: what BIND makes of a zone file, as records in wire format.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The program.
const CHECKER: &str = "named-checkzone";

/// The checks of its that are about more than the form of records.
const LENIENT: [&str; 21] = [
    "-i", "none", "-k", "ignore", "-m", "ignore", "-M", "ignore", "-n", "ignore", "-r", "ignore",
    "-S", "ignore", "-T", "ignore", "-W", "ignore", "-F", "raw=0", "-o",
];

/// A record in wire format, its owner in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) name: Vec<u8>,
    pub(crate) rtype: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<u8>,
}

impl Row {
    /// As a line of a zone file that names nothing by its name (RFC 3597 section 5).
    pub(crate) fn generic(&self) -> String {
        let (mut name, mut rest) = (String::new(), &self.name[..]);
        while let Some((len, after)) = rest.split_first().filter(|(len, _)| **len > 0) {
            let (label, below) = after.split_at(usize::from(*len));
            name.extend(label.iter().map(|byte| format!("\\{byte:03}")));
            name.push('.');
            rest = below;
        }
        let data: String = self.data.iter().map(|byte| format!("{byte:02x}")).collect();
        let Row { rtype, ttl, .. } = self;
        format!("{name} {ttl} CLASS1 TYPE{rtype} \\# {} {data}\n", self.data.len())
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.generic().trim_end())
    }
}

/// The judge, with a folder of its own.
pub(crate) struct Judge {
    folder: PathBuf,
}

impl Judge {
    pub(crate) fn new(test: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("pmdns-zones-{}-{test}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    /// The records of a zone file, or what is wrong with it.
    pub(crate) fn read(&self, origin: &str, text: &[u8]) -> Result<BTreeSet<Row>, String> {
        let (file, raw) = (self.folder.join("zone"), self.folder.join("raw"));
        fs::write(&file, text).unwrap();
        let _ = fs::remove_file(&raw);
        let out = Command::new(CHECKER)
            .args(LENIENT)
            .args([&raw.display().to_string(), origin, &file.display().to_string()])
            .output()
            .expect("bind9-utils is installed");
        if !out.status.success() {
            let said = [out.stdout, out.stderr].concat();
            return Err(String::from_utf8_lossy(&said).into_owned());
        }
        Ok(rows(&fs::read(&raw).unwrap()))
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The records of a zone in BIND's raw format, version 0: a header of 12 bytes, then sets of records.
fn rows(bytes: &[u8]) -> BTreeSet<Row> {
    let mut rest = &bytes[12..];
    let mut rows = BTreeSet::new();
    while !rest.is_empty() {
        // The length of the set, class, type, covered type, TTL, number of records.
        take(&mut rest, 4);
        take(&mut rest, 2);
        let rtype = u16::try_from(number(take(&mut rest, 2))).unwrap();
        take(&mut rest, 2);
        let ttl = number(take(&mut rest, 4));
        let records = number(take(&mut rest, 4));
        let len = number(take(&mut rest, 2)) as usize;
        let name = take(&mut rest, len).to_ascii_lowercase();
        for _ in 0..records {
            let len = number(take(&mut rest, 2)) as usize;
            let data = take(&mut rest, len).to_vec();
            rows.insert(Row { name: name.clone(), rtype, ttl, data });
        }
    }
    rows
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (taken, after) = rest.split_at(len);
    *rest = after;
    taken
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}
