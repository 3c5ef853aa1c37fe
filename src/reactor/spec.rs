//! What connections are made from: the command with its environment, and the policy. A spec is data; `Launch` is what `add`
//! makes of it, with the host's environment and PATH captured once, so that every replacement starts like the first life (P1).

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::core::error::Refusal;
use crate::core::policy::Policy;
use crate::sys::{self, StderrMode, env};

/// Which variables of the host a server gets before the named ones are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnvMode {
    /// A short list of harmless ones.
    #[default]
    Safe,
    /// All.
    Inherit,
    /// None.
    Empty,
}

/// A spec as the host builds it. Its values are judged together, by `add`.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// Name or path of the program.
    pub program: Vec<u8>,
    /// Arguments behind the program's name.
    pub args: Vec<Vec<u8>>,
    /// Working directory.
    pub cwd: Option<Vec<u8>>,
    /// What the environment starts from.
    pub env_mode: EnvMode,
    /// Names and values that are added.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where stderr goes.
    pub stderr: StderrMode,
    /// The rules of its life.
    pub policy: Policy,
}

/// What is spawned, life after life.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The command.
    pub command: sys::Command,
}

impl Spec {
    /// Captures what the environment gives now.
    pub fn launch(&self, features: &sys::Features) -> Result<Launch, Refusal> {
        if self.program.is_empty() {
            return Err(Refusal::Invalid("the program is empty".to_owned()));
        }
        if self.cwd.is_some() && !sys::can_set_directory(features) {
            return Err(Refusal::Unsupported(
                "this C library cannot start a program in another directory (glibc 2.29 or later can)",
            ));
        }
        let mut variables = match self.env_mode {
            EnvMode::Safe => env::safe(),
            EnvMode::Inherit => env::inherit(),
            EnvMode::Empty => env::empty(),
        };
        for (name, value) in &self.env {
            env::set(&mut variables, OsString::from_vec(name.clone()), OsString::from_vec(value.clone()));
        }
        let command = sys::Command {
            program: c_string("program", &self.program)?,
            args: self.args.iter().map(|arg| c_string("argument", arg)).collect::<Result<_, _>>()?,
            env: env::to_cstrings(&variables).map_err(|bad| Refusal::Invalid(bad.to_string()))?.into(),
            host_path: env::host_path(),
            cwd: self.cwd.as_ref().map(|cwd| c_string("cwd", cwd)).transpose()?,
            stderr: self.stderr,
        };
        Ok(Launch { command })
    }
}

/// Values are not repeated in the text: an argument may be a secret (P9).
fn c_string(what: &str, bytes: &[u8]) -> Result<CString, Refusal> {
    CString::new(bytes).map_err(|_| Refusal::Invalid(format!("{what}: a NUL byte cannot be passed on")))
}
