//! Holds docs/code-map.md to the code: each module at the top of a crate has its row, with the first sentence of its comment.

use std::collections::BTreeMap;
use std::fs;

use crate::files::{File, files, root};

const PAGE: &str = "docs/code-map.md";
/// With it the page is written anew.
const WRITE: &str = "PMDNS_WRITE_CODE_MAP";

/// The crates, in the order of their imports, and the folder of each one's modules.
const CRATES: [&str; 19] = [
    "config",
    "nics/counters",
    "nics/dpdk-sys",
    "nics",
    "stages",
    "pipeline/validator/hierarchy",
    "pipeline/validator",
    "pipeline/resolver",
    "pipeline/streams",
    "pipeline/control",
    "pipeline/engine",
    "pipeline/changes",
    "pipeline/handover",
    "pipeline/import",
    "pipeline/cli",
    "pipeline/encrypted",
    "pipeline/insight",
    "pipeline",
    "bench",
];

const HEAD: &str = "\
# Code map

The modules at the top of each crate, with what they say of themselves. [Architecture](architecture.md#code-map) says how
crates depend on each other, and where to begin. A test keeps this page in step with the code
(`config/tests/tree/code_map.rs`); `PMDNS_WRITE_CODE_MAP=1 cargo test -p pmdns-config --test tree code_map` writes it anew.
";

/// The modules of a crate, by the name that the map has for them, with their first sentence. A folder is one module.
fn modules(files: &[File], folder: &str) -> BTreeMap<String, String> {
    let source = format!("{folder}/src/");
    let mut modules = BTreeMap::new();
    for file in files.iter().filter(|file| file.is(&["rs"])) {
        let Some(inside) = file.name.strip_prefix(&source) else { continue };
        let parts: Vec<&str> = inside.split('/').collect();
        let name = match parts[..] {
            ["lib.rs" | "main.rs" | "tests.rs" | "testing.rs"] => continue,
            ["bin", program] | ["bin", program, "main.rs"] => format!("bin/{program}"),
            [file] => file.to_owned(),
            [folder, "mod.rs"] => format!("{folder}/"),
            _ => continue,
        };
        modules.insert(name, first_sentence(&file.text));
    }
    modules
}

/// The first sentence of a file's comment.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let all: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let all = all.join(" ");
    let end = all.find(". ").map_or(all.len(), |at| at + 1);
    // A link of rustdoc is none in a page, and a bar would end the cell.
    all[..end].replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

fn page(files: &[File]) -> String {
    let mut page = HEAD.to_owned();
    for folder in CRATES {
        page += &format!("\n## `{folder}/`\n\n| module | contents |\n|---|---|\n");
        for (name, sentence) in modules(files, folder) {
            page += &format!("| `{name}` | {sentence} |\n");
        }
    }
    page
}

#[test]
fn the_code_map_has_every_module() {
    let page = page(&files());
    let path = root().join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(made, there)| made != there);
    assert!(page == written, "{PAGE} is not that of the code, first at {differs:?}; set {WRITE}=1");
}

#[test]
fn no_crate_imports_one_that_comes_later() {
    for (place, folder) in CRATES.iter().enumerate() {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let (_, imports) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
        let imports = imports.split("\n[").next().unwrap_or_default();
        for later in &CRATES[place + 1..] {
            let name = later.rsplit('/').next().expect("a name");
            let names = [format!("pmdns-{name}."), format!("pmdns-{name} "), format!("{name}.")];
            let is_imported =
                imports.lines().any(|line| names.iter().any(|name| line.starts_with(name)));
            assert!(!is_imported, "{folder} imports {later}, which comes after it");
        }
    }
}

#[test]
fn every_crate_is_on_the_map() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    for member in members.split('"').skip(1).step_by(2) {
        assert!(CRATES.contains(&member), "{member} has no place in the code map");
        let row = format!("| `{member}/` |");
        let architecture = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
        assert!(architecture.contains(&row), "docs/architecture.md has no row for {member}");
    }
}
