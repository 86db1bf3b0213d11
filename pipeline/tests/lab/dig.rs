//! dig, and what it saw.

use std::process::Command;

/// What dig printed of one reply.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `NOERROR`, `NXDOMAIN`, ...
    pub(crate) status: String,
    /// `qr rd ra`, ...
    pub(crate) flags: String,
    /// The records of the answer section, fields separated by single spaces.
    pub(crate) answers: Vec<String>,
    /// The records of the authority section.
    pub(crate) authorities: Vec<String>,
    /// The name in the question section, in the reply's case.
    pub(crate) question: String,
    /// The UDP size that the reply's OPT record announces.
    pub(crate) edns_udp_size: Option<u16>,
    /// Bytes of the reply.
    pub(crate) size: usize,
}

/// Runs dig once, over UDP, without retries; fails if there is no reply.
pub(crate) fn dig(server: &str, arguments: &str) -> Reply {
    let text = run(server, arguments);
    assert!(text.contains("Got answer"), "dig {arguments} @{server}: {text}");
    Reply::parse(&text)
}

/// Whether dig gets no reply.
pub(crate) fn dig_is_unanswered(server: &str, arguments: &str) -> bool {
    run(server, &format!("{arguments} +time=1")).contains("timed out")
}

/// Whether nobody answers, and dig does not wait for it: the connection was reset.
pub(crate) fn dig_is_reset(server: &str, arguments: &str) -> bool {
    let told = run(server, arguments);
    !told.contains("status:") && !told.contains("timed out")
}

fn run(server: &str, arguments: &str) -> String {
    let output = Command::new("dig")
        .args([&format!("@{server}"), "+tries=1", "+time=10", "+ignore", "+nocookie"])
        .args(arguments.split_whitespace())
        .output()
        .expect("dig (package bind9-dnsutils) starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Reply {
    fn parse(text: &str) -> Self {
        let after = |mark: &str, end: char| -> Option<&str> {
            text.split_once(mark)?.1.split(end).next().map(str::trim)
        };
        let section = |name: &str| -> Vec<String> {
            let head = format!(";; {name} SECTION:\n");
            let body = text.split_once(&head).map_or("", |(_, body)| body);
            let lines = body.lines().take_while(|line| !line.is_empty());
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let question = section("QUESTION").first().cloned().unwrap_or_default();
        Self {
            status: after("status: ", ',').unwrap_or_default().to_owned(),
            flags: after(";; flags: ", ';').unwrap_or_default().to_owned(),
            answers: section("ANSWER"),
            authorities: section("AUTHORITY"),
            question: question.trim_start_matches(';').split(' ').next().unwrap_or("").to_owned(),
            edns_udp_size: after("; udp: ", '\n').and_then(|size| size.parse().ok()),
            size: after("MSG SIZE  rcvd: ", '\n').and_then(|size| size.parse().ok()).unwrap_or(0),
        }
    }

    /// Whether a flag is set, for example `tc`.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|set| set == flag)
    }

    /// The TTL of the first answer.
    pub(crate) fn ttl(&self) -> u32 {
        let first = self.answers.first().unwrap_or_else(|| panic!("no answer in {self:?}"));
        first.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The data of the answers, in order: the address of an A, the target of a CNAME.
    pub(crate) fn data(&self) -> Vec<String> {
        self.answers.iter().map(|line| line.splitn(5, ' ').nth(4).unwrap().to_owned()).collect()
    }
}
