/*
 * mcp_supervised: supervised MCP servers.
 *
 * An MCP server is a child process that speaks newline-delimited JSON-RPC on its standard streams, and it can die under its
 * client. A handle owns any number of such servers ("peers"). It starts a replacement for one that ended unasked, within a
 * restart budget, and tells everything as events. There is no thread and no callback: everything happens inside
 * mcp_supervised_poll(), and one descriptor, mcp_supervised_fd(), plugs the handle into any event loop.
 *
 * Words. Peer: one supervised server; its id stays the same through all its lives. Connection: one life of a peer, one
 * process. Replacement: the next connection of the same peer. Spec: what connections are made from. To serve: the connection
 * takes requests. Request: a question with one answer; its id is of the peer and stays the same if it is sent again. Stream:
 * notifications that were asked for, with an id of the same row. Completion: the one event that ends a request or a stream;
 * it carries MCP_SUPERVISED_FLAG_COMPLETE, and its user_data is not seen again.
 *
 * The states of a peer (mcp_supervised_state) and the events on the way:
 *
 *              start                      the poll after DRAIN was taken
 *     IDLE -----------> RUNNING --close, DRAIN--> DRAINING ---------> CLOSING --ended: CLOSE--> CLOSED
 *      |                |     ^                      |                   ^                        ^
 *      |          it dies     | delay over:          '----- it dies -----'                        |
 *      |                |     | RECONNECT                                                         |
 *      |                v     |                                                                   |
 *      |            ENDING --DRAIN, CLOSE--> WAITING --close: CLOSE (withdrawn)-------------------|
 *      |                |                      | ^                                                |
 *      |                |                      | '--cannot be spawned, does not serve: ERROR      |
 *      |                |                      '----the same, budget spent: ERROR, EXHAUSTED, CLOSE
 *      |                '--budget spent: DRAIN, CLOSE, EXHAUSTED ---------------------------------|
 *      '--close: DRAIN, CLOSE --------------------------------------------------------------------'
 *
 *     Between start and RUNNING, and between the spawn of a replacement and its RECONNECT, stands STARTING where a connection has
 *     to find out or to agree on what is spoken: in MCP_SUPERVISED_MODE_AUTO, the default, and MCP_SUPERVISED_MODE_LEGACY. READY tells
 *     that the first life serves; what is asked of it before waits. A first life that dies while STARTING ends like any other;
 *     mcp_supervised_close goes from STARTING straight to CLOSING.
 *
 *     After an exit, what the server had written is delivered before CLOSE, however late the host polls. The last event of a
 *     peer carries MCP_SUPERVISED_FLAG_FINAL. MESSAGE, LOG, ERROR and WRITABLE events come in between.
 *
 * A request or a stream on its way, from the call that accepts it to its COMPLETE event:
 *
 *     request, listen --accepted--> QUEUED ------> WRITTEN --answer-------------------------------> COMPLETE (MESSAGE)
 *                         |           ^ |             |                                                 ^
 *       not serving yet:  '> WAITING -' |             |  error of the server ---------------------------'
 *                               |       |             |
 *                               '-------'------.------'--timeout: E_TIMEOUT, cancel: E_CANCELLED, ----> COMPLETE (ERROR)
 *                                              |         nonsense in its place: E_PROTOCOL                 ^  ^
 *                                              | the connection ends                                       |  |
 *                                              v                                                           |  |
 *                                             LOST --a request that is not retried: E_CLOSED --------------'  |
 *                                              |        (UNREAD: the server cannot have read a byte of it)    |
 *            a stream, or a request that       |                                                              |
 *            only reads, with                  v                                                              |
 *            spec_retry_lost_requests       RETAINED --timeout, cancel; budget spent: E_EXHAUSTED; -----------'
 *                                              |       mcp_supervised_close: E_CLOSED
 *                                              '--the replacement serves: QUEUED again, under the same id (RETRIED)
 *
 *     What ends what. An answer, an error, a deadline and a cancel end one request. A result, an error or a cancellation of the
 *     server and a cancel of the host end one stream; streams have no deadline. A connection that ends takes its requests with
 *     it, but for those that are retained, and no stream. A spent budget and mcp_supervised_close end everything of the peer;
 *     completions of one moment come behind the CLOSE, requests in the order of acceptance, then streams. While a replacement
 *     is awaited nothing new is accepted: E_CLOSED. mcp_supervised_free alone ends requests without an event.
 *
 * Threads. A handle is used by one thread at a time, by any thread; a second one gets MCP_SUPERVISED_E_BUSY and nothing
 * happens. Hosts with several threads wait on the descriptor, then lock and poll with a timeout of 0. mcp_supervised_wakeup()
 * alone may be called from any thread and from a signal handler. Specs and configs are plain data, one thread at a time. What
 * takes none of the three may be called from any thread.
 *
 * Ownership. What a _new function made is freed by its _free function. Everything passed in is copied before the call
 * returns. Payloads of events are borrowed until the next mcp_supervised_poll() or mcp_supervised_free() on the handle;
 * the text of mcp_supervised_last_error() until the next call on it. Ids never dangle: a stale one is an error.
 *
 * Text is a pointer and a length. MCP_SUPERVISED_CSTR as the length means that it is NUL-terminated; (NULL, 0) is the
 * empty text. Times are milliseconds unless a name says otherwise.
 *
 * Errors. Functions return 0 or more on success and a negative mcp_supervised_status on error; nothing was changed then, and
 * no out parameter written. mcp_supervised_last_error() tells more. E_INVALID below is short for MCP_SUPERVISED_E_INVALID, and
 * so on; CLOSE for MCP_SUPERVISED_EVENT_CLOSE. The comment of a function lists its own errors. Besides, every function with a
 * handle can answer E_NULL, E_BAD_HANDLE, E_BUSY, E_FORKED and E_PANIC, and every one that is given a peer E_NO_PEER.
 *
 * The library changes no process-wide state: no signal disposition (SIGPIPE included), no handler unless asked for, no
 * thread, no environment. Only its own children are waited for.
 *
 * License: MIT OR Apache-2.0.
 */

#ifndef MCP_SUPERVISED_H
#define MCP_SUPERVISED_H

#include <stddef.h>
#include <stdint.h>

/**
 * Stands before every function; a host may define it before including this header.
 */
#ifndef MCP_SUPERVISED_API
#define MCP_SUPERVISED_API
#endif

/**
 * The methods of MCP 2026-07-28; the older revisions have the same, and server/discover is answered for them. Any other text may be a method, too. Streams are opened with mcp_supervised_listen.
 */
#define MCP_SUPERVISED_METHOD_DISCOVER "server/discover"
#define MCP_SUPERVISED_METHOD_TOOLS_LIST "tools/list"
#define MCP_SUPERVISED_METHOD_TOOLS_CALL "tools/call"
#define MCP_SUPERVISED_METHOD_RESOURCES_LIST "resources/list"
#define MCP_SUPERVISED_METHOD_RESOURCES_TEMPLATES_LIST "resources/templates/list"
#define MCP_SUPERVISED_METHOD_RESOURCES_READ "resources/read"
#define MCP_SUPERVISED_METHOD_PROMPTS_LIST "prompts/list"
#define MCP_SUPERVISED_METHOD_PROMPTS_GET "prompts/get"
#define MCP_SUPERVISED_METHOD_COMPLETE "completion/complete"

/**
 * As the length of a text argument: the text is NUL-terminated and the library measures it.
 */
#define MCP_SUPERVISED_CSTR SIZE_MAX

/**
 * The version of this header; mcp_supervised_version() tells that of the library.
 */
#define MCP_SUPERVISED_VERSION "0.1.0"
#define MCP_SUPERVISED_VERSION_MAJOR 0
#define MCP_SUPERVISED_VERSION_MINOR 1
#define MCP_SUPERVISED_VERSION_PATCH 0

/**
 * Counts breaks of the binary interface. A program built against one ABI number runs with any library of the same number.
 */
#define MCP_SUPERVISED_ABI_VERSION 0

/**
 * As `max_restarts`: restart for ever.
 */
#define MCP_SUPERVISED_UNLIMITED UINT32_MAX

/**
 * As `max_restarts`: never restart; the first death is told as MCP_SUPERVISED_EVENT_EXHAUSTED.
 */
#define MCP_SUPERVISED_NO_RESTART (UINT32_MAX - 1)

/**
 * As a timeout: never.
 */
#define MCP_SUPERVISED_NO_TIMEOUT UINT64_MAX

/**
 * What mcp_supervised_server_info and mcp_supervised_server_capabilities answer for what was said before a restart.
 */
#define MCP_SUPERVISED_STALE 1

/**
 * Of request options: mint a progress token, so that the server may tell of progress, which comes as MESSAGE events of the
 * request and restarts its idle timeout.
 */
#define MCP_SUPERVISED_REQUEST_PROGRESS (1u << 0)

/**
 * Of request options: `params._meta` is the host's own and nothing is put into it. For proxies.
 */
#define MCP_SUPERVISED_REQUEST_META_VERBATIM (1u << 1)

/**
 * Of an event with a `request`: that request or stream is over, and its `user_data` will not be seen again.
 */
#define MCP_SUPERVISED_FLAG_COMPLETE (1u << 0)

/**
 * Of an event: it is the last one of its peer, and mcp_supervised_remove is possible now. Of SHUTDOWN: it is the last one of all
 * peers; only WAKEUP can follow.
 */
#define MCP_SUPERVISED_FLAG_FINAL (1u << 1)

/**
 * Of a CLOSE or ERROR: a replacement is coming.
 */
#define MCP_SUPERVISED_FLAG_WILL_RECONNECT (1u << 2)

/**
 * Of a completion: the request was sent again after a restart. The dead server may have done its work too.
 */
#define MCP_SUPERVISED_FLAG_RETRIED (1u << 3)

/**
 * Of a completion with E_CLOSED or E_EXHAUSTED: the dead server cannot have read a byte of the request, so even a tools/call is safe to repeat.
 */
#define MCP_SUPERVISED_FLAG_UNREAD (1u << 4)

/**
 * Of a result: the server asks for more input. Answer with a new request of the same method and params that carries
 * `inputResponses` and the `requestState` as it came.
 */
#define MCP_SUPERVISED_FLAG_INPUT_REQUIRED (1u << 5)

/**
 * Of a result: its `resultType` is that of an extension which the client capabilities declare.
 */
#define MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE (1u << 6)

/**
 * Of a MESSAGE: the library made it, because a server of an older revision does not know what was asked: the answer to
 * server/discover, and what a stream gets beside the server's own notifications.
 */
#define MCP_SUPERVISED_FLAG_EMULATED (1u << 7)

/**
 * Of a RECONNECT: version, capabilities or serverInfo are not what they were.
 */
#define MCP_SUPERVISED_FLAG_SERVER_CHANGED (1u << 8)

/**
 * Of the end of a stream with E_CANCELLED: the server ended it.
 */
#define MCP_SUPERVISED_FLAG_BY_PEER (1u << 9)

/**
 * Of a CLOSE or ERROR: how the process ended could not be found out, because somebody else in the program has fetched its status.
 * `exit_code` is -1 and `signal` 0 then.
 */
#define MCP_SUPERVISED_FLAG_EXIT_UNKNOWN (1u << 10)

/**
 * What a function returns: 0 or a positive number is success, a negative one is an error. Values never change their meaning;
 * new ones may be added, so treat an unknown negative number as an error.
 */
typedef enum mcp_supervised_status {
    /**
     * Success.
     */
    MCP_SUPERVISED_OK = 0,
    /**
     * A pointer that must not be NULL is NULL, or a text is NULL with a length other than 0.
     */
    MCP_SUPERVISED_E_NULL = -1,
    /**
     * An argument has a value that cannot be used; mcp_supervised_last_error names it.
     */
    MCP_SUPERVISED_E_INVALID = -2,
    /**
     * The pointer is no handle: it was freed, or never was one. Best effort.
     */
    MCP_SUPERVISED_E_BAD_HANDLE = -3,
    /**
     * Another thread is inside a function of this handle. Nothing was done.
     */
    MCP_SUPERVISED_E_BUSY = -4,
    /**
     * The handle was made before a fork and this is the child. Only mcp_supervised_free is of use here.
     */
    MCP_SUPERVISED_E_FORKED = -5,
    /**
     * A bug inside the library was caught. The handle answers nothing else from now on; free it.
     */
    MCP_SUPERVISED_E_PANIC = -6,
    /**
     * The peer id is unknown, or the peer was removed.
     */
    MCP_SUPERVISED_E_NO_PEER = -7,
    /**
     * The peer was not started yet.
     */
    MCP_SUPERVISED_E_NOT_STARTED = -8,
    /**
     * The peer was started before.
     */
    MCP_SUPERVISED_E_ALREADY_STARTED = -9,
    /**
     * The peer, or the whole handle, is closed, or there is no connection right now.
     */
    MCP_SUPERVISED_E_CLOSED = -10,
    /**
     * The peer is not over yet: its event with MCP_SUPERVISED_FLAG_FINAL was not handed out.
     */
    MCP_SUPERVISED_E_NOT_CLOSED = -11,
    /**
     * A queue is full. A MCP_SUPERVISED_EVENT_WRITABLE event tells when to go on.
     */
    MCP_SUPERVISED_E_WOULD_BLOCK = -12,
    /**
     * This peer, mode or system cannot do that.
     */
    MCP_SUPERVISED_E_UNSUPPORTED = -13,
    /**
     * A process could not be spawned; the text says whether it was the command, the directory or something else.
     */
    MCP_SUPERVISED_E_SPAWN = -14,
    /**
     * A system call failed.
     */
    MCP_SUPERVISED_E_IO = -15,
    /**
     * A line of the server is no JSON-RPC message. Only as the status of an event.
     */
    MCP_SUPERVISED_E_MALFORMED = -16,
    /**
     * A line of the server is over the limit. Only as the status of an event.
     */
    MCP_SUPERVISED_E_FRAME_TOO_LARGE = -17,
    /**
     * A message the server must not send. Only as the status of an event.
     */
    MCP_SUPERVISED_E_PROTOCOL = -18,
    /**
     * A life of the server ended before it served. Only as the status of an event.
     */
    MCP_SUPERVISED_E_HANDSHAKE = -19,
    /**
     * A request was not answered in time. Only as the status of an event.
     */
    MCP_SUPERVISED_E_TIMEOUT = -20,
    /**
     * A request or a stream was cancelled. Only as the status of an event.
     */
    MCP_SUPERVISED_E_CANCELLED = -21,
    /**
     * The restart budget is spent. Only as the status of an event.
     */
    MCP_SUPERVISED_E_EXHAUSTED = -22,
    /**
     * No request or stream of that id is under way: it is unknown, or its completion is queued or was handed out.
     */
    MCP_SUPERVISED_E_NO_REQUEST = -23,
    /**
     * The host did not keep up with a stream, which ended for that. Only as the status of an event.
     */
    MCP_SUPERVISED_E_DELIVERY_DROPPED = -24,
} mcp_supervised_status;

/**
 * How bad a LOG event is, and where it comes from: its `status`. mcp_supervised_config_log_level takes the last three.
 */
typedef enum mcp_supervised_log_level {
    /**
     * A line of the server's stderr. Always told.
     */
    MCP_SUPERVISED_LOG_SERVER = 0,
    /**
     * The library gave something up.
     */
    MCP_SUPERVISED_LOG_ERROR = 1,
    /**
     * Something went wrong and is handled.
     */
    MCP_SUPERVISED_LOG_WARNING = 2,
    /**
     * Worth knowing.
     */
    MCP_SUPERVISED_LOG_INFO = 3,
} mcp_supervised_log_level;

/**
 * How much of the protocol the library speaks for a peer, for mcp_supervised_spec_mode.
 */
typedef enum mcp_supervised_mode {
    /**
     * Whatever the server speaks, MCP 2026-07-28 or one of the revisions before it. The first life is asked with
     * server/discover, as its very first message; what was found is kept for its replacements. READY tells when it serves. The
     * default.
     */
    MCP_SUPERVISED_MODE_AUTO = 1,
    /**
     * MCP 2026-07-28, without a handshake; nothing is sent unasked.
     */
    MCP_SUPERVISED_MODE_MODERN = 2,
    /**
     * A revision before 2026-07-28 (2025-11-25, 2025-06-18, 2025-03-26 or 2024-11-05): every life begins with the handshake
     * "initialize". READY tells when the first one serves.
     */
    MCP_SUPERVISED_MODE_LEGACY = 3,
    /**
     * Lines only: the library writes nothing of its own, tracks nothing, and every JSON-RPC message of the server, and every
     * JSON array, is a MESSAGE. What is neither is an ERROR with MCP_SUPERVISED_E_MALFORMED, as in the other modes.
     */
    MCP_SUPERVISED_MODE_RAW = 4,
} mcp_supervised_mode;

/**
 * Which variables of the host's environment a server gets, for mcp_supervised_spec_env_mode.
 */
typedef enum mcp_supervised_env_mode {
    /**
     * HOME LOGNAME PATH SHELL TERM USER LANG LC_* TMPDIR, unless the value begins with "()". The default.
     */
    MCP_SUPERVISED_ENV_SAFE = 1,
    /**
     * All.
     */
    MCP_SUPERVISED_ENV_INHERIT = 2,
    /**
     * None.
     */
    MCP_SUPERVISED_ENV_EMPTY = 3,
} mcp_supervised_env_mode;

/**
 * Where a server's stderr goes, for mcp_supervised_spec_stderr.
 */
typedef enum mcp_supervised_stderr_mode {
    /**
     * To the host as LOG events; its last 4 KiB come with CLOSE. The default. It is read inside poll: while the host does
     * not poll, a server that writes a lot may block.
     */
    MCP_SUPERVISED_STDERR_LOG = 1,
    /**
     * To the host's own stderr.
     */
    MCP_SUPERVISED_STDERR_INHERIT = 2,
    /**
     * Nowhere.
     */
    MCP_SUPERVISED_STDERR_NULL = 3,
} mcp_supervised_stderr_mode;

/**
 * Bounds of one peer, for mcp_supervised_spec_limit.
 */
typedef enum mcp_supervised_limit {
    /**
     * MESSAGE and unasked ERROR events that may be queued before the server's stdout is no longer read. Default 1024.
     */
    MCP_SUPERVISED_LIMIT_EVENT_QUEUE = 1,
    /**
     * Bytes of buffer that queued messages may hold before the server's stdout is no longer read. Default 8 MiB. One message
     * always fits.
     */
    MCP_SUPERVISED_LIMIT_EVENT_BYTES = 2,
    /**
     * Bytes that may wait to be written to the server, and the longest line that can be sent. Default 64 MiB, at most 1 GiB.
     */
    MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES = 3,
    /**
     * The longest line a server may write, without its line feed. Default 64 MiB, at most 1 GiB. A longer one ends the
     * connection.
     */
    MCP_SUPERVISED_LIMIT_FRAME_BYTES = 4,
    /**
     * Lines up to this length have their whole JSON grammar checked; of longer ones UTF-8, strings, brackets and the
     * envelope. Default 64 KiB.
     */
    MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES = 5,
    /**
     * LOG events that are kept, and no more than 64 KiB of text; the oldest are dropped, with a count. Default 256.
     */
    MCP_SUPERVISED_LIMIT_LOG_LINES = 6,
    /**
     * The longest LOG line after escaping, in bytes. Default 4096, from 16 to 1 MiB.
     */
    MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES = 7,
    /**
     * Requests and streams of a peer that may be under way. Default 16384.
     */
    MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT = 8,
} mcp_supervised_limit;

/**
 * What mcp_supervised_state answers.
 */
typedef enum mcp_supervised_peer_state {
    /**
     * Added; or its first start failed.
     */
    MCP_SUPERVISED_STATE_IDLE = 0,
    /**
     * A process runs that does not serve yet. Not in the modes without a handshake.
     */
    MCP_SUPERVISED_STATE_STARTING = 1,
    /**
     * A connection serves.
     */
    MCP_SUPERVISED_STATE_RUNNING = 2,
    /**
     * The connection is ending unasked; its CLOSE is still to come.
     */
    MCP_SUPERVISED_STATE_ENDING = 3,
    /**
     * A replacement is on its way.
     */
    MCP_SUPERVISED_STATE_WAITING = 4,
    /**
     * mcp_supervised_close was called and its DRAIN was not taken: last words are accepted.
     */
    MCP_SUPERVISED_STATE_DRAINING = 5,
    /**
     * The connection is being ended.
     */
    MCP_SUPERVISED_STATE_CLOSING = 6,
    /**
     * Over for good.
     */
    MCP_SUPERVISED_STATE_CLOSED = 7,
} mcp_supervised_peer_state;

/**
 * What an event is about. Ignore kinds you do not know: later versions add some.
 */
typedef enum mcp_supervised_event_kind {
    /**
     * A message of the server: `message_kind`, `method`, `body`, `id`, `error_code`, and the whole line as `payload`. With
     * `request` it belongs to a request or a stream: its answer (MCP_SUPERVISED_FLAG_COMPLETE), its progress, its
     * notifications.
     */
    MCP_SUPERVISED_EVENT_MESSAGE = 1,
    /**
     * A connection ended: `status` is a mcp_supervised_close_reason, `exit_code` or `signal`, `pid`, `life`, `uptime_ms`,
     * `unread_from`; the last lines of stderr as `payload`. With MCP_SUPERVISED_FLAG_WILL_RECONNECT a replacement is coming:
     * `attempt` of `max_restarts`, in `delay_ms`.
     */
    MCP_SUPERVISED_EVENT_CLOSE = 2,
    /**
     * A replacement serves: `pid`, `life`, `attempt`, `era`, and the protocol version as `payload`. Never for the first life.
     * Retained requests and open streams are on their way to it already.
     */
    MCP_SUPERVISED_EVENT_RECONNECT = 3,
    /**
     * Something went wrong: `status`, and the text as `payload` (for MCP_SUPERVISED_E_PROTOCOL without a request, the
     * server's line). With `request` that request or stream ended without an answer (MCP_SUPERVISED_FLAG_COMPLETE). With
     * MCP_SUPERVISED_E_SPAWN a replacement could not be spawned, with MCP_SUPERVISED_E_HANDSHAKE a life did not come to serve, with
     * the server's words; MCP_SUPERVISED_FLAG_WILL_RECONNECT tells of the next try.
     */
    MCP_SUPERVISED_EVENT_ERROR = 4,
    /**
     * The restart budget is spent: `max_restarts`. The peer is closed.
     */
    MCP_SUPERVISED_EVENT_EXHAUSTED = 5,
    /**
     * The first life serves: `pid`, `life`, `era`, and the protocol version as `payload`. Not in MCP_SUPERVISED_MODE_MODERN and
     * MCP_SUPERVISED_MODE_RAW, where start itself says so.
     */
    MCP_SUPERVISED_EVENT_READY = 6,
    /**
     * CLOSE is about to follow. After mcp_supervised_close the connection still takes last words until the next poll.
     */
    MCP_SUPERVISED_EVENT_DRAIN = 7,
    /**
     * A log line as `payload`: `status` is a mcp_supervised_log_level, `count` the lines dropped before it.
     */
    MCP_SUPERVISED_EVENT_LOG = 8,
    /**
     * There is room again after MCP_SUPERVISED_E_WOULD_BLOCK.
     */
    MCP_SUPERVISED_EVENT_WRITABLE = 9,
    /**
     * mcp_supervised_wakeup was called, at least once. Of the handle: `peer` is 0.
     */
    MCP_SUPERVISED_EVENT_WAKEUP = 11,
    /**
     * After mcp_supervised_shutdown every peer is closed. Of the handle: `peer` is 0.
     */
    MCP_SUPERVISED_EVENT_SHUTDOWN = 12,
} mcp_supervised_event_kind;

/**
 * What kind of message a MCP_SUPERVISED_EVENT_MESSAGE is.
 */
typedef enum mcp_supervised_message_kind {
    /**
     * A result; `body` is the value of "result".
     */
    MCP_SUPERVISED_MESSAGE_RESULT = 1,
    /**
     * An error the server answered; `body` is the error object, `error_code` its code.
     */
    MCP_SUPERVISED_MESSAGE_REMOTE_ERROR = 2,
    /**
     * A notification; `body` is the value of "params". With a token as its `request`, which is larger than the id of any request or
     * stream, it is the "notifications/cancelled" by which a server takes back what it has asked.
     */
    MCP_SUPERVISED_MESSAGE_NOTIFICATION = 3,
    /**
     * A request of the server; `body` is the value of "params". On a server of a revision before 2026-07-28 `request` is the
     * token by which mcp_supervised_respond answers it; in raw mode it is 0.
     */
    MCP_SUPERVISED_MESSAGE_REQUEST = 4,
    /**
     * An answer to nothing the library knows of, as after mcp_supervised_send; `body` is its result or its error object and
     * `error_code` 0 for a result. In raw mode a JSON array.
     */
    MCP_SUPERVISED_MESSAGE_UNMATCHED = 5,
} mcp_supervised_message_kind;

/**
 * Why a connection closed: the `status` of a MCP_SUPERVISED_EVENT_CLOSE.
 */
typedef enum mcp_supervised_close_reason {
    /**
     * It ended unasked.
     */
    MCP_SUPERVISED_CLOSE_PEER_LOST = 1,
    /**
     * mcp_supervised_close or mcp_supervised_shutdown asked for it.
     */
    MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST = 2,
    /**
     * There was no connection: the replacement that was promised does not come.
     */
    MCP_SUPERVISED_CLOSE_WITHDRAWN = 3,
} mcp_supervised_close_reason;

/**
 * Which era a connection speaks: the `era` of READY and RECONNECT. 0, in raw mode, is none.
 */
typedef enum mcp_supervised_era {
    /**
     * MCP 2026-07-28.
     */
    MCP_SUPERVISED_ERA_MODERN = 1,
    /**
     * A revision before it, with a handshake.
     */
    MCP_SUPERVISED_ERA_LEGACY = 2,
} mcp_supervised_era;

/**
 * The handle: any number of supervised servers, and the events they lead to. Opaque; made by mcp_supervised_new, ended by
 * mcp_supervised_free. Used by one thread at a time, by whichever.
 */
typedef struct mcp_supervised mcp_supervised;

/**
 * Options for mcp_supervised_new. Opaque; made by mcp_supervised_config_new, freed by mcp_supervised_config_free.
 */
typedef struct mcp_supervised_config mcp_supervised_config;

/**
 * What the connections of a peer are made from: program, arguments, environment, and the rules of supervision. Opaque; made
 * by mcp_supervised_spec_new, copied by mcp_supervised_add, freed by mcp_supervised_spec_free.
 *
 * The setters check pointers and text: E_NULL for a NULL, E_INVALID for text that cannot be used, and the spec is unchanged.
 * Numbers are taken as they are and judged together by mcp_supervised_add, whose error text names the one that is wrong.
 */
typedef struct mcp_supervised_spec mcp_supervised_spec;

/**
 * One event. Fields that an event does not use are 0 or NULL. Ignore flags you do not know.
 *
 * `payload`, `method`, `body` and `id` point into memory of the handle. They are valid until the next call of
 * mcp_supervised_poll or mcp_supervised_free on the handle; no other call ends them. `payload` is UTF-8 and is followed by a
 * NUL that is not counted in its length. The other three are pieces of it as they stand in the server's line: `method`
 * without its quotes and with its escapes, `id` and `body` as raw JSON; they are not followed by a NUL.
 */
typedef struct mcp_supervised_event {
    /**
     * A mcp_supervised_event_kind.
     */
    uint32_t kind;
    /**
     * MCP_SUPERVISED_FLAG_ bits.
     */
    uint32_t flags;
    /**
     * The mcp_supervised_peer, 0 for events of the handle.
     */
    uint64_t peer;
    /**
     * The `user_data` given to mcp_supervised_add.
     */
    uint64_t peer_data;
    /**
     * The request or stream the event belongs to; 0 for none.
     */
    uint64_t request;
    /**
     * What the host gave with that request or stream.
     */
    uint64_t user_data;
    /**
     * A mcp_supervised_status; for CLOSE a mcp_supervised_close_reason, for LOG a mcp_supervised_log_level.
     */
    int32_t status;
    /**
     * A mcp_supervised_message_kind, of MESSAGE events.
     */
    uint32_t message_kind;
    /**
     * The code of the server's error object; 0 if it has none that fits.
     */
    int64_t error_code;
    /**
     * The exit code of the process; -1 in a CLOSE, or an ERROR with E_SPAWN or E_HANDSHAKE, if it did not exit by itself or there
     * was no process.
     */
    int32_t exit_code;
    /**
     * The signal that ended the process, 0 if none did.
     */
    int32_t signal;
    /**
     * The process id, 0 if there is none.
     */
    int32_t pid;
    /**
     * Which connection of the peer, counted from 1.
     */
    uint32_t life;
    /**
     * Which restart of its window, counted from 1; 0 for none.
     */
    uint32_t attempt;
    /**
     * The configured maximum of restarts per window; MCP_SUPERVISED_UNLIMITED as it is, 0 for MCP_SUPERVISED_NO_RESTART.
     */
    uint32_t max_restarts;
    /**
     * Milliseconds from this event to the spawn of the replacement.
     */
    uint64_t delay_ms;
    /**
     * Milliseconds from the spawn to this event.
     */
    uint64_t uptime_ms;
    /**
     * LOG: lines dropped before this one.
     */
    uint64_t count;
    /**
     * CLOSE: the first number given by mcp_supervised_send of which the dead server cannot have read a byte; 0 if there is
     * none, or if that cannot be known, as after the end of stdin was asked for.
     */
    uint64_t unread_from;
    /**
     * READY and RECONNECT: a mcp_supervised_era, 0 in raw mode.
     */
    uint32_t era;
    /**
     * Reserved, 0.
     */
    uint32_t reserved;
    /**
     * Text or line, NUL-terminated.
     */
    const char *payload;
    /**
     * Its length in bytes.
     */
    size_t payload_len;
    /**
     * The method of a message.
     */
    const char *method;
    /**
     * Its length in bytes.
     */
    size_t method_len;
    /**
     * The result, the params or the error object of a message.
     */
    const char *body;
    /**
     * Its length in bytes.
     */
    size_t body_len;
    /**
     * The id of a message, a string with its quotes.
     */
    const char *id;
    /**
     * Its length in bytes.
     */
    size_t id_len;
} mcp_supervised_event;

/**
 * One supervised server inside a handle, through all its lives. 0 is none. Nothing to free, and an id never comes to mean
 * another peer: after mcp_supervised_remove it answers E_NO_PEER.
 */
typedef uint64_t mcp_supervised_peer;

/**
 * Options of one request. Set all to 0 (memset, or `= {0}`), then `size`, then what you need.
 */
typedef struct mcp_supervised_request_options {
    /**
     * sizeof(mcp_supervised_request_options).
     */
    size_t size;
    /**
     * Comes back with every event of the request.
     */
    uint64_t user_data;
    /**
     * Milliseconds without a sign of the request until E_TIMEOUT; 0 is the peer's, MCP_SUPERVISED_NO_TIMEOUT none.
     */
    uint64_t timeout_ms;
    /**
     * Milliseconds from the call until E_TIMEOUT, whatever progress there is; 0 is the peer's, MCP_SUPERVISED_NO_TIMEOUT none.
     * Raised to `timeout_ms` if it is smaller.
     */
    uint64_t max_timeout_ms;
    /**
     * MCP_SUPERVISED_REQUEST_ bits.
     */
    uint32_t flags;
    /**
     * Reserved, 0.
     */
    uint32_t reserved;
} mcp_supervised_request_options;

/**
 * A request of a peer, and the id of its JSON-RPC request: 1, 2, ... per peer, never used twice, through all its lives. Streams
 * have ids of the same row. 0 is none.
 */
typedef uint64_t mcp_supervised_request_id;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The ABI number of the library that is loaded; compare it with MCP_SUPERVISED_ABI_VERSION of the header.
 */
MCP_SUPERVISED_API uint32_t mcp_supervised_abi_version(void);

/**
 * The version of the library that is loaded, for example "0.1.0". Static text, NUL-terminated: nobody frees it.
 */
MCP_SUPERVISED_API const char *mcp_supervised_version(void);

/**
 * The name of a status without its prefix, for example "E_SPAWN"; "?" for a number that is none. Static text,
 * NUL-terminated, never NULL: nobody frees it.
 */
MCP_SUPERVISED_API const char *mcp_supervised_status_name(int32_t status);

/**
 * Makes options with their defaults. `*out` is written on success only; free it with mcp_supervised_config_free. Errors:
 * E_NULL.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_config_new(struct mcp_supervised_config **out);

/**
 * 1: the handle's clock stands still and is moved by mcp_supervised_advance alone; it then rules every timer of the library
 * (restart delay and window, graces, drains). Only the timeout of mcp_supervised_poll and mcp_supervised_free use real
 * time. For tests of hosts. 0, the default: CLOCK_MONOTONIC. Errors: E_NULL.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_config_manual_clock(struct mcp_supervised_config *config, uint32_t on);

/**
 * Which LOG lines of its own the library tells: MCP_SUPERVISED_LOG_ERROR, MCP_SUPERVISED_LOG_WARNING (the default) or
 * MCP_SUPERVISED_LOG_INFO. Lines of the servers' stderr are always told. Another value is E_INVALID from mcp_supervised_new.
 * Errors here: E_NULL.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_config_log_level(struct mcp_supervised_config *config, uint32_t level);

/**
 * 1: where the system has no pidfds (before Linux 5.3, under some sandboxes and tools), install a SIGCHLD handler so that
 * exits are seen at once; without it they are looked for 50 times a second. The handler calls the one that was installed
 * before, and runs on the alternate signal stack, if there is one. It is the only process-wide state the library ever
 * changes, it stays installed, and a host that needs none of it leaves this 0, the default. Errors: E_NULL.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_config_sigchld(struct mcp_supervised_config *config, uint32_t on);

/**
 * Frees options; NULL does nothing. Handles made with them are not touched.
 */
MCP_SUPERVISED_API void mcp_supervised_config_free(struct mcp_supervised_config *config);

/**
 * Makes a handle. `config` may be NULL for the defaults; it is copied. `*out` is written on success only; end it with
 * mcp_supervised_free. On failure a NUL-terminated text is written to `errbuf`, cut to `errbuf_len` bytes; (NULL, 0) if it is
 * not wanted. Errors: E_NULL, E_INVALID (a value of the config), E_IO (no descriptors left).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_new(const struct mcp_supervised_config *config,
                           struct mcp_supervised **out,
                           char *errbuf,
                           size_t errbuf_len);

/**
 * The one descriptor of the handle, to be watched for input (POLLIN) in the host's own loop. It is the same number for the
 * life of the handle and belongs to it: do not read, write, close or change it. When it is readable, call
 * mcp_supervised_poll(handle, ..., 0). It is never silent while that would report or change something, timers included, so
 * no timeout has to be computed; now and then it is readable with nothing to report. A host that watches edges calls poll
 * until it returns fewer than `max_events`.
 *
 * Returns the descriptor, which mcp_supervised_free closes, or a negative status.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_fd(struct mcp_supervised *handle);

/**
 * Drives everything: reads, writes, timers, restarts, reaping. Nothing happens outside it. Makes one turn, then writes up to
 * `max_events` events to `events` and returns how many. What does not fit stays queued, and the descriptor stays readable.
 *
 * `event_size` is sizeof(mcp_supervised_event) as the host was compiled; the elements of the array lie that far apart.
 * `timeout_ms`: 0 does not block; -1 blocks until there is an event or a signal; otherwise it blocks at most that many
 * milliseconds. `max_events` 0 only drives, and `events` may be NULL then. The number of events may be 0 before the time is over:
 * after a signal, and when servers keep the library busy with what leads to no event.
 *
 * The payloads of the events are valid until the next mcp_supervised_poll or mcp_supervised_free on this handle. Events of
 * one peer come in order; peers take turns. Errors: E_NULL (`events`), E_INVALID (`events` not aligned, `event_size` smaller than the first version's,
 * not a multiple of 8 or larger than an array can be; a timeout below -1), E_IO.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_poll(struct mcp_supervised *handle,
                            struct mcp_supervised_event *events,
                            size_t event_size,
                            size_t max_events,
                            int32_t timeout_ms);

/**
 * Makes a poll that is running or the next one return with MCP_SUPERVISED_EVENT_WAKEUP, once however often it is called. From
 * any thread and from a signal handler (errno is kept), also while another thread is inside the handle, until
 * mcp_supervised_free is called.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_wakeup(struct mcp_supervised *handle);

/**
 * Moves a manual clock forward by `ns` nanoseconds; what becomes due happens in the next poll, and the descriptor is readable.
 * Errors: E_INVALID (a handle without mcp_supervised_config_manual_clock).
 */
MCP_SUPERVISED_API int32_t mcp_supervised_advance(struct mcp_supervised *handle, uint64_t ns);

/**
 * The text of the last call on this handle that failed, UTF-8 and NUL-terminated; empty if none did. Borrowed until the next
 * call on the handle. `text_len`, if not NULL, gets its length in bytes without the NUL. A call that succeeds leaves the text as
 * it is, and so do E_BUSY, E_FORKED, E_BAD_HANDLE and E_PANIC. Errors: E_NULL (`text`).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_last_error(struct mcp_supervised *handle,
                                  const char **text,
                                  size_t *text_len);

/**
 * Closes every peer as mcp_supervised_close does, and answers E_CLOSED to later starts and adds. After `grace_ms`
 * milliseconds what is left gets SIGKILL. When the last peer is closed MCP_SUPERVISED_EVENT_SHUTDOWN follows. It goes on only
 * inside mcp_supervised_poll; a host that does not poll any more calls mcp_supervised_free. A second call can only shorten the
 * time. UINT64_MAX: no SIGKILL but that of each peer's own spec.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_shutdown(struct mcp_supervised *handle, uint64_t grace_ms);

/**
 * Ends the handle: closes the stdin of every server, kills every process group, reaps for at most one second in all, closes the
 * descriptor (take it out of your loop before) and frees everything, payloads included. NULL does nothing. In the child of a
 * fork it closes descriptors and frees memory, and touches no server; if another thread was at work inside the handle at the
 * fork, memory and descriptors stay, the latter until an exec. Errors: E_BUSY (another thread is inside the handle),
 * E_BAD_HANDLE; nothing is freed then.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_free(struct mcp_supervised *handle);

/**
 * Makes a spec for a program. A name without a slash is searched in the server's PATH, or in the host's if the server has
 * none; a relative path is taken from the server's working directory. No shell is involved. `*out` is written on success
 * only; free it with mcp_supervised_spec_free. Errors: E_NULL, E_INVALID (the program is empty or has a NUL in it).
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_new(const char *program, size_t program_len, struct mcp_supervised_spec **out);

/**
 * Adds one argument behind the program's name and the arguments added so far. Bytes as they are, without a NUL. May be empty.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_arg(struct mcp_supervised_spec *spec, const char *arg, size_t arg_len);

/**
 * The server's working directory; without it the host's. It is looked at when a process is spawned, so one that is missing
 * is an error of mcp_supervised_start, which names the directory. Bytes as they are, not empty, without a NUL.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_cwd(struct mcp_supervised_spec *spec, const char *dir, size_t dir_len);

/**
 * What the server's environment starts from: a value of mcp_supervised_env_mode.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_env_mode(struct mcp_supervised_spec *spec, uint32_t env_mode);

/**
 * Adds a variable to the server's environment, or replaces one. The environment is put together by mcp_supervised_add, once:
 * every replacement starts with the same. E_INVALID if the name is empty or has "=" or a NUL in it, or the value a NUL; the
 * value may be empty.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_env(struct mcp_supervised_spec *spec,
                                const char *name,
                                size_t name_len,
                                const char *value,
                                size_t value_len);

/**
 * How much of the protocol is spoken: a value of mcp_supervised_mode.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_mode(struct mcp_supervised_spec *spec, uint32_t mode);

/**
 * The restart budget: at most `max_restarts` replacements per window of `window_ms` milliseconds, each `delay_ms` milliseconds
 * after the CLOSE before it. Defaults 3, 100 and 60000. The window opens at the first restart and nothing but its end clears the count: a server that
 * serves one call per life is given up like one that serves none. The next death in the window is told as
 * MCP_SUPERVISED_EVENT_EXHAUSTED.
 *
 * MCP_SUPERVISED_UNLIMITED and MCP_SUPERVISED_NO_RESTART are asked for by name. Refused by mcp_supervised_add: 0 restarts, a
 * window of 0, and `max_restarts * delay_ms >= window_ms`, which would try a server that cannot start for ever.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_restart(struct mcp_supervised_spec *spec,
                                    uint32_t max_restarts,
                                    uint64_t delay_ms,
                                    uint64_t window_ms);

/**
 * How patiently a server is ended by mcp_supervised_close: its stdin ends, `close_grace_ms` milliseconds later its process
 * group gets SIGTERM, `kill_grace_ms` milliseconds after that SIGKILL. Defaults 6000 and 2000. A server that leaves earlier is not waited for.
 * UINT64_MAX: that signal is never sent.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_stop_grace(struct mcp_supervised_spec *spec,
                                       uint64_t close_grace_ms,
                                       uint64_t kill_grace_ms);

/**
 * Sets one bound: `kind` is a mcp_supervised_limit, which tells the unit and the default of `value`.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_limit(struct mcp_supervised_spec *spec, uint32_t kind, uint64_t value);

/**
 * Where the server's stderr goes: a value of mcp_supervised_stderr_mode.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_stderr(struct mcp_supervised_spec *spec, uint32_t stderr_mode);

/**
 * Frees a spec; NULL does nothing. Peers made from it are not touched: they have a copy.
 */
MCP_SUPERVISED_API void mcp_supervised_spec_free(struct mcp_supervised_spec *spec);

/**
 * What servers are told of the host as `clientInfo`, in every request: its name and version, UTF-8, not empty. Without it nothing
 * is told.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_client_info(struct mcp_supervised_spec *spec,
                                        const char *name,
                                        size_t name_len,
                                        const char *version,
                                        size_t version_len);

/**
 * What the host can do for servers, as the JSON text of `clientCapabilities`, told in every request. Default {}. With a
 * non-empty "extensions" in it, results of the extensions' own types are accepted.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_client_capabilities(struct mcp_supervised_spec *spec,
                                                const char *capabilities,
                                                size_t capabilities_len);

/**
 * How long requests wait: `timeout_ms` without a sign of the request (default 60000), `max_timeout_ms` in all (default 600000).
 * 0 is the default, MCP_SUPERVISED_NO_TIMEOUT none, each on its own. Each request may have its own.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_request_timeouts(struct mcp_supervised_spec *spec,
                                             uint64_t timeout_ms,
                                             uint64_t max_timeout_ms);

/**
 * How long a server may take to begin. `probe_timeout_ms` (default 10000) is the time from the spawn for an answer to the
 * question which revision it speaks, in MCP_SUPERVISED_MODE_AUTO; after it the older handshake is tried on the same process, and
 * nothing is killed for it. It is also the time for the question of mcp_supervised_spec_rediscover. `start_timeout_ms` (default 120000)
 * is the time from the spawn until the connection serves; after it the process is ended, which is told as an ERROR with
 * MCP_SUPERVISED_E_HANDSHAKE. 0 is the default, MCP_SUPERVISED_NO_TIMEOUT none, each on its own.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_start_timeouts(struct mcp_supervised_spec *spec,
                                           uint64_t probe_timeout_ms,
                                           uint64_t start_timeout_ms);

/**
 * 1: a request that only reads the server's state and was lost with its connection is sent again to the replacement, under its
 * id and with its deadlines: server/discover, tools/list, prompts/list, prompts/get, resources/list, resources/templates/list,
 * resources/read, completion/complete, unless it carries `inputResponses` or `requestState`. Never tools/call, never another
 * method. Its completion carries MCP_SUPERVISED_FLAG_RETRIED: the dead server may have done the work too. 0, the default: lost
 * requests complete with E_CLOSED.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_retry_lost_requests(struct mcp_supervised_spec *spec, uint32_t on);

/**
 * 1: after a restart the library asks server/discover by itself before the replacement serves, so that server_info and
 * server_capabilities are not stale, and RECONNECT carries MCP_SUPERVISED_FLAG_SERVER_CHANGED if they are not what they were. A
 * server that answers with an error, or not in time (mcp_supervised_spec_start_timeouts), serves all the same, stale. A server of an
 * older revision tells it with its handshake in any case. 0 is the default.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_rediscover(struct mcp_supervised_spec *spec,
                                       uint32_t on);

/**
 * The least severe log messages that servers are asked to send, in every request: "debug", "info", "notice", "warning", "error",
 * "critical", "alert" or "emergency". The empty text, the default: servers send none.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_spec_server_log_level(struct mcp_supervised_spec *spec,
                                             const char *level,
                                             size_t level_len);

/**
 * 1: a host that does not keep up loses notifications instead of stopping the server. Past MCP_SUPERVISED_LIMIT_EVENT_QUEUE
 * notifications are dropped, with a LOG line for the first and every hundredth, and a stream whose notification is dropped ends
 * with E_DELIVERY_DROPPED. Answers are never dropped. 0, the default: the server waits.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_spec_shed(struct mcp_supervised_spec *spec, uint32_t on);

/**
 * Adds a peer made from a spec, which is copied and judged; the caller still frees it. The environment is captured now. Nothing
 * is spawned before mcp_supervised_start. `user_data` comes back with every event of the peer. `*peer` is written on success
 * only; it names the peer until mcp_supervised_remove. Errors: E_INVALID (a value of the spec, named in the text),
 * E_UNSUPPORTED (a working directory, which this C library cannot set), E_CLOSED (after mcp_supervised_shutdown).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_add(struct mcp_supervised *handle,
                           const struct mcp_supervised_spec *spec,
                           uint64_t user_data,
                           mcp_supervised_peer *peer);

/**
 * Spawns the peer's first process. Success is the answer itself; where the connection has to find out or to agree on what is
 * spoken (MCP_SUPERVISED_MODE_AUTO, the default, and MCP_SUPERVISED_MODE_LEGACY), READY tells when it serves, and what is asked
 * for before that waits. Errors: E_SPAWN (the text says what failed:
 * command, directory, descriptors; the peer stays idle, no budget is spent, and start may be called again), E_IO,
 * E_ALREADY_STARTED, E_CLOSED.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_start(struct mcp_supervised *handle, mcp_supervised_peer peer);

/**
 * Sends one raw JSON-RPC line, without tracking it: its answer comes as a MESSAGE, and after a death nothing is sent again.
 * The text is UTF-8 and copied; a line feed is added; line breaks between its tokens become spaces. `*number`, if not NULL, gets
 * the line's number, 1, 2, ... per peer through all lives: CLOSE tells by `unread_from` which ones a dead server cannot have
 * read. It is written on success only.
 *
 * Outside MCP_SUPERVISED_MODE_RAW only notifications are taken, and requests whose id is a string that spells no integer and does
 * not begin with "mcp-supervised-". A connection has to serve first: E_NOT_STARTED until READY.
 * The line may leave with the next poll; the descriptor is then readable. Errors: E_INVALID (no JSON, no JSON-RPC, longer than
 * MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES), E_NOT_STARTED, E_CLOSED (also while a replacement is awaited), E_WOULD_BLOCK (try again
 * after MCP_SUPERVISED_EVENT_WRITABLE), E_UNSUPPORTED (as mcp_supervised_request: the server has said that it cannot do that).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_send(struct mcp_supervised *handle,
                            mcp_supervised_peer peer,
                            const char *line,
                            size_t line_len,
                            uint64_t *number);

/**
 * Ends a peer for good: DRAIN, then, from the poll after the one that handed DRAIN out, what is queued is written, stdin ends,
 * and the graces of the spec run; CLOSE comes last. A replacement that is awaited is withdrawn. Returns at once, and closing
 * again does nothing.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_close(struct mcp_supervised *handle, mcp_supervised_peer peer);

/**
 * Forgets a peer that was never started, or whose event with MCP_SUPERVISED_FLAG_FINAL was handed out. Its id answers E_NO_PEER
 * from now on. Payloads that were handed out stay valid as ever. Errors: E_NOT_CLOSED (any other peer).
 */
MCP_SUPERVISED_API int32_t mcp_supervised_remove(struct mcp_supervised *handle, mcp_supervised_peer peer);

/**
 * The peer's state, a mcp_supervised_peer_state, or a negative status. It is the state right now: events that tell how it
 * came about may still wait to be taken.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_state(struct mcp_supervised *handle, mcp_supervised_peer peer);

/**
 * The process id of the peer's connection, 0 while there is none, or a negative status. The process may have ended already, and
 * the library waits for it: do not signal it, do not wait for it.
 */
MCP_SUPERVISED_API int32_t mcp_supervised_pid(struct mcp_supervised *handle, mcp_supervised_peer peer);

/**
 * Sends a request. `params` is the text of a JSON object; (NULL, 0) stands for {}. It is embedded byte for byte, except that
 * line breaks between tokens become spaces and that `_meta` gets the keys the protocol asks for (the older revisions ask for none); a
 * `_meta` of the host's is merged with them. `options` may be NULL. Everything is copied. `*request` is written on success only.
 *
 * Exactly one event with MCP_SUPERVISED_FLAG_COMPLETE follows: a MESSAGE with the result or the server's error, or an ERROR with
 * E_TIMEOUT, E_CANCELLED, E_CLOSED (the connection ended, or the peer was closed), E_EXHAUSTED or E_PROTOCOL. A request is never
 * sent twice, but for those that only read, and only with mcp_supervised_spec_retry_lost_requests; and for one whose protocol version
 * the server refused (-32022, which says that it did nothing) while naming one that is spoken. Before the first connection serves
 * it waits; its deadlines run.
 *
 * Errors: E_INVALID (bad JSON, two `_meta`, a progressToken in use, a line longer than MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES),
 * E_NOT_STARTED, E_CLOSED (also while a replacement is awaited), E_WOULD_BLOCK, E_UNSUPPORTED (raw mode; or the server has said
 * that it lacks the capability the method needs).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_request(struct mcp_supervised *handle,
                               mcp_supervised_peer peer,
                               const char *method,
                               size_t method_len,
                               const char *params,
                               size_t params_len,
                               const struct mcp_supervised_request_options *options,
                               mcp_supervised_request_id *request);

/**
 * Sends a notification. `params` as in mcp_supervised_request, but nothing is put into it. Nothing tells whether it arrived;
 * what waits for a connection that ends is gone. Errors as mcp_supervised_request.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_notify(struct mcp_supervised *handle,
                              mcp_supervised_peer peer,
                              const char *method,
                              size_t method_len,
                              const char *params,
                              size_t params_len);

/**
 * Opens a stream of notifications with subscriptions/listen. `filter` is the JSON object of what is wanted, for example
 * {"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}. `*stream` is written on success only.
 *
 * A server of an older revision does not have it: there the stream is made of resources/subscribe and of the notifications such a
 * server sends unasked. Its acknowledgement carries MCP_SUPERVISED_FLAG_EMULATED, names what the server has accepted, and comes when
 * the server has answered for every resource; if it has refused all there was, the stream ends with its error.
 *
 * The stream survives restarts: it is opened again under the same id, and each opening is acknowledged by a MESSAGE, which says
 * what this server accepts. What happened in between is lost: read again what you keep. Its notifications are MESSAGE events
 * with its id and `user_data`. It has no deadline. It ends with one event with MCP_SUPERVISED_FLAG_COMPLETE: the server's result
 * or error, E_CANCELLED (with MCP_SUPERVISED_FLAG_BY_PEER if the server cancelled it), E_CLOSED, E_EXHAUSTED or
 * E_DELIVERY_DROPPED. Errors as mcp_supervised_request.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_listen(struct mcp_supervised *handle,
                              mcp_supervised_peer peer,
                              const char *filter,
                              size_t filter_len,
                              uint64_t user_data,
                              mcp_supervised_request_id *stream);

/**
 * Ends a request or a stream. It completes with E_CANCELLED; the server is told, with the reason, if it may have read any of it.
 * A late answer is dropped. `reason` is UTF-8; (NULL, 0) says nothing in particular. E_NO_REQUEST if nothing of that id is under
 * way.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_cancel(struct mcp_supervised *handle,
                              mcp_supervised_peer peer,
                              mcp_supervised_request_id request,
                              const char *reason,
                              size_t reason_len);

/**
 * The server's name and version as it told them in the last handshake or answer to server/discover, the JSON text of its serverInfo,
 * NUL-terminated; an empty text if it was not asked or did not say. Borrowed until the next call on the handle. `text_len` may
 * be NULL. MCP_SUPERVISED_STALE if a restart came after that answer.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_server_info(struct mcp_supervised *handle,
                                   mcp_supervised_peer peer,
                                   const char **text,
                                   size_t *text_len);

/**
 * What the server can do as it told it in the last handshake or answer to server/discover: the JSON text of its capabilities. As
 * mcp_supervised_server_info. While it is not stale, requests that need a capability that is missing in it are refused with
 * E_UNSUPPORTED.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_server_capabilities(struct mcp_supervised *handle,
                                           mcp_supervised_peer peer,
                                           const char **text,
                                           size_t *text_len);

/**
 * Answers a request of the server with a result. `token` is the `request` of its MESSAGE event (kind
 * MCP_SUPERVISED_MESSAGE_REQUEST), `result` the text of a JSON object; (NULL, 0) stands for {}. It is embedded byte for byte,
 * except that line breaks between tokens become spaces. Everything is copied. A token answers once, and only to the connection it
 * came from.
 *
 * Only servers of revisions before 2026-07-28 ask: for roots/list, sampling/createMessage, elicitation/create and what extensions
 * of the client add. What the client capabilities do not declare is refused by the library, and ping answered by it; neither is
 * shown.
 *
 * Errors: E_INVALID (not a JSON object, a line longer than MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES), E_NO_REQUEST (no such token, or it
 * was answered, or the server has taken it back), E_CLOSED (also for a token of a connection that is gone), E_NOT_STARTED,
 * E_WOULD_BLOCK, E_UNSUPPORTED (raw mode, or a server of the present revision, which never asks).
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_respond(struct mcp_supervised *handle,
                               mcp_supervised_peer peer,
                               uint64_t token,
                               const char *result,
                               size_t result_len);

/**
 * Answers a request of the server with an error: its code, a message in UTF-8, and, if `data` is not empty, any JSON text as its
 * data. Otherwise as mcp_supervised_respond.
 */
MCP_SUPERVISED_API
int32_t mcp_supervised_respond_error(struct mcp_supervised *handle,
                                     mcp_supervised_peer peer,
                                     uint64_t token,
                                     int64_t code,
                                     const char *message,
                                     size_t message_len,
                                     const char *data,
                                     size_t data_len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MCP_SUPERVISED_H */
