//! Lines of a zone file that are no records (RFC 1035 section 5.1, RFC 2308 section 4).

use super::head::checked_ttl;
use super::number::seconds;
use super::words::{Mistake, Word, ZoneFileEntry};

/// A directive.
pub(super) enum Directive<'e, 't> {
    /// `$ORIGIN name`
    Origin(&'e Word<'t>),
    /// `$TTL time`
    Ttl(u32),
    /// `$GENERATE range owner [TTL] [class] type data`
    Generate(GenerateWords<'e, 't>),
}

/// The words of a `$GENERATE`.
pub(super) struct GenerateWords<'e, 't> {
    pub(super) range: &'e Word<'t>,
    pub(super) owner: &'e Word<'t>,
    /// What stands behind the owner.
    pub(super) record: &'e [Word<'t>],
}

impl<'e, 't> Directive<'e, 't> {
    /// The directive that an entry is; `None`: it is a record.
    pub(super) fn of(entry: &ZoneFileEntry<'e, 't>) -> Result<Option<Self>, Mistake> {
        let Some((name, words)) = entry.words.split_first() else { return Ok(None) };
        if entry.starts_blank || name.is_quoted || !name.text.starts_with(b"$") {
            return Ok(None);
        }
        let wrong = |problem: &str| (name.line, problem.to_owned());
        if name.is("$ORIGIN") {
            let [origin] = words else { return Err(wrong("$ORIGIN is followed by one name")) };
            return Ok(Some(Self::Origin(origin)));
        }
        if name.is("$TTL") {
            let [ttl] = words else { return Err(wrong("$TTL is followed by one time")) };
            let text = std::str::from_utf8(ttl.text).ok();
            let ttl = text.and_then(seconds).ok_or_else(|| {
                (ttl.line, format!("{} is not a time in seconds or like 1h30m", ttl.shown()))
            })?;
            let ttl = checked_ttl(ttl).map_err(|problem| (name.line, problem))?;
            return Ok(Some(Self::Ttl(ttl)));
        }
        if name.is("$GENERATE") {
            let [range, owner, record @ ..] = words else {
                return Err(wrong(
                    "$GENERATE is followed by a range, an owner, a type and data, as in \
                     $GENERATE 1-9 host$ A 192.0.2.$",
                ));
            };
            return Ok(Some(Self::Generate(GenerateWords { range, owner, record })));
        }
        if name.is("$INCLUDE") {
            return Err(wrong(
                "$INCLUDE is not followed; put the file's records here, or name it in a \
                 [[zone]] of its own",
            ));
        }
        let known =
            "there are $ORIGIN, $TTL and $GENERATE; a name that begins with $ is written \\$";
        Err((name.line, format!("{} is no directive; {known}", name.shown())))
    }
}
