//! Zones that came from elsewhere, written into a file as [`read_zone`](super::read_zone) reads it.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::whole::WholeFile;
use crate::limits::MAX_LIST_BYTES;
use crate::local::LocalRecord;

/// Record types whose data is written as people write it (RFC 1035 section 3.2.2, RFC 3596); nearly all there
/// are in a policy zone.
const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const AAAA: u16 = 28;

/// The owner writes, the group reads.
const ZONE_MODE: u32 = 0o640;

/// Writes the records of a zone into a file, which is either as it was or whole, whenever the machine stops.
///
/// # Errors
///
/// The error of the system, or that the file would be larger than the limit for reading.
pub fn keep_zone(path: &Path, records: &[LocalRecord]) -> io::Result<()> {
    let mut out = WholeFile::create(path, ZONE_MODE)?;
    let (mut line, mut bytes) = (String::new(), 0);
    for record in records {
        line.clear();
        write_record(&mut line, record).map_err(io::Error::other)?;
        bytes += line.len() as u64;
        if bytes > MAX_LIST_BYTES {
            let problem = format!("the zone's text has more than {MAX_LIST_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        out.write_all(line.as_bytes())?;
    }
    out.finish().map(drop)
}

/// A line of a zone file (RFC 1035 section 5.1).
fn write_record(out: &mut String, record: &LocalRecord) -> fmt::Result {
    write_name(out, &record.name)?;
    write!(out, " {} IN ", record.ttl)?;
    match (record.rtype, &*record.data) {
        (A, data) if data.len() == 4 => {
            let octets: [u8; 4] = data.try_into().unwrap_or_default();
            write!(out, "A {}", Ipv4Addr::from(octets))?;
        }
        (AAAA, data) if data.len() == 16 => {
            let octets: [u8; 16] = data.try_into().unwrap_or_default();
            write!(out, "AAAA {}", Ipv6Addr::from(octets))?;
        }
        (NS, name) => {
            out.push_str("NS ");
            write_name(out, name)?;
        }
        (CNAME, name) => {
            out.push_str("CNAME ");
            write_name(out, name)?;
        }
        (SOA, data) => {
            out.push_str("SOA ");
            let rest = write_name(out, data)?;
            out.push(' ');
            let rest = write_name(out, rest)?;
            let mut numbers = rest.as_chunks().0.iter().copied().map(u32::from_be_bytes);
            numbers.try_for_each(|number| write!(out, " {number}"))?;
        }
        // RFC 3597 section 5: the way that every type can be written.
        (rtype, data) => {
            write!(out, "TYPE{rtype} \\# {} ", data.len())?;
            data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        }
    }
    out.push('\n');
    Ok(())
}

/// Writes the absolute name that `wire` begins with, and gives the rest. What could mean something else in a zone file
/// is written as `\DDD`.
fn write_name<'a>(out: &mut String, mut wire: &'a [u8]) -> Result<&'a [u8], fmt::Error> {
    if wire.first() == Some(&0) {
        out.push('.');
    }
    loop {
        let (len, rest) = wire.split_first().ok_or(fmt::Error)?;
        if *len == 0 {
            return Ok(rest);
        }
        let (label, rest) = rest.split_at_checked(usize::from(*len)).ok_or(fmt::Error)?;
        for byte in label {
            match byte {
                b'-' | b'_' | b'*' => out.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => out.push(char::from(*byte)),
                byte => write!(out, "\\{byte:03}")?,
            }
        }
        out.push('.');
        wire = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{read_zone, zone_from};

    const ZONE: &str = "\
$ORIGIN rpz.
@ 60 SOA ns admin 4294967295 2 3 4 5
@ 60 NS ns
a.example 60 CNAME .
*.b.example 60 CNAME *.
c.example 0 A 192.0.2.1
c.example 0 AAAA 2001:db8::1
c.example 0 TXT \"a;b\" \"\\\"\" \"\"
d.example 2147483647 TYPE65280 \\# 0
24.0.2.0.192.rpz-ip 60 CNAME rpz-passthru.
. 60 MX 10 .
";

    #[test]
    fn what_is_kept_reads_back() {
        let mut records = zone_from(ZONE.as_bytes(), Path::new("zone"), None).unwrap();
        // Every byte that a label can have (RFC 2181 section 11).
        for byte in 0..=255u8 {
            let name = [&[3, byte, b'x', byte][..], &[1, byte, 0]].concat().to_ascii_lowercase();
            let (rtype, data) = (CNAME, [1, byte, 0].into());
            records.push(LocalRecord { name: name.into(), rtype, ttl: 60, data });
        }
        let path = std::env::temp_dir().join(format!("pmdns-kept-{}", std::process::id()));
        keep_zone(&path, &records).unwrap();
        let read = read_zone(&path, None).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, records);
        assert!(text.contains("\na.example.rpz. 60 IN CNAME .\n"), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("pmdns-kept-folder-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let records = zone_from(ZONE.as_bytes(), Path::new("zone"), None).unwrap();
        // A folder cannot be replaced by a file.
        let path = folder.join("zone");
        std::fs::create_dir(&path).unwrap();
        keep_zone(&path, &records).unwrap_err();
        std::fs::remove_dir(&path).unwrap();
        std::fs::remove_dir(&folder).expect("it is empty");
    }
}
