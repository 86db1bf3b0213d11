//! dnsdist.conf: the calls that stand alone in a line of Lua. Nothing is executed.

mod call;
mod kinds;
mod logs;
mod lua;
mod map;
mod names;
mod proxies;
mod rules;
mod selected;
mod servers;
mod sockets;
mod webserver;

#[cfg(test)]
pub(super) use self::kinds::KINDS;
use super::draft::Draft;
use super::source::{Sources, Text};

pub(super) fn import(text: &Text, sources: &mut Sources<'_>) -> Draft {
    let mut program = map::Program::default();
    program.read(text, sources);
    sources.close();
    program.finish()
}
