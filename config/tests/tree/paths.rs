//! The names in a file of Rust: its `use` declarations, and the paths in its expressions and types.

/// A path, a name each.
pub(crate) type Names = Vec<String>;

/// The first line of tests at the foot of a file. They may import what they like.
const TESTS: &str = "mod tests {";
/// Before the name of what a file defines.
const DEFINES: [&str; 8] =
    ["struct", "enum", "fn", "const", "static", "type", "trait", "macro_rules!"];

/// One name that a `use` declaration brings.
pub(crate) struct Use {
    /// Whether it is for other files as well.
    pub(crate) is_public: bool,
    /// Its name here; `*` for all there is.
    pub(crate) name: String,
    pub(crate) path: Names,
}

/// The code of a file, without comments, texts and the tests at its foot.
pub(crate) struct Code {
    pub(crate) uses: Vec<Use>,
    /// The paths outside of `use` declarations.
    pub(crate) paths: Vec<Names>,
    text: String,
}

impl Code {
    pub(crate) fn read(text: &str) -> Self {
        let text = bare(text.split(TESTS).next().unwrap_or_default());
        let (mut uses, mut outside, mut rest) = (Vec::new(), String::new(), &*text);
        while let Some((before, after)) = rest.split_once(" use ") {
            let (tree, after) = after.split_once(';').unwrap_or((after, ""));
            let is_public = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
            branch(&[], tree.trim(), is_public, &mut uses);
            outside.extend([before, ";"]);
            rest = after;
        }
        outside.push_str(rest);
        Self { uses, paths: paths(&outside), text: outside }
    }

    /// Whether an item of this name is defined here.
    pub(crate) fn defines(&self, name: &str) -> bool {
        DEFINES.iter().any(|kind| {
            let start = format!("{kind} {name}");
            self.text.split(&start).skip(1).any(|rest| !rest.starts_with(is_of_name))
        })
    }

    /// Whether a module is declared here.
    pub(crate) fn declares(&self, module: &str) -> bool {
        self.text.contains(&format!("mod {module};"))
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The text in one line, without comments, visibilities and what stands between quotes.
fn bare(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_start().starts_with("//") {
        true => "",
        false => line,
    });
    let text = lines.fold(String::from(" "), |all, line| all + line + "\n");
    let (mut bare, mut rest) = (String::new(), &*text);
    while let Some(at) = rest.find(['"', '/', '(']) {
        let (before, after) = rest.split_at(at);
        bare.push_str(before);
        let skipped = match after {
            _ if after.starts_with("//") => after.find('\n'),
            _ if after.starts_with("(in ") => after.find(')'),
            _ if after.starts_with('"') && !before.ends_with('\'') => {
                let raw = before.len() - before.trim_end_matches('#').len();
                let is_raw = before.trim_end_matches('#').ends_with('r');
                quoted(after, is_raw.then_some(raw))
            }
            _ => None,
        };
        let skipped = skipped.unwrap_or_else(|| {
            bare.push_str(&after[..1]);
            1
        });
        rest = &after[skipped..];
    }
    bare.push_str(rest);
    bare.replace('\n', " ")
}

/// How long a text between quotes is, with them; a raw one has so many `#`.
fn quoted(text: &str, raw: Option<usize>) -> Option<usize> {
    if let Some(raw) = raw {
        let end = format!("\"{}", "#".repeat(raw));
        return Some(1 + text[1..].find(&end)? + end.len());
    }
    let mut is_escaped = false;
    let end = text[1..].find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    Some(end? + 2)
}

/// Adds what a `use` tree below a path brings.
fn branch(above: &[String], tree: &str, is_public: bool, uses: &mut Vec<Use>) {
    let names = |path: &str| -> Names {
        let names = path.split("::").map(|name| name.trim().to_owned());
        above.iter().cloned().chain(names.filter(|name| !name.is_empty())).collect()
    };
    let Some((head, inner)) = tree.split_once('{') else {
        let (path, other) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = names(path);
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let own = path.last().cloned().unwrap_or_default();
        let name = if other.is_empty() { own } else { other.trim().to_owned() };
        return uses.push(Use { is_public, name, path });
    };
    let head = names(head);
    let inner = inner.trim_end().trim_end_matches('}');
    let mut depth = 0;
    let parts = inner.split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    for part in parts.filter(|part| !part.trim().is_empty()) {
        branch(&head, part.trim(), is_public, uses);
    }
}

/// The paths in expressions and types. A name that is none of a path counts if it is one of a type, or called.
fn paths(text: &str) -> Vec<Names> {
    let is_of_path = |letter: char| is_of_name(letter) || letter == ':' || letter == '$';
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find(is_of_path) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|it| !is_of_path(it)).unwrap_or(word.len()));
        rest = after;
        let is_path = word.trim_end_matches(':').contains("::");
        let is_item = word.starts_with(char::is_uppercase) || after.starts_with(['(', '!']);
        let is_member = before.ends_with('.') && !before.ends_with("..");
        if is_path && !word.starts_with(':') || !is_path && is_item && !is_member {
            let names = word.split(':').filter(|name| !name.is_empty());
            found.push(names.map(str::to_owned).collect());
        }
    }
    found
}
