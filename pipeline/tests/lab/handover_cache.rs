//! The cache passes from process to process.

use std::fs;

use crate::dig::dig;
use crate::harness::{isolated, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// The query log's files, which all processes write.
const LOG: &str = "/run/lab/log.json";
const DATABASE: &str = "/run/lab/log.db";
/// Names that are asked.
const NAMES: u32 = 40;

fn ask_all(from: u32, to: u32) -> u32 {
    let ask = |number: u32| {
        let reply = dig(TAP_V4, &format!("n{number}.bulk.test A"));
        assert_eq!((&*reply.status, reply.data()), ("NOERROR", vec![nsd::bulk_address(number)]));
        reply.ttl()
    };
    (from..to).map(ask).min().unwrap()
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn answers_outlive_the_process_that_has_asked_for_them() {
    isolated("handover_cache::answers_outlive_the_process_that_has_asked_for_them", || {
        let nsd = nsd::start();
        let log = format!("\n[query_log]\njson = \"{LOG}\"\nsqlite = \"{DATABASE}\"\n");
        let config = format!("{TAP_PORT}{COMMON}{log}{}", upstream(nsd::PORT));
        let mut running = Pmdns::start(&config);
        set_up_tap();
        let ttl = ask_all(0, NAMES);
        running = running.hand_over("second", &config);
        assert!(
            running.log().contains(&format!("comes with {NAMES} answers")),
            "{}",
            running.log()
        );
        // It asks for more, and the third one has both.
        ask_all(NAMES, 2 * NAMES);
        running = running.hand_over("third", &config);
        // Who wants to take over is killed: before it writes, and after.
        for (number, step) in (1_u32..).zip(["frozen", "serving"]) {
            Pmdns::launch_held(step, &config, step).kill();
            running.wait_for_times("this one goes on", number as usize);
            // New answers are kept again.
            ask_all((number + 1) * NAMES, (number + 2) * NAMES);
        }
        let kept = 4 * NAMES;
        running = running.hand_over("fourth", &config);
        assert!(running.log().contains(&format!("comes with {kept} answers")), "{}", running.log());
        drop(nsd);
        assert!(ask_all(0, kept) <= ttl, "seconds go on");
        let stats = running.stats();
        assert_eq!((stats.cache_hits(), stats.slow_path("misses")), (kept.into(), 0));
        // It cannot go on with memory of another size, so it gets copies of the answers.
        let other = config.replace("32MiB", "16MiB");
        running = running.hand_over("other", &other);
        running.wait_for_times(&format!("of the process before: {kept} answers loaded"), 1);
        assert!(ask_all(0, kept) <= ttl, "seconds go on");
        let stats = running.stats();
        assert_eq!((stats.cache_hits(), stats.slow_path("misses")), (kept.into(), 0));
        // Other settings, other answers: this one is not allowed to give them.
        let other = format!("{other}\n[client_subnet]\nipv4_prefix = 16\n");
        running = running.hand_over("stranger", &other);
        running.wait_for_times("answers do not pass", 1);
        running.stop();
        let lines = fs::read_to_string(LOG).unwrap().lines().count();
        let rows = sh(&format!("sqlite3 {DATABASE} 'SELECT count(*) FROM query'"));
        let asked = (3 * kept).to_string();
        assert_eq!((&*lines.to_string(), rows.trim()), (&*asked, &*asked), "all are logged");
    });
}
