//! named.conf: nested statements that end with semicolons.

mod access;
mod dns64;
mod kinds;
mod logging;
mod map;
mod names;
mod options;
mod rebinding;
mod scope;
mod servers;
mod statement;
mod zone;

#[cfg(test)]
pub(super) use self::kinds::KINDS;
use self::statement::Statement;
use super::draft::Draft;
use super::meaning::Forwarder;
use super::source::{Origin, Sources, Text, shown};
use crate::limits::MAX_NESTING;

/// Words behind which a statement has another block.
const SECOND_BLOCKS: [&str; 3] = ["except-from", "allow", "keys"];

pub(super) fn import(text: &Text, sources: &mut Sources<'_>) -> Draft {
    let mut forwarder = Forwarder::default();
    let statements = parse(text, sources, &mut forwarder);
    sources.close();
    map::map(&statements, &mut forwarder);
    forwarder.share_port();
    forwarder.draft
}

/// The statements of a file and of those that it includes.
fn parse(text: &Text, sources: &mut Sources<'_>, forwarder: &mut Forwarder) -> Vec<Statement> {
    // The blocks that are open, each with the statement that it belongs to.
    let mut open: Vec<(Statement, Vec<Statement>)> = Vec::new();
    let mut current = Statement::default();
    let mut statements = Vec::new();
    let mut too_deep = 0_usize;
    for (line, token) in Tokens::of(&text.text) {
        let place = text.at(line);
        if current.words.is_empty() {
            current.place = place;
        }
        match token {
            Token::Open if open.len() >= MAX_NESTING => {
                if too_deep == 0 {
                    forwarder.draft.decisive(&Origin::new(place, ""), "blocks are nested too deep");
                }
                too_deep += 1;
            }
            Token::Close if too_deep > 0 => too_deep -= 1,
            _ if too_deep > 0 => {}
            Token::Word(word) => current.words.push(word),
            Token::Open => {
                let has_more = |word: &String| SECOND_BLOCKS.contains(&word.as_str());
                if current.block.is_some() && !current.words.last().is_some_and(has_more) {
                    let why = "there is no semicolon behind a block in it";
                    forwarder.draft.decisive(&current.origin(), why);
                }
                open.push((std::mem::take(&mut current), std::mem::take(&mut statements)));
            }
            Token::Close => match open.pop() {
                Some((outer, before)) => {
                    if !current.words.is_empty() {
                        let why = "there is no semicolon behind it";
                        forwarder.draft.decisive(&current.origin(), why);
                    }
                    current = outer;
                    // A second block of one statement goes on with the first.
                    let second = current.block.as_ref().map(Vec::len);
                    current.second = current.second.or(second);
                    let mut block = current.block.take().unwrap_or_default();
                    block.append(&mut statements);
                    current.block = Some(block);
                    statements = before;
                }
                None => {
                    forwarder.draft.decisive(&Origin::new(place, "}"), "it closes no block");
                }
            },
            Token::End => {
                let one = std::mem::take(&mut current);
                if one.word(0) == "include" && one.block.is_none() {
                    include(&one, sources, forwarder, &mut statements);
                } else if !one.words.is_empty() || one.block.is_some() {
                    statements.push(one);
                }
            }
        }
    }
    if !current.words.is_empty() {
        forwarder.draft.decisive(&current.origin(), "there is no semicolon behind it");
    }
    while let Some((outer, mut before)) = open.pop() {
        forwarder.draft.decisive(&outer.origin(), "its block is not closed");
        before.push(Statement { block: Some(std::mem::take(&mut statements)), ..outer });
        statements = before;
    }
    statements
}

fn include(
    one: &Statement,
    sources: &mut Sources<'_>,
    forwarder: &mut Forwarder,
    statements: &mut Vec<Statement>,
) {
    let found = match sources.find(one.word(1)) {
        Ok(found) => found,
        Err(why) => return forwarder.draft.decisive(&one.origin(), shown(&why)),
    };
    for path in found {
        match sources.open(&path) {
            Ok(text) => {
                let included = parse(&text, sources, forwarder);
                statements.extend(included);
                sources.close();
            }
            Err(why) => forwarder.draft.decisive(&one.origin(), shown(&why)),
        }
    }
}

/// A piece of named.conf.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// The tokens of a text, with their lines.
struct Tokens<'t> {
    rest: &'t str,
    line: u32,
}

impl<'t> Tokens<'t> {
    fn of(text: &'t str) -> Self {
        Self { rest: text, line: 1 }
    }

    /// Goes on behind the next `len` bytes.
    fn skip(&mut self, len: usize) -> &'t str {
        let (skipped, rest) = self.rest.split_at(len);
        let lines = skipped.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
        skipped
    }
}

impl Iterator for Tokens<'_> {
    type Item = (u32, Token);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.skip(blanks);
            let rest = self.rest;
            let first = rest.chars().next()?;
            // Looked for in comments alone: a file may be one line.
            let line_len = || rest.find('\n').unwrap_or(rest.len());
            if first == '#' || rest.starts_with("//") {
                self.skip(line_len());
                continue;
            }
            if rest.starts_with("/*") {
                let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
                self.skip(end);
                continue;
            }
            let line = self.line;
            let token = match first {
                '{' => Token::Open,
                '}' => Token::Close,
                ';' => Token::End,
                '"' => {
                    let end = rest[1..].find('"').map(|at| at + 1);
                    let inside = &rest[1..end.unwrap_or(rest.len())];
                    let word = inside.to_owned();
                    self.skip(end.map_or(rest.len(), |at| at + 1));
                    return Some((line, Token::Word(word)));
                }
                '!' => {
                    self.skip(1);
                    return Some((line, Token::Word("!".to_owned())));
                }
                _ => {
                    let ends = |c: char| c.is_whitespace() || "{};\"#".contains(c);
                    let mut end = rest.find(ends).unwrap_or(rest.len());
                    for comment in ["//", "/*"] {
                        end = rest[..end].find(comment).unwrap_or(end);
                    }
                    // A word has at least one character: it begins no comment.
                    let word = self.skip(end.max(first.len_utf8())).to_owned();
                    return Some((line, Token::Word(word)));
                }
            };
            self.skip(1);
            return Some((line, token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_three_kinds_are_left_out() {
        let text = "a /* b\n */ \"c d\" { !e; } // f\n; # g\n192.0.2.0/24;";
        let words: Vec<_> =
            Tokens::of(text).map(|(line, token)| format!("{line} {token:?}")).collect();
        let expected = [
            "1 Word(\"a\")",
            "2 Word(\"c d\")",
            "2 Open",
            "2 Word(\"!\")",
            "2 Word(\"e\")",
            "2 End",
            "2 Close",
            "3 End",
            "4 Word(\"192.0.2.0/24\")",
            "4 End",
        ];
        assert_eq!(words, expected);
    }
}
