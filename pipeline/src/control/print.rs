//! Prints a report for people.

use serde_json::Value;

/// Prints a report's JSON form for people: one counter a line, zeros left out, nested names indented.
pub fn print_for_people(report: &Value, out: &mut impl std::io::Write) -> std::io::Result<()> {
    print_level(report, 0, out)
}

fn print_level(value: &Value, depth: usize, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, field) in
                fields.iter().filter(|(name, field)| !is_for_programs(name) && !is_nothing(field))
            {
                match field {
                    Value::Object(_) | Value::Array(_) => {
                        writeln!(out, "{indent}{name}")?;
                        print_level(field, depth + 1, out)?;
                    }
                    Value::String(text) => writeln!(out, "{indent}{name:<24} {text}")?,
                    plain => writeln!(out, "{indent}{name:<24} {plain:>14}")?,
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                writeln!(out, "{indent}- {index}")?;
                print_level(item, depth + 1, out)?;
            }
        }
        plain => writeln!(out, "{indent}{plain}")?,
    }
    Ok(())
}

/// Histograms are for programs: people get their quantiles, and `pmdns top`.
fn is_for_programs(name: &str) -> bool {
    matches!(name, "buckets" | "histogram")
}

/// Whether a counter says nothing: zero, or a table without entries.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}
