//! What a server said of itself: kept as its own text, and used to refuse what it cannot do (R7).

use super::methods::Capability;
use crate::core::stamp::{each_pair, member};

/// No server speaks more versions than fit in here.
const VERSIONS_BYTES: usize = 4096;

/// The answer to a discover, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The text of its capabilities.
    pub capabilities: String,
    /// The text of its serverInfo.
    pub server_info: String,
    /// The versions it speaks, as text.
    pub versions: String,
    has: [bool; Capability::ALL.len()],
}

impl Known {
    /// Reads a discover result. `None` if it is no object, or does not say what the server can do.
    pub fn read(result: &[u8]) -> Option<Self> {
        let mut known = Self::default();
        let (mut capabilities, mut versions, mut meta) = (None, None, None);
        each_pair(result, |key, value| match &*key {
            "capabilities" => capabilities = Some(value),
            "supportedVersions" => versions = Some(value),
            "_meta" => meta = Some(value),
            _ => {}
        })
        .ok()?;
        let capabilities = capabilities?.get();
        known.capabilities = capabilities.to_owned();
        each_pair(capabilities.as_bytes(), |name, value| {
            for (at, capability) in Capability::ALL.iter().enumerate() {
                known.has[at] |= name == capability.key() && value.get() != "null";
            }
        })
        .ok()?;
        known.versions = versions.map_or_else(String::new, |value| value.get().to_owned());
        // What a server says of itself beside that must not cost what it says of its capabilities.
        let info = meta.and_then(|meta| member(meta.get().as_bytes(), "io.modelcontextprotocol/serverInfo"));
        known.server_info = info.map_or_else(String::new, |value| value.get().to_owned());
        Some(known)
    }

    /// Whether the server has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.has[capability as usize]
    }
}

/// The versions a `-32022` error says the server speaks.
pub fn supported_versions(error: &[u8]) -> Vec<String> {
    member(error, "data")
        .and_then(|data| member(data.get().as_bytes(), "supported"))
        .filter(|supported| supported.get().len() <= VERSIONS_BYTES)
        .and_then(|supported| serde_json::from_str(supported.get()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r07_a_discover_result_is_read_as_it_stands() {
        let known = Known::read(
            br#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x":1.50},"prompts":null},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a"}}}"#,
        )
        .unwrap();
        assert_eq!(known.capabilities, r#"{"tools":{"x":1.50},"prompts":null}"#);
        assert_eq!(known.server_info, r#"{"name":"a"}"#);
        assert!(known.has(Capability::Tools) && !known.has(Capability::Prompts) && !known.has(Capability::Resources));
        assert_eq!(Known::read(b"{}"), None);
        assert_eq!(Known::read(b"[]"), None);
        assert_eq!(Known::read(br#"{"capabilities":[]}"#), None);
    }

    #[test]
    fn r08_the_versions_of_an_error() {
        assert_eq!(supported_versions(br#"{"code":-32022,"data":{"supported":["a","b"]}}"#), ["a", "b"]);
        for none in [&b"{}"[..], br#"{"data":{"supported":"a"}}"#, br#"{"data":{"supported":[1]}}"#] {
            assert!(supported_versions(none).is_empty());
        }
    }
}
