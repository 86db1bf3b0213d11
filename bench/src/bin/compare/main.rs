//! Makes a report of what scripts/compare.sh measured: the JSON of ratios, the page of tables, and the plots.

mod load;
mod plots;
mod ratios;
mod raw;
mod tables;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use raw::Results;

/// Reads raw lines and writes the report.
#[derive(Parser)]
struct Arguments {
    /// JSON lines, as scripts/compare.sh writes them, the newest file first. Groups that it lacks are taken from the others.
    #[arg(required = true)]
    raw: Vec<PathBuf>,
    /// Reports of pmdns-load.
    #[arg(long, num_args = 0..)]
    load: Vec<PathBuf>,
    /// Where the ratios and their figures go.
    #[arg(long)]
    json: PathBuf,
    /// Where the page goes.
    #[arg(long)]
    markdown: PathBuf,
    /// The folder for the plots, and for the results they are drawn from: lines like the raw ones.
    #[arg(long)]
    plots: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut results = Results::parse(&read(&arguments.raw[0])?)?;
    for file in &arguments.load {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let lines =
            load::lines(&read(file)?, &stem).map_err(|e| format!("{}: {e}", file.display()))?;
        results.lines.extend(lines);
    }
    for file in &arguments.raw[1..] {
        results.add_older(Results::parse(&read(file)?)?);
    }
    fs::create_dir_all(&arguments.plots)?;
    let mut names = Vec::new();
    for (name, svg) in plots::all(&results)? {
        fs::write(arguments.plots.join(format!("{name}.svg")), svg)?;
        names.push(name);
    }
    fs::write(arguments.plots.join("results.jsonl"), results.text()?)?;
    fs::write(&arguments.markdown, tables::page(&results, &names))?;
    fs::write(&arguments.json, serde_json::to_string_pretty(&ratios::json(&results))? + "\n")?;
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}
