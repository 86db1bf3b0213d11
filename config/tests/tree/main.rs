//! What every file of the tree keeps to, what the book and the examples say, and who imports whom.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod atomics;
mod book;
mod code_map;
mod counted;
mod crates;
mod documentation;
mod examples;
mod files;
mod found;
mod functions;
mod fuzzing;
mod imports;
mod markdown;
mod modules;
mod names;
mod opens;
mod package;
mod paths;
mod refusals;
mod release;
mod run;
mod shared;
mod tidy;
