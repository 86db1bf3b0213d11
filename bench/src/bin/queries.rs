//! Writes the queries and the zone of a bench. `queries NAMES FOLDER` makes FOLDER/queries.pcap, with one A query for
//! each name in a random order, and FOLDER/zone, the zone with these names.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use pmdns_bench::{numbered_query, write_zone};
use pmdns_nics::pcap::PcapWriter;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(names), Some(folder)) = (arguments.next(), arguments.next().map(PathBuf::from))
    else {
        return Err("usage: queries NAMES FOLDER".into());
    };
    let names: usize = names.parse()?;
    let mut capture = PcapWriter::create(&folder.join("queries.pcap"))?;
    for index in 0..names {
        capture.write(index as u64, &numbered_query(index, names).frame_bytes())?;
    }
    capture.flush()?;
    let mut zone = BufWriter::new(File::create(folder.join("zone"))?);
    write_zone(&mut zone, names)?;
    Ok(zone.flush()?)
}
