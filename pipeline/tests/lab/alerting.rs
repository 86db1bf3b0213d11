//! A real Prometheus scrapes pmdns, loads the alert rules, and evaluates the dashboard: alerts fire and clear.

use std::fs;
use std::process::{Command, Stdio};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, run, upstream};
use crate::process::Process;

const RULES: &str = include_str!("../../../docs/alerting/pmdns.rules.yml");
const DASHBOARD: &str = include_str!("../../../docs/alerting/pmdns.dashboard.json");
const METRICS: &str = "http://127.0.0.1:9153/metrics";
const SERVER: &str = "127.0.0.1:9090";

const MORE: &str = r#"
[metrics]
listen = "127.0.0.1:9153"

[[blocklist]]
file = "/run/lab/ads.txt"

[streams]
tls = ["127.0.0.1:8853"]
certificate = "/run/lab/certificate.pem"
key = "/run/lab/key.pem"

[query_log]
json = "/run/lab/q.json"
"#;

const PROMETHEUS: &str = r#"
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [/run/lab/rules.yml]
scrape_configs:
  - job_name: pmdns
    static_configs: [{ targets: ["127.0.0.1:9153"] }]
"#;

/// Writes a certificate that expires in this year.
fn write_certificate(year: i32) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["dns.example".to_owned()]).unwrap();
    params.not_after = date_time_ymd(year, 1, 1);
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    fs::write(path("certificate.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
}

fn start_prometheus() -> Process {
    // The same rules over seconds instead of minutes.
    let rules: String = RULES.lines().map(|line| format!("{}\n", without_patience(line))).collect();
    fs::write(path("rules.yml"), rules).unwrap();
    fs::write(path("prometheus.yml"), PROMETHEUS).unwrap();
    let mut command = Command::new("prometheus");
    command
        .args(["--config.file=/run/lab/prometheus.yml", "--storage.tsdb.path=/run/lab/prometheus"]);
    command.arg(format!("--web.listen-address={SERVER}"));
    let mut prometheus = Process::start("prometheus", &mut command);
    prometheus.wait_for("Server is ready");
    prometheus
}

fn without_patience(line: &str) -> String {
    if line.trim_start().starts_with("for:") {
        return String::new();
    }
    ["[1m]", "[5m]", "[30m]"].iter().fold(line.to_owned(), |line, span| line.replace(span, "[5s]"))
}

/// What Prometheus answers to a call of its API.
fn api(call: &str, query: &str) -> Value {
    let text = sh(&format!(
        "curl -s --get 'http://{SERVER}/api/v1/{call}' --data-urlencode 'query={query}'"
    ));
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{call}: {text}"));
    assert_eq!(answer["status"], "success", "{query}: {text}");
    answer["data"].clone()
}

/// The alerts that fire, by name.
fn firing() -> Vec<String> {
    let data = api("alerts", "");
    let alerts =
        data["alerts"].as_array().unwrap().iter().filter(|alert| alert["state"] == "firing");
    alerts.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
}

fn fires(alert: &str) -> bool {
    firing().iter().any(|one| one == alert)
}

/// What promtool says of the metrics in the format of this `Accept` header; empty: nothing.
fn promtool(accept: &str) -> String {
    let metrics = sh(&format!("curl -s -H 'Accept: {accept}' {METRICS}"));
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Every expression of the dashboard, for this instance over seconds.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Object(fields) => {
            if let Some(expression) = fields.get("expr").and_then(Value::as_str) {
                let filled = expression.replace("$job", "pmdns").replace("$instance", ".*");
                found.push(filled.replace("$__rate_interval", "10s"));
            }
            fields.values().for_each(|field| expressions(field, found));
        }
        _ => {}
    }
}

/// Whether an expression may have no value in a node that is well.
fn may_be_empty(expression: &str) -> bool {
    expression.ends_with("> 0")
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn alerts_fire_and_clear_and_every_panel_has_data() {
    isolated("alerting::alerts_fire_and_clear_and_every_panel_has_data", || {
        fs::write(path("ads.txt"), "ads.test\n").unwrap();
        write_certificate(2001);
        let nsd = nsd::start();
        let pmdns = Pmdns::start_on_tap(&format!("{MORE}{}", upstream(nsd::PORT)));
        assert_eq!(promtool("text/plain"), "", "promtool check metrics");
        let _prometheus = start_prometheus();
        let mut number = 0;
        let mut ask = || {
            number += 1;
            sh(&format!("dig @{TAP_V4} +tries=1 +time=1 n{number}.bulk.test A || true"));
        };
        wait_until("the expired certificate is told", || fires("PmdnsCertificateExpires"));
        write_certificate(4000);
        assert!(run(&["reload", "--socket", "/run/lab/pmdns.sock"]).status.success());
        wait_until("a new certificate clears the alert", || !fires("PmdnsCertificateExpires"));
        (0..5).for_each(|_| ask());
        dig(TAP_V4, "n1.bulk.test A");
        dig(TAP_V4, "ads.test A");
        let mut all = Vec::new();
        expressions(&serde_json::from_str(DASHBOARD).unwrap(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        wait_until("every panel has data", || {
            ask();
            let has_data = |one: &String| {
                let data = api("query", one);
                data["result"].as_array().is_some_and(|rows| !rows.is_empty()) || may_be_empty(one)
            };
            all.retain(|one| !has_data(one));
            all.is_empty()
        });
        assert_eq!(firing(), [""; 0], "a node that is well has no alerts");
        drop(nsd);
        wait_until("the upstream is missed", || {
            ask();
            fires("PmdnsUpstreamDown") && fires("PmdnsNoUpstream")
        });
        let _nsd = nsd::start();
        wait_until("the upstream is back", || {
            ask();
            !fires("PmdnsUpstreamDown") && !fires("PmdnsNoUpstream")
        });
        pmdns.stop();
    });
}
