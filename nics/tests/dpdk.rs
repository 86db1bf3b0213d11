//! The DPDK driver over devices of memory: a real EAL, no root, no hugepages, no NIC.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use dpdk_sys::rte_mbuf;
use pmdns_nics::dpdk::{ClosedPort, DpdkNic, Eal, Mempool, PortError};
use pmdns_nics::{Burst, Frame, Nic, PortPlan, Queues, Rss, Verified, adopt_data_thread, release};

const ONE_QUEUE: PortPlan =
    PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };

/// The one environment of this process. It is never closed here: `close` has tests of its own.
fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        let arguments = ["--no-huge", "--no-shconf", "--no-pci", "-m", "64"];
        Eal::init("pmdns-test", &arguments.map(str::to_owned)).expect("runs on any machine")
    })
}

fn settings(device: &str) -> pmdns_config::PortSettings {
    pmdns_config::PortSettings {
        rx_descriptors: 256,
        tx_descriptors: 256,
        link_wait_ms: 0,
        ..pmdns_config::PortSettings::new("lab", device)
    }
}

fn open(device: &str) -> Result<ClosedPort, PortError> {
    eal().open(&settings(device), 5)
}

fn start(device: &str, plan: &PortPlan, pool: &Mempool) -> (DpdkNic, Queues) {
    open(device).unwrap().start(plan, pool).unwrap()
}

fn pool(name: &str, frames: u32) -> Mempool {
    let _running = eal();
    Mempool::new(name, frames, None).unwrap()
}

fn filled(pool: &Mempool, number: usize) -> Frame {
    let mut frame = pool.take().unwrap();
    frame.resize(60 + number % 1400).unwrap();
    frame.bytes_mut().fill(number as u8);
    frame
}

#[test]
fn frames_without_pci_devices_lie_side_by_side() {
    let pool = pool("gapless", 511);
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    let mut places: Vec<usize> = frames.iter().map(|frame| frame.bytes().as_ptr().addr()).collect();
    places.sort_unstable();
    let step = places[1] - places[0];
    let gaps = places.windows(2).filter(|pair| pair[1] - pair[0] != step).count();
    assert_eq!(
        (frames.len(), gaps),
        (511, 0),
        "net_af_xdp shares as much memory as frames take without gaps"
    );
}

#[test]
fn frames_flow_through_a_ring_with_their_bytes_intact() {
    let pool = pool("intact", 512);
    assert_eq!((pool.capacity(), pool.in_use()), (512, 0));
    let (nic, mut queues) = start("net_ring_intact", &ONE_QUEUE, &pool);
    assert_eq!(nic.facts().driver, "net_ring");
    assert!(nic.link_up());
    let mut burst = Burst::new();
    for round in 0..20 {
        burst.extend((0..40).map(|number| filled(&pool, round * 40 + number)));
        assert_eq!(queues.tx[0].transmit(&mut burst), 40);
        assert!(burst.is_empty());
        assert_eq!(queues.rx[0].receive(&mut burst, 16), 16);
        assert_eq!(queues.rx[0].receive(&mut burst, 64), 24, "only as many as have room");
        for (number, frame) in burst.iter().enumerate() {
            let number = round * 40 + number;
            assert_eq!(frame.bytes().len(), 60 + number % 1400);
            assert!(frame.bytes().iter().all(|&byte| byte == number as u8));
            assert_eq!((frame.port(), frame.room()), (5, 2048));
            assert_eq!(frame.verified(), Verified::NOTHING);
        }
        assert_eq!(pool.in_use(), 40);
        release(&mut burst);
    }
    let stats = nic.stats();
    assert_eq!((stats.rx_frames, stats.tx_frames, stats.rx_errors), (800, 800, 0));
    assert!(nic.xstats().contains(&("rx_good_packets".to_owned(), 800)));
    Box::new(nic).close();
    drop(queues);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_full_queue_leaves_the_rest_in_order() {
    let pool = pool("full", 2047);
    let (_nic, mut queues) = start("net_ring_full", &ONE_QUEUE, &pool);
    let mut sent = 0;
    let mut burst = Burst::new();
    loop {
        burst.extend((burst.len()..64).map(|number| filled(&pool, sent + number)));
        let took = queues.tx[0].transmit(&mut burst);
        sent += took;
        if took < 64 {
            break;
        }
    }
    assert_eq!(burst[0].bytes()[0], sent as u8, "the first that was not taken is the first again");
    let rest: Vec<u8> = burst.iter().map(|frame| frame.bytes()[0]).collect();
    assert!(rest.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{rest:?}");
    assert_eq!(pool.in_use(), sent + burst.len());
    assert_eq!(queues.tx[0].transmit(&mut burst), 0, "full is full");
    let held = burst.len();
    drop(queues.rx.pop());
    drop(burst);
    assert_eq!(pool.in_use(), sent, "{held} frames came back when they were dropped");
}

#[test]
fn frames_left_in_queues_come_back_when_the_port_closes() {
    let pool = pool("close", 256);
    let (nic, mut queues) = start("net_ring_close", &ONE_QUEUE, &pool);
    let mut burst: Burst = (0..32).map(|number| filled(&pool, number)).collect();
    queues.tx[0].transmit(&mut burst);
    let mut seen = Burst::new();
    queues.rx[0].receive(&mut seen, 64);
    Box::new(nic).close();
    // The port still runs, because its queues are there: they stay lawful to poll.
    assert_eq!(queues.rx[0].receive(&mut burst, 64), 0);
    drop((queues, seen));
    assert_eq!(pool.in_use(), 0);
    assert!(open("net_ring_close").is_ok(), "the device is gone and can be plugged in again");
}

#[test]
fn each_queue_is_its_own() {
    let pool = pool("many", 512);
    let plan = PortPlan { rx_queues: 4, tx_queues: 4, rss: Rss::Clients, interrupts: false };
    let (nic, mut queues) = start("net_ring_many", &plan, &pool);
    assert!(nic.warnings()[0].contains("cannot spread queries over 4 RX queues"));
    for (number, queue) in queues.tx.iter_mut().enumerate() {
        let mut burst: Burst = [filled(&pool, number)].into_iter().collect();
        assert_eq!(queue.transmit(&mut burst), 1);
    }
    for (number, queue) in queues.rx.iter_mut().enumerate() {
        let mut burst = Burst::new();
        assert_eq!(queue.receive(&mut burst, 64), 1);
        assert_eq!(usize::from(burst[0].bytes()[0]), number);
    }
}

#[test]
fn an_empty_pool_gives_nothing_until_a_frame_comes_back() {
    let pool = pool("empty", 31);
    let mut held: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((held.len(), pool.in_use()), (31, 31));
    assert!(held.iter().all(|frame| frame.bytes().is_empty() && frame.room() == 2048));
    drop(held.pop());
    assert!(pool.take().is_some());
    drop(held);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn free_frames_wait_in_the_lock_free_stack_unless_the_operator_names_another() {
    assert_eq!(keeper_of(&pool("stack", 64)), "lf_stack");
    // By name it is the operator's choice, though it is DPDK's default as well.
    for keeper in ["ring_mp_mc", "stack"] {
        let named = format!("--mbuf-pool-ops-name={keeper}");
        let mut child = child(&["--no-shconf", &named], &std::env::temp_dir());
        assert_eq!(first_word(&mut child), format!("frames wait in {keeper}"));
        close(child);
    }
}

#[test]
fn a_mempool_driver_is_known_or_not() {
    let _running = eal();
    for (name, expected) in [(c"lf_stack", true), (c"ring_mp_mc", true), (c"lf_stac", false)] {
        // SAFETY: a C string.
        let is_known = unsafe { dpdk_sys::shim_has_mempool_ops(name.as_ptr()) };
        assert_eq!(is_known, expected, "{name:?}");
    }
}

fn keeper_of(pool: &Mempool) -> &str {
    // SAFETY: the pool lives.
    let name = unsafe { dpdk_sys::shim_mempool_ops_name(pool.as_ptr()) };
    // SAFETY: a C string inside DPDK's table of drivers, which stays.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap()
}

#[test]
fn mbufs_of_many_segments_are_given_back_and_counted() {
    let pool = pool("split", 256);
    let (nic, mut queues) = start("net_ring_split", &ONE_QUEUE, &pool);
    // A frame whose mbuf says it has another segment, put where a port would put it.
    // SAFETY: the pool lives.
    let first = unsafe { dpdk_sys::shim_mbuf_alloc(pool.as_ptr()) };
    // SAFETY: as above.
    let second = unsafe { dpdk_sys::shim_mbuf_alloc(pool.as_ptr()) };
    // SAFETY: both mbufs are ours.
    unsafe { (*first).next = second };
    // SAFETY: as above.
    unsafe { dpdk_sys::mbuf::set_nb_segs(first, 2) };
    let id = port_id("net_ring_split");
    let mut mbufs = [first];
    // SAFETY: the port runs, its TX queue is idle, and the mbuf is ours to give.
    assert_eq!(unsafe { dpdk_sys::shim_tx_burst(id, 0, mbufs.as_mut_ptr(), 1) }, 1);
    let mut burst: Burst = [filled(&pool, 7)].into_iter().collect();
    queues.tx[0].transmit(&mut burst);
    assert_eq!(queues.rx[0].receive(&mut burst, 64), 1);
    assert_eq!(burst[0].bytes()[0], 7);
    assert_eq!(nic.stats().rx_errors, 1);
    drop(burst);
    assert_eq!(pool.in_use(), 0);
}

fn port_id(name: &str) -> u16 {
    let name = std::ffi::CString::new(name).unwrap();
    let mut id = 0;
    // SAFETY: the name is a C string and `id` can be written.
    let code = unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) };
    assert_eq!(code, 0);
    id
}

#[test]
fn the_burst_functions_in_rust_do_what_those_in_c_do() {
    let pool = pool("same", 256);
    let (_nic, _queues) = start("net_null_same,size=64", &ONE_QUEUE, &pool);
    let id = port_id("net_null_same");
    let mut mbufs = [std::ptr::null_mut(); 32];
    // SAFETY of all four: the port runs, this thread alone uses its queue, there is room for 32, and
    // what is transmitted was received.
    let turns: [fn(u16, *mut *mut rte_mbuf) -> u16; 4] = [
        // SAFETY: see above.
        |id, mbufs| unsafe { dpdk_sys::shim_rx_burst(id, 0, mbufs, 32) },
        // SAFETY: see above.
        |id, mbufs| unsafe { dpdk_sys::burst::tx_burst(id, 0, mbufs, 32) },
        // SAFETY: see above.
        |id, mbufs| unsafe { dpdk_sys::burst::rx_burst(id, 0, mbufs, 32) },
        // SAFETY: see above.
        |id, mbufs| unsafe { dpdk_sys::shim_tx_burst(id, 0, mbufs, 32) },
    ];
    for round in 0..20 {
        let receives = round % 2 == 0;
        assert_eq!(turns[round % 4](id, mbufs.as_mut_ptr()), 32);
        assert_eq!(pool.in_use(), if receives { 32 } else { 0 });
    }
}

#[test]
fn threads_of_ours_have_a_cache_of_frames() {
    let pool = pool("threads", 4095);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _adopted = adopt_data_thread().unwrap();
                for _ in 0..1000 {
                    let mut burst: Burst = (0..32).map(|number| filled(&pool, number)).collect();
                    release(&mut burst);
                }
            });
        }
    });
    assert_eq!(pool.in_use(), 0);
    let frame = std::thread::spawn(move || filled(&pool, 9)).join().unwrap();
    assert_eq!(frame.bytes()[0], 9, "a frame crosses threads, and outlives its pool");
}

/// A ring with relaxed tails loses frames here: those it cannot take back, for it still holds the places of others.
#[test]
fn no_frame_is_lost_when_more_threads_than_cpus_preempt_each_other() {
    let pool = pool("preempted", 255);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50_000).for_each(|_| drop(pool.take())));
        }
    });
    assert_eq!(pool.in_use(), 0);
    let all: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.len(), 255);
}

#[test]
fn what_cannot_work_is_told_with_its_fix() {
    let error = |result: Result<ClosedPort, PortError>| match result {
        Ok(port) => panic!("{:?} should not open", port.facts()),
        Err(error) => error.to_string(),
    };
    let missing = error(open("net_nonesuch0"));
    assert!(missing.contains("found no device \"net_nonesuch0\""), "{missing}");
    assert!(missing.contains("check the spelling of the driver"), "{missing}");
    let no_file = error(open("net_pcap_bad,rx_pcap=/nowhere.pcap"));
    assert!(no_file.contains("lab") && no_file.contains("found no device"), "{no_file}");
    let pci = error(open("0000:ff:1f.7"));
    assert!(pci.contains("dpdk-devbind.py --status"), "{pci}");

    let pool = pool("errors", 64);
    let plan = PortPlan { rx_queues: 17, tx_queues: 1, rss: Rss::Clients, interrupts: false };
    let Err(few) = open("net_ring_few").unwrap().start(&plan, &pool) else {
        panic!("a ring has 16 queues")
    };
    assert!(few.to_string().contains("net_ring has 16 RX queues and the placement needs 17"));

    let again = Eal::init("pmdns-test", &[]).unwrap_err().to_string();
    assert!(again.contains("once per process"), "{again}");
    let twice = Mempool::new("errors", 64, None).unwrap_err().to_string();
    assert!(twice.contains("another for each pool"), "{twice}");
    let vast = Mempool::new("vast", 1 << 24, None).unwrap_err().to_string();
    assert!(vast.contains("lower frames.count"), "{vast}");
}

#[test]
fn two_processes_with_one_prefix() {
    let folder = std::env::temp_dir().join(format!("pmdns-prefix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let prefix = format!("pmdns-test-{}", std::process::id());
    let argument = format!("--file-prefix={prefix}");
    let mut first = child(&[&argument], &folder);
    assert_eq!(first_word(&mut first), RUNNING);
    let mut second = child(&[&argument], &folder);
    let told = first_word(&mut second);
    second.wait().unwrap();
    assert!(told.contains("another DPDK process is running with the same file prefix"), "{told}");
    assert!(told.contains("--file-prefix=NAME"), "{told}");

    // Killed, it leaves its files; the next one starts all the same, and leaves nothing.
    first.kill().unwrap();
    first.wait().unwrap();
    let runtime = folder.join("dpdk").join(&prefix);
    assert!(runtime.join("config").exists());
    let mut third = child(&[&argument], &folder);
    assert_eq!(first_word(&mut third), RUNNING);
    close(third);
    assert!(!runtime.exists(), "nothing is left of {}", runtime.display());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a child says once it runs.
const RUNNING: &str = "frames wait in lf_stack";

/// A process of this very test that starts an EAL of its own; see `child_with_an_environment`.
fn child(arguments: &[&str], folder: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_with_an_environment", "--nocapture"])
        .env("PMDNS_TEST_EAL", arguments.join(" "))
        .env("RUNTIME_DIRECTORY", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Has the child end in good order.
fn close(mut child: Child) {
    child.stdin.take().unwrap().write_all(b"close\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// What the child has to say, after the test harness has said its own.
fn first_word(child: &mut Child) -> String {
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    let said = lines.find_map(|line| line.split_once("child: ").map(|(_, said)| said.to_owned()));
    said.unwrap_or_default()
}

#[test]
#[ignore = "a part of tests that need another process"]
fn child_with_an_environment() {
    let Ok(given) = std::env::var("PMDNS_TEST_EAL") else { return };
    let always = ["--no-huge", "--no-pci", "-m", "16"];
    let arguments: Vec<_> = always.into_iter().chain(given.split(' ')).map(str::to_owned).collect();
    let eal = match Eal::init("pmdns-test", &arguments) {
        Ok(eal) => eal,
        Err(error) => return println!("child: {error}"),
    };
    let pool = Mempool::new("frames", 64, None).unwrap();
    println!("child: frames wait in {}", keeper_of(&pool));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(pool);
    eal.close().unwrap();
}
