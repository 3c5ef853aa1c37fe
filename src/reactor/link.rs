//! The descriptors of one connection and what epoll has told about them. Reads and writes are single steps here; how many of
//! them a turn makes is decided by the turn.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry};

use super::tokens::{Part, token};
use crate::core::connection::{ExitReport, StdinReport};
use crate::core::event::Exit;
use crate::sys::{self, Child, Process};

/// One pipe and what is known about it.
#[derive(Debug)]
pub struct End {
    fd: OwnedFd,
    /// It may give or take something: told by an edge, and not disproved since.
    pub ready: bool,
    /// The other side is gone. It is told once, so it has to be remembered (an edge may bring data and hang-up together).
    pub hung_up: bool,
    /// Writing failed for another reason than that nobody reads.
    pub failed: bool,
}

impl End {
    fn new(fd: OwnedFd, ready: bool) -> Self {
        Self { fd, ready, hung_up: false, failed: false }
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a read brought.
#[derive(Debug)]
pub enum Got {
    /// Bytes; whether the pipe was emptied is in `End::ready`.
    Bytes(usize),
    /// Nothing more for now.
    Nothing,
    /// The end.
    End,
    /// It cannot be read.
    Failed(io::Error),
}

/// The descriptors of one connection.
#[derive(Debug)]
pub struct Link {
    /// The child and its pidfd.
    pub process: Process,
    /// Our end of stdin, while it is open.
    pub stdin: Option<End>,
    /// Our end of stdout, while it is open.
    pub stdout: Option<End>,
    /// Our end of stderr, while it is open.
    pub stderr: Option<End>,
    /// The exit may have happened: look.
    pub exit_ready: bool,
    /// The core knows of the exit.
    pub exit_told: bool,
    /// The slot stands in the list of slots with something to do.
    pub is_listed: bool,
}

impl Link {
    /// Registers everything a child brought. On an error nothing stays registered; the child is the caller's to end.
    pub fn new(child: Child, slot: u32, registry: &Registry) -> Result<Self, (io::Error, Process)> {
        let Child { process, stdin, stdout, stderr } = child;
        let mut link = Self {
            exit_ready: process.pidfd().is_none(),
            process,
            stdin: Some(End::new(stdin, true)),
            stdout: Some(End::new(stdout, false)),
            stderr: stderr.map(|fd| End::new(fd, false)),
            exit_told: false,
            is_listed: false,
        };
        match link.register(slot, registry) {
            Ok(()) => Ok(link),
            Err(error) => {
                link.close_all(registry);
                Err((error, link.process))
            }
        }
    }

    fn register(&self, slot: u32, registry: &Registry) -> io::Result<()> {
        let add = |fd: BorrowedFd<'_>, part, interest| {
            registry.register(&mut SourceFd(&fd.as_raw_fd()), token(slot, part), interest)
        };
        if let Some(end) = &self.stdin {
            add(end.fd(), Part::Stdin, Interest::WRITABLE)?;
        }
        if let Some(end) = &self.stdout {
            add(end.fd(), Part::Stdout, Interest::READABLE)?;
        }
        if let Some(end) = &self.stderr {
            add(end.fd(), Part::Stderr, Interest::READABLE)?;
        }
        if let Some(fd) = self.process.pidfd() {
            add(fd, Part::Exit, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Closes one end. It is taken out of the epoll first: a fork of the host may hold the same pipe, and would keep a
    /// closed descriptor reporting.
    pub fn close(&mut self, part: Part, registry: &Registry) {
        let end = match part {
            Part::Stdin => self.stdin.take(),
            Part::Stdout => self.stdout.take(),
            Part::Stderr => self.stderr.take(),
            Part::Exit => None,
        };
        if let Some(end) = end {
            forget(end.fd(), registry);
        }
    }

    /// Takes everything out of the epoll and closes the pipes.
    pub fn close_all(&mut self, registry: &Registry) {
        for part in [Part::Stdin, Part::Stdout, Part::Stderr] {
            self.close(part, registry);
        }
        if let Some(fd) = self.process.pidfd() {
            forget(fd, registry);
        }
    }

    /// What stdin can tell after a death signal.
    pub fn stdin_report(&self) -> Option<StdinReport> {
        let end = self.stdin.as_ref()?;
        Some(StdinReport {
            unread: sys::io::unread(end.fd()).unwrap_or(0) as u64,
            hung_up: end.hung_up || sys::io::hung_up(end.fd()),
        })
    }

    /// Everything the core wants to know when the process is gone.
    pub fn exit_report(&self, exit: sys::Exit) -> ExitReport {
        let waiting = |end: &Option<End>| end.as_ref().map_or(0, |end| sys::io::unread(end.fd()).unwrap_or(0));
        ExitReport {
            exit: match exit {
                sys::Exit::Code(code) => Exit::Code(code),
                sys::Exit::Signal(signal) => Exit::Signal(signal),
                sys::Exit::Unknown => Exit::Unknown,
            },
            stdout: waiting(&self.stdout),
            stderr: waiting(&self.stderr),
            stdin: self.stdin_report(),
        }
    }
}

fn forget(fd: BorrowedFd<'_>, registry: &Registry) {
    // It fails only for what is not registered, which is what is wanted.
    let _ = registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
}

/// One read. A read that does not fill the room has emptied the pipe, and the next write is a new edge; only after a
/// hang-up, of which no further edge comes, is it read until the end shows.
pub fn read(end: &mut End, room: &mut [u8]) -> Got {
    match sys::io::read(end.fd(), room) {
        Ok(0) => Got::End,
        Ok(count) => {
            end.ready = count == room.len() || end.hung_up;
            Got::Bytes(count)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            end.ready = false;
            Got::Nothing
        }
        Err(error) => Got::Failed(error),
    }
}
