//! Questions and records, from the text of zone files to the wire.

use std::str::FromStr as _;

use domain::base::iana::{Class, Rtype};
use domain::base::name::ToName as _;
use domain::base::rdata::ComposeRecordData as _;
use domain::base::{Name as Origin, RecordData as _};
use domain::zonefile::inplace::{Entry, Zonefile};
use pmdns_hierarchy::{Name, OwnedRecord};

/// The question that these words are: a name, a class and a type.
pub(crate) fn question(words: &[&str]) -> Result<(Name, u16, u16), String> {
    let [name, class, rtype] = words else { return Err(format!("{words:?} is no question")) };
    let class = Class::from_str(class).map_err(|_| format!("`{class}` is no class"))?;
    let rtype = Rtype::from_str(rtype).map_err(|_| format!("`{rtype}` is no type"))?;
    Ok((Name::new(name), rtype.to_int(), class.to_int()))
}

/// The records of a text. A TTL that is left out is 3600, a class that is left out IN.
pub(crate) fn records(text: &str) -> Result<Vec<OwnedRecord>, String> {
    let is_chaos = text.split_whitespace().any(|word| word == "CH");
    // The scanner knows algorithms by number only.
    let text = format!("$TTL 3600\n{}\n", text.replace(" RSASHA1 ", " 5 "));
    let mut zone = Zonefile::with_capacity(text.len());
    zone.extend_from_slice(text.as_bytes());
    zone.set_default_class(if is_chaos { Class::CH } else { Class::IN });
    zone.set_origin(Origin::root_bytes());
    let mut records = Vec::new();
    loop {
        let record = match zone.next_entry() {
            Ok(None) => return Ok(records),
            Ok(Some(Entry::Record(record))) => record,
            Ok(Some(Entry::Include { .. })) => return Err("an include".into()),
            Err(error) => return Err(format!("no records: {error}: {text}")),
        };
        let (mut owner, mut data) = (Vec::new(), Vec::new());
        record.owner().compose(&mut owner).map_err(|_| "a name is too long")?;
        record.data().compose_rdata(&mut data).map_err(|_| "data are too long")?;
        let (owner, _) = Name::parse(&owner, 0).ok_or("no name")?;
        let (rtype, class) = (record.data().rtype().to_int(), record.class().to_int());
        records.push(OwnedRecord { owner, rtype, class, ttl: record.ttl().as_secs(), data });
    }
}
