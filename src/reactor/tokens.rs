//! Which descriptor an epoll event is about. A token is only a name of a slot: what it names is looked up before anything is
//! closed or spawned in that turn, so that it never speaks of a connection that came later.

use mio::Token;

/// The doorbell.
pub const BELL: Token = Token(usize::MAX);
/// The timer.
pub const TIMER: Token = Token(usize::MAX - 1);
/// SIGCHLD, where asked for.
pub const CHILD: Token = Token(usize::MAX - 2);

/// The descriptors of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Our end of stdin.
    Stdin,
    /// Our end of stdout.
    Stdout,
    /// Our end of stderr.
    Stderr,
    /// The pidfd.
    Exit,
}

/// The token of a connection's descriptor.
pub fn token(slot: u32, part: Part) -> Token {
    Token((slot as usize) << 2 | part as usize)
}

/// The other way round.
pub fn parse(token: Token) -> (u32, Part) {
    let part = match token.0 & 3 {
        0 => Part::Stdin,
        1 => Part::Stdout,
        2 => Part::Stderr,
        _ => Part::Exit,
    };
    ((token.0 >> 2) as u32, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_slot_and_part() {
        for slot in [0, 1, 77, (1 << 24) - 1] {
            for part in [Part::Stdin, Part::Stdout, Part::Stderr, Part::Exit] {
                assert_eq!(parse(token(slot, part)), (slot, part));
                assert!(![BELL, TIMER, CHILD].contains(&token(slot, part)));
            }
        }
    }
}
