//! Links in pages, and where they can lead to.

use std::collections::BTreeSet;

/// The targets of the links in a text, with their lines; what stands in code is none.
pub(crate) fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            links.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    links
}

/// The lines of a text that are not in a block of code, without what is code in them.
fn prose(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut is_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line.split('`').step_by(2).collect::<Vec<_>>().join("`")));
        }
    }
    lines
}

/// The names under which the headings of a text can be linked to, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut is_code) = (BTreeSet::new(), false);
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = [name.clone()].into_iter().chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `b` c, d\n[one](x.md#y) `[no](z)` ![two](p.svg)\n```\n[no](code)\n# no\n```\n## A `b` c, d\n";
    let links: Vec<String> = links_of(text).into_iter().map(|(_, target)| target).collect();
    assert_eq!(links, ["x.md#y", "p.svg"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["a-b-c-d", "a-b-c-d-1"]);
}
