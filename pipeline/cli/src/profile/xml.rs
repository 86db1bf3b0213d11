//! Elements of a page, closed and escaped by construction.

use std::fmt::{Display, Write as _};

/// The one element we use that holds nothing and has no end in HTML.
const VOID: &str = "meta";

/// An element under construction.
#[derive(Clone, Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: String,
    inside: String,
}

impl Element {
    /// An empty element.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: String::new(), inside: String::new() }
    }

    /// With an attribute.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        let value = escaped(&value.to_string());
        write!(self.attributes, " {name}=\"{value}\"").expect("a String takes everything");
        self
    }

    /// With a class.
    pub(super) fn class(self, class: &str) -> Self {
        self.with("class", class)
    }

    /// With text behind what it holds.
    pub(super) fn text(mut self, text: impl Display) -> Self {
        self.inside += &escaped(&text.to_string());
        self
    }

    /// With another element behind what it holds.
    pub(super) fn child(mut self, child: Self) -> Self {
        child.write(&mut self.inside);
        self
    }

    /// With more elements.
    pub(super) fn children(self, children: impl IntoIterator<Item = Self>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    /// Writes it down.
    pub(super) fn write(&self, out: &mut String) {
        let Self { name, attributes, inside } = self;
        match *name {
            VOID => write!(out, "<{name}{attributes}/>"),
            _ => write!(out, "<{name}{attributes}>{inside}</{name}>"),
        }
        .expect("a String takes everything");
    }
}

/// A text that is no markup, in an element as well as in an attribute. Characters that no document may hold
/// become U+FFFD.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(character),
            control if control.is_control() => safe.push('\u{fffd}'),
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest_and_texts_stay_texts() {
        let inner = Element::new("i").with("title", "a\"b").text("<&\u{0}");
        let mut out = String::new();
        Element::new("p").text("x ").child(inner).write(&mut out);
        assert_eq!(out, "<p>x <i title=\"a&quot;b\">&lt;&amp;\u{fffd}</i></p>");
    }
}
