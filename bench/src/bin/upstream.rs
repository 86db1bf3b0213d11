//! Answers every query that comes to ADDRESS, over UDP, with one A record: `upstream ADDRESS`.

use std::error::Error;

use pmdns_bench::upstream::Upstream;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(address) = std::env::args().nth(1) else {
        return Err("usage: upstream ADDRESS:PORT".into());
    };
    let upstream = Upstream::bind(address.parse()?)?;
    loop {
        // A client that has gone shows as an error here; the next one is served all the same.
        let _ = upstream.answer_one();
    }
}
