//! What is known of methods by their names: whether a lost request may be sent again (T1) and which capability it needs (R7).

/// A capability of a server that a method can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// `tools`.
    Tools,
    /// `resources`.
    Resources,
    /// `prompts`.
    Prompts,
    /// `completions`.
    Completions,
    /// `logging`.
    Logging,
}

impl Capability {
    /// Its key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Completions => "completions",
            Self::Logging => "logging",
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tools, Self::Resources, Self::Prompts, Self::Completions, Self::Logging];
}

/// What is known of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// It only reads the server's state: sending it twice does no harm.
    pub reads_only: bool,
    /// The answer tells what the server can do.
    pub is_discover: bool,
    /// What the server must have.
    pub needs: Option<Capability>,
}

/// The fixed set. Everything else, tools/call and vendor methods above all, is never sent twice.
const KNOWN: [(&str, bool, Option<Capability>); 12] = [
    ("tools/call", false, Some(Capability::Tools)),
    ("tools/list", true, Some(Capability::Tools)),
    ("server/discover", true, None),
    ("resources/read", true, Some(Capability::Resources)),
    ("resources/list", true, Some(Capability::Resources)),
    ("resources/templates/list", true, Some(Capability::Resources)),
    ("prompts/get", true, Some(Capability::Prompts)),
    ("prompts/list", true, Some(Capability::Prompts)),
    ("completion/complete", true, Some(Capability::Completions)),
    // Of the older revisions only.
    ("resources/subscribe", false, Some(Capability::Resources)),
    ("resources/unsubscribe", false, Some(Capability::Resources)),
    ("logging/setLevel", false, Some(Capability::Logging)),
];

/// The method whose answer tells what a server can do.
pub const DISCOVER: &str = "server/discover";
/// The method that opens a stream.
pub const LISTEN: &str = "subscriptions/listen";

impl Method {
    /// By its name.
    pub fn of(name: &str) -> Self {
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        Self {
            reads_only: known.is_some_and(|(_, reads_only, _)| *reads_only),
            is_discover: name == DISCOVER,
            needs: known.and_then(|(.., needs)| *needs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t01_the_eligible_methods_are_these_eight() {
        let eligible: Vec<&str> =
            KNOWN.iter().filter(|(name, ..)| Method::of(name).reads_only).map(|row| row.0).collect();
        assert_eq!(eligible.len(), 8);
        for never in
            ["tools/call", "subscriptions/listen", "vendor/x", "initialize", "ping", "Tools/list", "tools/list "]
        {
            assert!(!Method::of(never).reads_only, "{never}");
        }
    }
}
