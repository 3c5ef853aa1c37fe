//! What a server said of itself: kept as its own text, and used to refuse what it cannot do (R7).

use super::methods::Capability;
use crate::core::era::Revision;
use crate::core::stamp::{each_pair, member, quoted};

/// No server speaks more versions than fit in here.
const VERSIONS_BYTES: usize = 4096;

/// The answer to a discover or to "initialize", as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The text of its capabilities.
    pub capabilities: String,
    /// The text of its serverInfo.
    pub server_info: String,
    /// The versions it speaks, as text.
    pub versions: String,
    /// The text of its instructions, empty if there are none. Only kept where a discover has to be answered with it.
    pub instructions: String,
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
        known.read_capabilities(capabilities?.get())?;
        known.versions = versions.map_or_else(String::new, |value| value.get().to_owned());
        // What a server says of itself beside that must not cost what it says of its capabilities.
        let info = meta.and_then(|meta| member(meta.get().as_bytes(), "io.modelcontextprotocol/serverInfo"));
        known.server_info = info.map_or_else(String::new, |value| value.get().to_owned());
        Some(known)
    }

    /// The same, of a server that does not say what it can do: then it may be able to do everything. `None` if the result is no
    /// object.
    pub fn read_leniently(result: &[u8]) -> Option<Self> {
        Self::read(result).or_else(|| {
            let versions = member(result, "supportedVersions")?.get().to_owned();
            Some(Self { versions, has: [true; Capability::ALL.len()], ..Self::default() })
        })
    }

    /// Reads the result of "initialize". `None` if it is no object. A server that does not say what it can do may be able to do
    /// everything.
    pub fn of_initialize(result: &[u8], version: &str) -> Option<Self> {
        let mut known = Self { versions: format!("[{}]", quoted(version)), ..Self::default() };
        let mut capabilities = None;
        each_pair(result, |key, value| match &*key {
            "capabilities" => capabilities = Some(value.get()),
            "serverInfo" => known.server_info = value.get().to_owned(),
            "instructions" if value.get().starts_with('"') => known.instructions = value.get().to_owned(),
            _ => {}
        })
        .ok()?;
        if capabilities.and_then(|text| known.read_capabilities(text)).is_none() {
            known.capabilities = String::new();
            known.has = [true; Capability::ALL.len()];
        }
        // The oldest revision has completion/complete, but no capability of that name.
        known.has[Capability::Completions as usize] |= version == Revision::Nov2024.text();
        Some(known)
    }

    fn read_capabilities(&mut self, capabilities: &str) -> Option<()> {
        self.capabilities = capabilities.to_owned();
        each_pair(capabilities.as_bytes(), |name, value| {
            for (at, capability) in Capability::ALL.iter().enumerate() {
                self.has[at] |= name == capability.key() && value.get() != "null";
            }
        })
        .ok()
    }

    /// Whether `name` is declared, and in it `flag`, if one is asked for. A server that does not say what it can do may be able
    /// to do it.
    pub fn declares(&self, name: &str, flag: Option<&str>) -> bool {
        if self.capabilities.is_empty() {
            return true;
        }
        let Some(value) = member(self.capabilities.as_bytes(), name).filter(|value| value.get() != "null") else {
            return false;
        };
        flag.is_none_or(|flag| member(value.get().as_bytes(), flag).is_some_and(|value| value.get() == "true"))
    }

    /// Whether version, capabilities or name are others (R7).
    pub fn differs_from(&self, other: &Self) -> bool {
        (&self.versions, &self.capabilities, &self.server_info)
            != (&other.versions, &other.capabilities, &other.server_info)
    }

    /// Whether the server has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.has[capability as usize]
    }
}

/// The versions a `-32022` error says the server speaks.
pub fn supported_versions(error: &[u8]) -> Vec<String> {
    member(error, "data").map(|data| versions_of(data.get().as_bytes(), "supported")).unwrap_or_default()
}

/// The versions a discover result names.
pub fn named_versions(result: &[u8]) -> Vec<String> {
    versions_of(result, "supportedVersions")
}

fn versions_of(object: &[u8], name: &str) -> Vec<String> {
    member(object, name)
        .filter(|versions| versions.get().len() <= VERSIONS_BYTES)
        .and_then(|versions| serde_json::from_str(versions.get()).ok())
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
