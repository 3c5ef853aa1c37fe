//! Writes the C header next to the build's other outputs and gives the shared library its name.
//!
//! The header that is committed under `include/` is compared with this one by a test, which can also refresh it. A build never
//! writes into the source tree.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=src/ffi");
    println!("cargo:rerun-if-changed=cbindgen.toml");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    write_header(&root, &out.join("mcp_supervised.h"));

    // cargo-c brings a SONAME of its own.
    let linux = env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if linux && env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmcp_supervised.so.0");
    }
    if linux {
        // Unloading a Rust library leaves thread-local destructors behind that point into nothing.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

fn write_header(root: &Path, to: &Path) {
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let part = |name: &str| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo sets it");
    config.after_includes = Some(format!(
        "{}\n\
         /**\n \
         * The version of this header; mcp_supervised_version() tells that of the library.\n \
         */\n\
         #define MCP_SUPERVISED_VERSION \"{version}\"\n\
         #define MCP_SUPERVISED_VERSION_MAJOR {}\n\
         #define MCP_SUPERVISED_VERSION_MINOR {}\n\
         #define MCP_SUPERVISED_VERSION_PATCH {}",
        config.after_includes.unwrap_or_default(),
        part("MAJOR"),
        part("MINOR"),
        part("PATCH"),
    ));
    // Only the boundary is read: what lies behind it is nobody's business. The header has its functions in this order.
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "version",
        "status",
        "config",
        "guard",
        "handle",
        "spec",
        "spec_client",
        "limits",
        "peer",
        "traffic",
        "respond",
        "event",
    ] {
        builder = builder.with_src(root.join("src/ffi").join(file).with_extension("rs"));
    }
    builder.generate().expect("the header can be generated").write_to_file(to);
}
