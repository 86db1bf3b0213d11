//! Writes the queries and the zone of a bench. `queries NAMES FOLDER` makes FOLDER/queries.pcap, with one A query for
//! each name in a random order, and FOLDER/zone, the zone with these names. FOLDER/mixed.pcap and FOLDER/mixed-zone are the
//! same for what clients send, and FOLDER/mixed is the list of its questions.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use pmdns_bench::traffic::scattered;
use pmdns_bench::{Mixed, numbered_query, write_zone};
use pmdns_nics::pcap::PcapWriter;
use pmdns_stages::testing::QueryFrame;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(names), Some(folder)) = (arguments.next(), arguments.next().map(PathBuf::from))
    else {
        return Err("usage: queries NAMES FOLDER".into());
    };
    let names: usize = names.parse()?;
    let mixed = Mixed::new(names);
    let capture = |file: &str, query: &dyn Fn(usize) -> QueryFrame| -> Result<(), Box<dyn Error>> {
        let mut capture = PcapWriter::create(&folder.join(file))?;
        for index in 0..names {
            capture.write(index as u64, &query(index).frame_bytes())?;
        }
        Ok(capture.flush()?)
    };
    capture("queries.pcap", &|index| numbered_query(index, names))?;
    capture("mixed.pcap", &|index| mixed.query(index, scattered(index, names)))?;
    let create = |file: &str| File::create(folder.join(file)).map(BufWriter::new);
    let (mut zone, mut list) = (create("mixed-zone")?, create("mixed")?);
    mixed.write_zone(&mut zone)?;
    mixed.write_list(&mut list)?;
    zone.flush()?;
    list.flush()?;
    let mut zone = create("zone")?;
    write_zone(&mut zone, names)?;
    Ok(zone.flush()?)
}
