//! Standard input: lines in, one after the other, and what happens at its end. What a line means is not decided here.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::record::Recorder;
use crate::server::{self, Server};
use crate::{methods, process};

/// A line that has grown this long makes `--notes-midline` write before it reads on.
const MIDLINE: usize = 64 * 1024;

/// Reads and answers until the end of input or of the process.
pub fn serve(server: &'static Server) {
    let mut pipe = BufReader::with_capacity(64 * 1024, process::own_stdin());
    let mut line = Vec::new();
    let mut lines_read = 0;
    let recorder = Recorder::from_environment();
    while let Some(is_whole) = read_line(server, &mut pipe, &mut line) {
        lines_read += 1;
        if let Some(path) = &server.options.record {
            line.push(b'\n');
            server::append(path, &line);
            line.pop();
        }
        if let Some(recorder) = recorder.as_ref().filter(|_| is_whole) {
            recorder.line(server, &line);
        }
        if server.options.exit_after_read == Some(lines_read) {
            server.options.death.happen();
        }
        methods::take_line(server, &line);
        if server.close_stdin.load(Ordering::Relaxed) {
            drop(pipe);
            server::stay_alive();
        }
        // A line of many megabytes must not be paid for until the end of the process.
        line.clear();
        line.shrink_to(MIDLINE);
    }
    if server.options.ignore_eof {
        server::stay_alive();
    }
    server.leave(server.options.end_streams);
}

/// The next line without its end (LF, or CR LF), and whether it had one. `None` at the end of input; a last line without LF still
/// counts.
fn read_line(server: &Server, pipe: &mut BufReader<File>, line: &mut Vec<u8>) -> Option<bool> {
    let mut notes_owed = server.options.notes_midline;
    loop {
        let bytes = match pipe.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return (!line.is_empty()).then_some(false),
        };
        if bytes.is_empty() {
            return (!line.is_empty()).then_some(false);
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        pipe.consume(used);
        if end.is_some() {
            while line.last() == Some(&b'\r') {
                line.pop();
            }
            return Some(true);
        }
        // A server that writes while its reader is in the middle of a message: the classic mutual block.
        if line.len() >= MIDLINE {
            let mut number = 0;
            while notes_owed > 0 {
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "info", "data": {"n": number, "pad": "x".repeat(900)}}});
                server.output.note(&note);
                notes_owed = notes_owed.saturating_sub(1000);
                number += 1;
            }
        }
    }
}
