//! A port that receives what a capture holds, and writes what it transmits into another.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Capture, PcapError, Writer};
use crate::memory::facts;
use crate::{Burst, HeapPool, Nic, PortFacts, PortStats, Queues, RxQueue, TxQueue};

/// A port over captures. Its queues do what its name says; it counts.
#[derive(Debug)]
pub struct ReplayNic {
    facts: PortFacts,
    counts: Arc<Counts>,
}

/// What the queues tell the port.
#[derive(Debug, Default)]
struct Counts {
    finished: AtomicBool,
    rx_frames: AtomicU64,
    rx_bytes: AtomicU64,
    /// Frames the capture has only the beginning of, or that no buffer can hold.
    unusable: AtomicU64,
    tx_frames: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
}

/// A port named `name`, of number `port`, that receives the frames of `input` once, in their order and
/// as fast as it is polled, in buffers of `pool`; what it transmits goes into `output`, stamped with a
/// microsecond per frame so that equal runs write equal files. It has one queue each way.
///
/// Its MAC address is the first unicast destination in the capture: that is the station the frames were
/// sent to.
pub fn replay(
    name: &str,
    port: u8,
    input: &Path,
    output: Option<&Path>,
    pool: HeapPool,
) -> Result<(ReplayNic, Queues), PcapError> {
    let capture = Capture::read(input)?;
    let output = output.map(Writer::create).transpose()?;
    let mut facts = facts(name, "replay", 1);
    let station = |bytes: &[u8]| bytes.first_chunk::<6>().filter(|mac| mac[0] & 1 == 0).copied();
    if let Some(mac) = capture.records().find_map(|record| station(record.bytes)) {
        facts.mac = mac;
    }
    let counts = Arc::new(Counts::default());
    let rx = Rx { capture, next: 0, port, pool, counts: Arc::clone(&counts) };
    let tx = Tx { output, counts: Arc::clone(&counts) };
    let queues = Queues { rx: vec![Box::new(rx)], tx: vec![Box::new(tx)] };
    Ok((ReplayNic { facts, counts }, queues))
}

impl ReplayNic {
    /// Whether every frame of the capture has been received.
    pub fn finished(&self) -> bool {
        self.counts.finished.load(Ordering::Acquire)
    }
}

impl Nic for ReplayNic {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn stats(&self) -> PortStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PortStats {
            rx_frames: read(&self.counts.rx_frames),
            rx_bytes: read(&self.counts.rx_bytes),
            rx_errors: read(&self.counts.unusable),
            tx_frames: read(&self.counts.tx_frames),
            tx_bytes: read(&self.counts.tx_bytes),
            tx_errors: read(&self.counts.tx_errors),
            ..PortStats::default()
        }
    }

    fn close(self: Box<Self>) {
        // The output is complete when the TX queue is dropped.
    }
}

struct Rx {
    capture: Capture,
    next: usize,
    port: u8,
    pool: HeapPool,
    counts: Arc<Counts>,
}

impl RxQueue for Rx {
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let before = burst.len();
        let limit = before + limit.min(burst.remaining_capacity());
        while burst.len() < limit && self.next < self.capture.records.len() {
            // Without a buffer the frame stays where it is: a file is patient.
            let Some(mut frame) = self.pool.take() else { break };
            let record = self.capture.record(self.next);
            self.next += 1;
            let whole = record.bytes.len() >= record.original_len as usize;
            if !whole || frame.resize(record.bytes.len()).is_err() {
                self.counts.unusable.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            frame.bytes_mut().copy_from_slice(record.bytes);
            frame.set_port(self.port);
            self.counts.rx_frames.fetch_add(1, Ordering::Relaxed);
            self.counts.rx_bytes.fetch_add(record.bytes.len() as u64, Ordering::Relaxed);
            burst.push(frame);
        }
        if self.next == self.capture.records.len() {
            self.counts.finished.store(true, Ordering::Release);
        }
        burst.len() - before
    }
}

struct Tx {
    output: Option<Writer<BufWriter<File>>>,
    counts: Arc<Counts>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let count = burst.len();
        for frame in burst.iter() {
            let time_us = self.counts.tx_frames.load(Ordering::Relaxed);
            let written = self.output.as_mut().map(|output| output.write(time_us, frame.bytes()));
            if let Some(Err(_)) = written {
                self.counts.tx_errors.fetch_add(1, Ordering::Relaxed);
            } else {
                self.counts.tx_frames.fetch_add(1, Ordering::Relaxed);
                self.counts.tx_bytes.fetch_add(frame.bytes().len() as u64, Ordering::Relaxed);
            }
        }
        crate::release(burst);
        count
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(Err(_)) = self.output.as_mut().map(Writer::flush) {
            self.counts.tx_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of its own for each test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("pmdns-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _best_effort = std::fs::remove_dir_all(&self.0);
        }
    }

    fn capture_of(path: &Path, frames: &[Vec<u8>]) {
        let mut writer = Writer::create(path).unwrap();
        for (index, frame) in frames.iter().enumerate() {
            writer.write(index as u64, frame).unwrap();
        }
        writer.flush().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files")]
    fn frames_go_from_one_file_into_another() {
        let folder = Folder::new("replay");
        let (input, output) = (folder.file("in.pcap"), folder.file("out.pcap"));
        let frames: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n & !1; 60]).collect();
        capture_of(&input, &frames);
        let pool = HeapPool::new(16);
        let (nic, mut queues) = replay("lab", 2, &input, Some(&output), pool.clone()).unwrap();
        assert_eq!(nic.facts().mac, [0; 6]);
        let mut burst = Burst::new();
        while !nic.finished() {
            let received = queues.rx[0].receive(&mut burst, 32);
            assert!((1..=16).contains(&received));
            assert!(burst.iter().all(|frame| frame.port() == 2));
            assert_eq!(queues.tx[0].transmit(&mut burst), received);
        }
        assert_eq!((nic.stats().rx_frames, nic.stats().tx_frames), (100, 100));
        drop(queues);
        assert_eq!(pool.in_use(), 0);
        assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(&output).unwrap());
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files")]
    fn what_no_buffer_holds_is_counted_and_skipped() {
        let folder = Folder::new("oversized");
        let input = folder.file("in.pcap");
        capture_of(&input, &[vec![2; 60], vec![2; 2049], vec![2; 2048]]);
        // The first frame was longer on the wire than in the capture.
        let mut bytes = std::fs::read(&input).unwrap();
        bytes[24 + 12] = 61;
        std::fs::write(&input, bytes).unwrap();
        let (nic, mut queues) = replay("lab", 0, &input, None, HeapPool::new(4)).unwrap();
        let mut burst = Burst::new();
        assert_eq!(queues.rx[0].receive(&mut burst, 32), 1);
        assert_eq!(burst[0].bytes().len(), 2048);
        assert!(nic.finished());
        assert_eq!(nic.stats().rx_errors, 2);
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files")]
    fn a_missing_file_is_told_by_name() {
        let error = replay("lab", 0, Path::new("/nowhere/in.pcap"), None, HeapPool::new(1));
        let Err(error) = error else { panic!("there is no such file") };
        assert!(error.to_string().contains("cannot read the capture /nowhere/in.pcap"), "{error}");
    }
}
