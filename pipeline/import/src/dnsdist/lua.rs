//! The part of Lua that configurations are mostly written in: calls with constants and tables.

use crate::limits::MAX_NESTING;
use crate::source::shown;

/// Why a statement was not looked into.
pub(super) const PROGRAM: &str = "this is more than a call with constants; nothing is executed";

/// A value, as far as it can be seen without running the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(String),
    /// A variable, `true`, or a constant, as in `DNSRCode.REFUSED`.
    Name(String),
    Table(Vec<(Option<String>, Value)>),
    /// A function or method with its arguments; of a method the object is the first.
    Call(String, Vec<Value>),
}

impl Value {
    /// How many values it consists of, and how deep they are.
    pub(super) fn measure(&self) -> (usize, usize) {
        let of = |(values, depth): (usize, usize), one: &Self| {
            let (more, deep) = one.measure();
            (values + more, depth.max(deep + 1))
        };
        match self {
            Self::Table(fields) => fields.iter().map(|(_, value)| value).fold((1, 1), of),
            Self::Call(_, arguments) => arguments.iter().fold((1, 1), of),
            _ => (1, 1),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text),
            _ => None,
        }
    }

    /// A short name of it, for people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Name(text) => text.clone(),
            Self::Table(_) => "{...}".to_owned(),
            Self::Call(name, _) => format!("{name}(...)"),
        }
    }

    /// The value behind a key of the table.
    pub(super) fn key(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Table(fields) => fields
                .iter()
                .rfind(|(name, _)| name.as_deref() == Some(key))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The texts in it: itself, or the elements of the list.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) => Some(vec![text]),
            Self::Table(fields) => fields.iter().map(|(_, value)| value.text()).collect(),
            Self::Call(name, arguments) if name == "newDNSName" => arguments.first()?.texts(),
            _ => None,
        }
    }
}

/// A statement; `value` is none if it is more than constants and calls.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: u32,
    pub(super) text: String,
    /// The variable that it sets.
    pub(super) variable: Option<String>,
    pub(super) value: Option<Value>,
    /// The words in it, if it is more.
    pub(super) words: Vec<String>,
}

/// A piece of Lua.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number(String),
    Symbol(char),
}

/// Words that open what `end` closes.
const OPENING: [&str; 4] = ["function", "if", "do", "repeat"];

/// The statements of a program.
pub(super) fn statements(text: &str) -> Vec<Statement> {
    let tokens = tokens(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((line, first)) = tokens.get(at) {
        if *first == Token::Symbol(';') {
            at += 1;
            continue;
        }
        let mut parser = Parser { tokens: &tokens, at, depth: 0 };
        let (variable, value) = match parser.statement() {
            Some((variable, value)) => (variable, Some(value)),
            None => {
                parser.at = skip(&tokens, at);
                (None, None)
            }
        };
        let line_text = usize::try_from(*line).ok().and_then(|line| lines.get(line - 1));
        // A line may have many statements, so its text is not kept for each.
        let text = shown(line_text.unwrap_or(&""));
        // A statement has at least one token.
        let end = parser.at.max(at + 1);
        let unknown = tokens.get(at..end).filter(|_| value.is_none()).unwrap_or_default();
        let word = |(_, token): &(u32, Token)| match token {
            Token::Word(word) => Some(word.clone()),
            _ => None,
        };
        let words = unknown.iter().filter_map(word).collect();
        found.push(Statement { line: *line, text, variable, value, words });
        at = end;
    }
    found
}

/// Where the statement ends that nothing is known of: at its `end`, or where a line ends outside brackets.
fn skip(tokens: &[(u32, Token)], from: usize) -> usize {
    let (mut blocks, mut brackets) = (0_usize, 0_usize);
    let mut at = from;
    while let Some((line, token)) = tokens.get(at) {
        match token {
            Token::Word(word) if OPENING.contains(&&**word) => blocks += 1,
            Token::Word(word) if word == "end" || word == "until" => {
                blocks = blocks.saturating_sub(1);
            }
            Token::Symbol('(' | '{' | '[') => brackets += 1,
            Token::Symbol(')' | '}' | ']') => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        at += 1;
        let ends_line = tokens.get(at).is_none_or(|(next, _)| next != line);
        // `while` and `for` open no block before their `do`, which may be on another line.
        if ends_line && blocks == 0 && brackets == 0 {
            break;
        }
    }
    at
}

struct Parser<'t> {
    tokens: &'t [(u32, Token)],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn take(&mut self, symbol: char) -> bool {
        let is_there = self.peek() == Some(&Token::Symbol(symbol));
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    /// A call, or a variable with its value.
    fn statement(&mut self) -> Option<(Option<String>, Value)> {
        if self.peek() == Some(&Token::Word("local".to_owned())) {
            self.at += 1;
        }
        let start = self.at;
        let variable = self.word().filter(|_| self.take('='));
        if variable.is_none() {
            self.at = start;
        }
        let value = self.value()?;
        let line = self.tokens.get(self.at.checked_sub(1)?).map(|(line, _)| *line);
        // What goes on in the same line is more than is understood here.
        let goes_on = self.tokens.get(self.at).is_some_and(|(next, token)| {
            let is_next = matches!(token, Token::Symbol(';'));
            let is_operator = matches!(token, Token::Symbol(other) if *other != ';');
            is_operator || (Some(*next) == line && !is_next)
        });
        let is_call = variable.is_some() || matches!(value, Value::Call(..));
        (is_call && !goes_on).then_some((variable, value))
    }

    fn value(&mut self) -> Option<Value> {
        if self.depth >= MAX_NESTING {
            return None;
        }
        self.depth += 1;
        let value = self.primary().and_then(|first| self.calls(first));
        self.depth -= 1;
        value
    }

    fn primary(&mut self) -> Option<Value> {
        let value = match self.peek()? {
            Token::Text(text) => Value::Text(text.clone()),
            Token::Number(number) => Value::Number(number.clone()),
            Token::Symbol('{') => return self.table(),
            Token::Word(word) if !is_reserved(word) => Value::Name(word.clone()),
            _ => return None,
        };
        self.at += 1;
        Some(value)
    }

    /// What is called behind a name: `a.b(...)`, `a{...}`, `a:b(...)`.
    fn calls(&mut self, mut value: Value) -> Option<Value> {
        for _ in 0..MAX_NESTING {
            match (self.peek(), &value) {
                (Some(Token::Symbol('.')), Value::Name(name)) => {
                    let name = name.clone();
                    self.at += 1;
                    value = Value::Name(format!("{name}.{}", self.word()?));
                }
                (Some(Token::Symbol(':')), Value::Name(_) | Value::Call(..)) => {
                    self.at += 1;
                    let method = self.word()?;
                    let arguments = self.arguments()?;
                    value = Value::Call(method, [vec![value], arguments].concat());
                }
                (Some(Token::Symbol('(' | '{') | Token::Text(_)), Value::Name(name)) => {
                    let name = name.clone();
                    value = Value::Call(name, self.arguments()?);
                }
                _ => return Some(value),
            }
        }
        None
    }

    fn arguments(&mut self) -> Option<Vec<Value>> {
        if !self.take('(') {
            return Some(vec![self.primary()?]);
        }
        let mut arguments = Vec::new();
        while !self.take(')') {
            arguments.push(self.value()?);
            if !self.take(',') && self.peek() != Some(&Token::Symbol(')')) {
                return None;
            }
        }
        Some(arguments)
    }

    fn table(&mut self) -> Option<Value> {
        if self.depth >= MAX_NESTING || !self.take('{') {
            return None;
        }
        let mut fields = Vec::new();
        while !self.take('}') {
            let start = self.at;
            let bracketed = self.take('[');
            let key = match self.peek()? {
                Token::Text(text) if bracketed => Some(text.clone()),
                Token::Word(word) if !bracketed => Some(word.clone()),
                _ => None,
            };
            self.at += 1;
            let is_key = key.is_some() && (!bracketed || self.take(']')) && self.take('=');
            if !is_key {
                self.at = start;
            }
            fields.push((key.filter(|_| is_key), self.value()?));
            if !self.take(',') && !self.take(';') && self.peek() != Some(&Token::Symbol('}')) {
                return None;
            }
        }
        Some(Value::Table(fields))
    }
}

/// Words that are no names.
fn is_reserved(word: &str) -> bool {
    let others = [
        "end", "for", "while", "then", "else", "elseif", "return", "local", "not", "until", "in",
        "and", "or",
    ];
    OPENING.contains(&word) || others.contains(&word)
}

/// The tokens of a program, with their lines.
fn tokens(text: &str) -> Vec<(u32, Token)> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1_u32);
    while let Some(first) = rest.chars().next() {
        let begins = line;
        let (token, len) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            '-' if rest.starts_with("--") => {
                let long = long_bracket(&rest[2..]).map(|(_, len)| len + 2);
                (None, long.unwrap_or_else(|| rest.find('\n').unwrap_or(rest.len())))
            }
            '"' | '\'' => {
                let (inside, len) = short_text(rest, first);
                (Some(Token::Text(inside)), len)
            }
            '[' => match long_bracket(rest) {
                Some((inside, len)) => (Some(Token::Text(inside.to_owned())), len),
                None => (Some(Token::Symbol('[')), 1),
            },
            _ if first.is_ascii_digit() => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
                let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                (Some(Token::Number(rest[..len].to_owned())), len)
            }
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                (Some(Token::Word(rest[..len].to_owned())), len)
            }
            _ => (Some(Token::Symbol(first)), first.len_utf8()),
        };
        let lines = rest[..len].bytes().filter(|byte| *byte == b'\n').count();
        line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        rest = &rest[len..];
        tokens.extend(token.map(|token| (begins, token)));
    }
    tokens
}

/// A text in quotes, and its length with them.
fn short_text(rest: &str, quote: char) -> (String, usize) {
    let mut inside = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return (inside, at + 1),
            '\n' => return (inside, at),
            '\\' => match characters.next() {
                Some((_, 'n')) => inside.push('\n'),
                Some((_, other)) => inside.push(other),
                None => break,
            },
            _ => inside.push(character),
        }
    }
    (inside, rest.len())
}

/// `[[text]]` or `[==[text]==]`, and its length.
fn long_bracket(rest: &str) -> Option<(&str, usize)> {
    let inside = rest.strip_prefix('[')?;
    let level = inside.len() - inside.trim_start_matches('=').len();
    let inside = inside[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let begin = rest.len() - inside.len();
    Some(match inside.find(&close) {
        Some(end) => (&inside[..end], begin + end + close.len()),
        None => (inside, rest.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Option<String>> {
        let values = statements(text).into_iter();
        values.map(|one| one.value.map(|value| format!("{value:?}"))).collect()
    }

    #[test]
    fn calls_and_tables_are_read_and_all_else_is_a_statement_unknown() {
        let text = "-- c\nnewServer{address='192.0.2.1', [\"pool\"]='x'}\nlocal a = 5\nif a then\n f()\nend\n\
                    x = a + 1 -- sum\ngetPool(''):setCache(pc)\nfor i = 1, 2 do g(i) end\nh([[t]])\n";
        let all = values(text);
        let known: Vec<bool> = all.iter().map(Option::is_some).collect();
        assert_eq!(known, [true, true, false, false, true, false, true], "{all:?}");
        assert!(
            all[4].as_ref().unwrap().starts_with("Call(\"setCache\", [Call(\"getPool\""),
            "{all:?}"
        );
    }

    #[test]
    fn deep_and_open_tables_end() {
        for text in [
            "f({".repeat(1000),
            "f(".to_owned(),
            "\"".to_owned(),
            "--[[".to_owned(),
            "a.".repeat(99),
        ] {
            assert!(values(&text).iter().all(Option::is_none), "{text}");
        }
    }
}
