//! What `--help` says.

use clap::CommandFactory as _;

use super::*;

/// The commands below this one that can be given, each with the words before it.
fn leaves(command: &clap::Command, path: &[String]) -> Vec<(Vec<String>, clap::Command)> {
    let of = |command: &clap::Command| {
        let path: Vec<String> =
            path.iter().cloned().chain([command.get_name().to_owned()]).collect();
        if command.has_subcommands() {
            leaves(command, &path)
        } else {
            vec![(path, command.clone())]
        }
    };
    command.get_subcommands().flat_map(of).collect()
}

#[test]
fn d28a_each_command_has_an_example_that_is_this_command() {
    let leaves = leaves(&Arguments::command(), &[]);
    assert!(leaves.len() > 40, "{} commands", leaves.len());
    for (path, command) in leaves {
        let path = path.join(" ");
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let example = help.strip_prefix("Example: ");
        let example = example.unwrap_or_else(|| panic!("`{path}` has no example: {help:?}"));
        assert!(example.starts_with(&format!("pmdns {path}")), "`{path}`: {example}");
        let read = Arguments::try_parse_from(example.split(' '));
        assert!(read.is_ok(), "`{path}`: {:?}", read.err());
    }
}

#[test]
fn each_command_is_in_the_list_for_operators() {
    let page = include_str!("../../../../docs/operations.md");
    let list = page.split("```").nth(1).expect("the list of commands");
    let words: Vec<&str> = list.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
    for command in Arguments::command().get_subcommands() {
        let name = command.get_name();
        assert!(words.contains(&name), "the commands of docs/operations.md lack `pmdns {name}`");
    }
}

/// A reader of `--help` sees a text alone, so a pronoun stands behind its noun.
#[test]
fn d28a_no_help_begins_with_a_pronoun() {
    const PRONOUNS: [&str; 7] = ["it", "its", "they", "their", "them", "those", "ones"];
    let mut texts = Vec::new();
    for (path, command) in leaves(&Arguments::command(), &[]) {
        texts.push((path.join(" "), command.get_about().map(ToString::to_string)));
        texts.extend(
            command
                .get_arguments()
                .map(|argument| (path.join(" "), argument.get_help().map(ToString::to_string))),
        );
    }
    let mut wrong = Vec::new();
    for (path, text) in texts {
        let text = text.unwrap_or_else(|| panic!("`{path}` has a part without help"));
        let start: Vec<String> =
            text.split(' ').take(3).map(|word| word.trim_matches(',').to_lowercase()).collect();
        let pronoun = start.iter().any(|word| PRONOUNS.contains(&&**word));
        if pronoun || text.starts_with("One of ") {
            wrong.push(format!("{path}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "say what is meant: {wrong:#?}");
}

/// Without a zone the limits are printed, so nothing is there to end with the process. With one no table is printed.
#[test]
fn limit_refuses_what_it_would_ignore() {
    let read = |rest: &str| {
        let words = "pmdns limit".split(' ').chain(rest.split(' '));
        Arguments::try_parse_from(words).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = read("--until-restart").unwrap_err();
    assert!(refused.contains("<ZONE>") && refused.contains("--rate"), "{refused}");
    let refused = read("example.com --rate 5 --json").unwrap_err();
    assert!(refused.contains("--json"), "{refused}");
    for right in ["--json", "example.com --rate 5 --until-restart"] {
        assert_eq!(read(right), Ok(()), "{right}");
    }
}
