//! What a server said of itself: kept as its own text, and used to refuse what it cannot do (R7).

use serde_json::value::RawValue;

use super::methods::Capability;
use crate::core::stamp::pairs;

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
        let mut found = false;
        for (key, value) in pairs(result).ok()? {
            match &*key {
                "capabilities" => {
                    found = true;
                    known.capabilities = value.get().to_owned();
                    for (name, value) in pairs(value.get().as_bytes()).ok()? {
                        for (at, capability) in Capability::ALL.iter().enumerate() {
                            known.has[at] |= name == capability.key() && value.get() != "null";
                        }
                    }
                }
                "supportedVersions" => known.versions = value.get().to_owned(),
                "_meta" => {
                    let info = |(key, value): (std::borrow::Cow<'_, str>, &RawValue)| {
                        (key == "io.modelcontextprotocol/serverInfo").then(|| value.get().to_owned())
                    };
                    known.server_info =
                        pairs(value.get().as_bytes()).ok()?.into_iter().find_map(info).unwrap_or_default();
                }
                _ => {}
            }
        }
        found.then_some(known)
    }

    /// Whether the server has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.has[capability as usize]
    }
}

/// The versions a `-32022` error says the server speaks.
pub fn supported_versions(error: &[u8]) -> Vec<String> {
    serde_json::from_slice::<serde_json::Value>(error)
        .ok()
        .and_then(|error| serde_json::from_value(error["data"]["supported"].clone()).ok())
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
