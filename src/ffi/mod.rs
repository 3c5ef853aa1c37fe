//! The C boundary: guard, convert, call one method, store, return. Nothing is decided here. The comments of the exported items are
//! written for readers of the C header, which is generated from them.

#![expect(non_camel_case_types, reason = "these names are the C names")]
// The contract of each function is in its comment, in words for C.
#![allow(clippy::missing_safety_doc)]

pub mod bytes;
pub mod config;
pub mod event;
pub mod guard;
pub mod handle;
pub mod limits;
pub mod peer;
pub mod respond;
pub mod spec;
pub mod spec_client;
pub mod status;
pub mod traffic;
pub mod version;

/// The C header as this build made it, for the test that compares it with the committed one.
#[doc(hidden)]
pub const GENERATED_HEADER: &str = include_str!(concat!(env!("OUT_DIR"), "/mcp_supervised.h"));
