//! What a running instance says to who asks names no command: the page and scripts read the same texts, and have none.

use crate::files::files;

/// The sources of the texts of replies.
const REPLIES: [&str; 14] = [
    "pipeline/changes/src/",
    "pipeline/control/src/",
    "pipeline/src/capture/",
    "pipeline/src/clients/",
    "pipeline/src/control/cache_",
    "pipeline/src/control/calls.rs",
    "pipeline/src/control/reload",
    "pipeline/insight/src/",
    "pipeline/src/hitters.rs",
    "pipeline/src/lists/",
    "pipeline/src/lookup/",
    "pipeline/src/query_log/",
    "pipeline/src/runtime/",
    "pipeline/src/zone_limits.rs",
];

/// Texts of the command line and of the log, beside those of replies.
const OTHERS: [&str; 2] = [
    // A line of the log about a flood.
    "`pmdns limit ZONE --rate 50` limits it",
    // The command line prints it for people.
    "`pmdns entries`, `pmdns local list`",
];

#[test]
fn d27_no_reply_names_a_command() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    let is_of_replies = |name: &str| {
        REPLIES.iter().any(|place| name.starts_with(place)) && !name.ends_with("/tests.rs")
    };
    for file in files().iter().filter(|file| file.is(&["rs"]) && is_of_replies(&file.name)) {
        read += 1;
        for (number, line) in file.lines() {
            let is_other = OTHERS.iter().any(|text| line.contains(text));
            if line.contains("`pmdns ") && !line.trim_start().starts_with("//") && !is_other {
                wrong.push(format!("{}:{number}: {}", file.name, line.trim()));
            }
        }
    }
    assert!(read > 40, "only {read} files were read");
    assert!(wrong.is_empty(), "say it without a command:\n{}", wrong.join("\n"));
}
