//! The revisions of MCP that are spoken, and the two eras they fall into: 2026-07-28, where every request is complete in itself,
//! and those before it, where a handshake opens a session.

use super::stamp::PROTOCOL_VERSION;

/// A revision before 2026-07-28. They are ordered by their dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05.
    Nov2024,
    /// 2025-03-26, the only one with batches.
    Mar2025,
    /// 2025-06-18.
    Jun2025,
    /// 2025-11-25.
    Nov2025,
}

impl Revision {
    /// All of them, newest first.
    pub const ALL: [Self; 4] = [Self::Nov2025, Self::Jun2025, Self::Mar2025, Self::Nov2024];
    /// What is offered.
    pub const NEWEST: Self = Self::Nov2025;

    /// Its date, as it is told on the wire.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Nov2024 => "2024-11-05",
            Self::Mar2025 => "2025-03-26",
            Self::Jun2025 => "2025-06-18",
            Self::Nov2025 => "2025-11-25",
        }
    }

    /// The revision of a date.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.text() == text)
    }
}

/// Whether a version that a server names is of the present era: dates compare as texts. What is no date ("DRAFT-2026-v1", as
/// servers of unfinished revisions call them) tells nothing of the era.
pub fn is_modern(version: &str) -> bool {
    let is_date = version.len() == PROTOCOL_VERSION.len()
        && version.bytes().zip(PROTOCOL_VERSION.bytes()).all(|(byte, pattern)| match pattern {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_date && version >= PROTOCOL_VERSION
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// Nobody looks: lines are passed through.
    Raw,
    /// MCP 2026-07-28.
    Modern,
    /// A revision before it.
    Legacy(Revision),
}

impl Spoken {
    /// The protocol version, if there is one.
    pub const fn version(self) -> Option<&'static str> {
        match self {
            Self::Raw => None,
            Self::Modern => Some(PROTOCOL_VERSION),
            Self::Legacy(revision) => Some(revision.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z05_the_revisions_are_known_by_their_dates() {
        for revision in Revision::ALL {
            assert_eq!(Revision::of(revision.text()), Some(revision));
            assert!(!is_modern(revision.text()));
        }
        assert!(Revision::ALL.is_sorted_by(|a, b| a > b));
        assert_eq!(Revision::of("2026-07-28"), None);
        assert!(is_modern("2026-07-28") && is_modern("2027-01-01") && !is_modern("1999-01-01"));
        for no_date in ["", "DRAFT-2026-v1", "draft", "latest", "9", "2026-07-28-rc1", "2026_07_28", "2026-07-2x"] {
            assert!(!is_modern(no_date), "{no_date}");
        }
    }
}
