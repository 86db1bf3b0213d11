//! The HTTP API under requests that schemathesis makes of its description, right ones and wrong ones.

use std::fs;
use std::process::Command;

use crate::api::WRITER;
use crate::api_calls::{config_of_all, start_with};
use crate::api_speed::Askers;
use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_until};
use crate::pmdns::TAP_V4;

const SCHEMATHESIS: &str = "/opt/pmdns-lab-api/bin/schemathesis";

/// What is asked of answers. Unlawful names and types are refused, so lawful text may be refused too.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
    negative_data_rejection,unsupported_method";

/// A node that is drained says 503 to health. Traces and captures without a packet end after a second.
const SETTINGS: &str = "[[operations]]\ninclude-path = \"/api/v1/health\"\n\
    checks.not_a_server_error.enabled = false\n\
    [[operations]]\ninclude-path-regex = \"/api/v1/(trace|capture)\"\nparameters = { seconds = 1 }\n";

#[test]
#[ignore = "needs root, DPDK, network namespaces and schemathesis: scripts/test.sh api runs it"]
fn requests_made_of_the_description_get_what_it_says() {
    isolated("api_schema::requests_made_of_the_description_get_what_it_says", || {
        let (_stub, pmdns) = start_with(&config_of_all());
        wait_until("it answers", || dig(TAP_V4, "good_x.test A").status == "NOERROR");
        // A node that stands by tells nobody where it is, and answers all that reaches it.
        sh(&format!("ip neigh replace {TAP_V4} lladdr 02:00:00:00:00:aa dev pm0 nud permanent"));
        fs::write(path("schemathesis.toml"), SETTINGS).unwrap();
        let askers = Askers::start();
        let examples = std::env::var("PMDNS_API_EXAMPLES").unwrap_or_else(|_| "30".to_owned());
        let output = Command::new(SCHEMATHESIS)
            .arg("--config-file")
            .arg(path("schemathesis.toml"))
            .args(["run", "http://127.0.0.1:8053/api/openapi.json", "--seed", "1"])
            .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples])
            .args(["--checks", CHECKS, "--header", &format!("Authorization: Bearer {WRITER}")])
            .current_dir("/run/lab")
            .output()
            .expect("scripts/install.sh --api installs schemathesis");
        println!("{}", String::from_utf8_lossy(&output.stdout));
        askers.stop();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The requests may have changed the upstreams, so any answer will do.
        let status = dig(TAP_V4, "good_y.test A").status;
        assert!(matches!(&*status, "NOERROR" | "SERVFAIL"), "it still answers: {status}");
        pmdns.stop().assert_balanced();
    });
}
