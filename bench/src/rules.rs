//! Rules for the benches, in files of their own: block lists, a local zone, a response policy zone.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Names in the local zone, and in the policy zone.
const ZONE_NAMES: usize = 10_000;
/// Prefixes of each kind: in the access list, exempt from limits, and of either kind of address rule of the policy zone.
const PREFIXES: usize = 200;

/// Settings, and the files they name, which are gone when this is dropped. None of them is about the traffic's names or clients,
/// so that all that was a hit without them is a hit with them.
pub struct Rules {
    /// TOML.
    pub settings: String,
    folder: PathBuf,
}

impl Rules {
    /// A block list of so many names.
    pub fn list(names: usize) -> io::Result<Self> {
        let mut rules = Self::nothing()?;
        let file = rules.file("list", |file| write_list(file, names))?;
        rules.settings = format!("[[blocklist]]\nfile = \"{file}\"\n");
        Ok(rules)
    }

    /// All rules together: an access list, both rate limits with exemptions, cookies and special-use names. They have a local
    /// zone with its PTR records and a block list of `names` names. A policy zone has rules about names, clients and answers.
    pub fn everything(names: usize) -> io::Result<Self> {
        let mut rules = Self::list(names)?;
        let zone = rules.file("zone", |file| write_local_zone(file))?;
        let policy = rules.file("rpz", |file| write_policy_zone(file))?;
        let (mut refused, mut exempt) = (String::new(), String::new());
        for number in 0..PREFIXES {
            let _ = write!(refused, "\"172.16.{number}.0/24\", \"2001:db8:{number:x}::/48\", ");
            let _ = write!(exempt, "\"172.17.{number}.0/24\", ");
        }
        let list = std::mem::take(&mut rules.settings);
        rules.settings = format!(
            "[acl]\ndefault = \"drop\"\nallow = [\"10.77.0.0/16\"]\nrefuse = [{refused}]\n\
             [ratelimit]\nqueries_per_second = 1000000000\nburst = 1000000000\n\
             miss_queries_per_second = 1000000000\nmiss_burst = 1000000000\nexempt = [{exempt}]\n\
             [policy]\nauto_ptr = true\n[[zone]]\nfile = \"{zone}\"\n[[rpz]]\nfile = \"{policy}\"\n{list}"
        );
        Ok(rules)
    }

    /// No rule at all, not even those there are by default.
    pub fn nothing() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("pmdns-rules-{}", unique()));
        fs::create_dir(&folder)?;
        Ok(Self { settings: "[policy]\nspecial_use = false\n".into(), folder })
    }

    fn file(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<String> {
        let path = self.folder.join(name);
        let mut file = BufWriter::new(File::create(&path)?);
        write(&mut file)?;
        file.flush()?;
        Ok(path.display().to_string())
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A number that no other rules of this machine have at the time.
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Writes a block list of `names` names of the shapes that public lists have. None of the zone's names is on it,
/// but they end like a part of those that are.
fn write_list(mut list: impl Write, names: usize) -> io::Result<()> {
    for name in 0..names {
        match name % 4 {
            0 => writeln!(list, "ads{name}.site{}.com", name % 100_003)?,
            1 => writeln!(list, "tracker-{name}.net")?,
            2 => writeln!(list, "metrics.client{name}.example")?,
            _ => writeln!(list, "a.b{name}.cdn.provider{}.org", name % 1009)?,
        }
    }
    Ok(())
}

fn write_local_zone(mut zone: impl Write) -> io::Result<()> {
    writeln!(
        zone,
        "$ORIGIN intranet.example.\n$TTL 300\n@ SOA ns host 1 3600 900 604800 60\n@ NS ns"
    )?;
    writeln!(zone, "ns A 192.0.2.53\n*.app CNAME web\nweb AAAA 2001:db8::1")?;
    for name in 0..ZONE_NAMES {
        writeln!(
            zone,
            "publisher{name} A 10.{}.{}.{}",
            128 + name / 65_536,
            name / 256 % 256,
            name % 256
        )?;
    }
    Ok(())
}

fn write_policy_zone(mut zone: impl Write) -> io::Result<()> {
    writeln!(zone, "$ORIGIN rpz.example.\n$TTL 300\n@ SOA ns host 1 3600 900 604800 60\n@ NS ns")?;
    for name in 0..ZONE_NAMES {
        writeln!(zone, "bad{name}.example CNAME .\n*.bad{name}.example CNAME .")?;
    }
    for number in 0..PREFIXES {
        writeln!(zone, "24.0.{number}.18.172.rpz-client-ip CNAME rpz-drop.")?;
        writeln!(zone, "24.0.{number}.19.172.rpz-ip CNAME .")?;
    }
    Ok(())
}
