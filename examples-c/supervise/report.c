#define _POSIX_C_SOURCE 200809L

#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Lines of a dead server's stderr that are told again; they were told before, but perhaps long ago. */
#define LAST_LINES 5

static const char *const TONES[] = {"\033[32m", "\033[31m", "\033[33m", "\033[2m"};

void report_init(struct reporter *r, const struct options *options, struct text *out,
                 const volatile sig_atomic_t *signals) {
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool plain = no_color != NULL && *no_color != '\0';
    bool dumb = term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;
    bool terminal = !dumb && isatty(STDERR_FILENO) == 1;
    *r = (struct reporter){
        .options = options,
        .out = out,
        .signals = signals,
        .patience_ms = 1000,
        .colour = terminal && !plain,
        .terminal = terminal,
    };
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/*
 * Everything in one go, so that lines stay whole. It waits for a slow stderr, but not for long once a signal asks for the
 * end: then what stderr does not take is dropped. A stderr that is closed is the user's choice.
 */
static void write_stderr(struct reporter *r, const struct text *words) {
    const char *at = text_begin(words);
    size_t left = text_len(words);
    while (left > 0) {
        struct pollfd fd = {STDERR_FILENO, POLLOUT, 0};
        int wait_ms = r->patience_ms < 50 ? r->patience_ms : 50;
        if (poll(&fd, 1, wait_ms) <= 0) {
            if (*r->signals > 0) {
                if (r->patience_ms <= 0) {
                    return;
                }
                r->patience_ms -= wait_ms;
            }
            continue;
        }
        ssize_t wrote = write(STDERR_FILENO, at, left < 4096 ? left : 4096);
        if (wrote < 0 && errno != EINTR && errno != EAGAIN) {
            return;
        }
        if (wrote > 0) {
            at += wrote;
            left -= (size_t)wrote;
        }
    }
}

static void begin(const struct reporter *r, struct text *words, enum tone tone) {
    text_put(words, r->colour ? TONES[tone] : "");
    text_put(words, "supervise: ");
}

static void end_line(const struct reporter *r, struct text *words) {
    text_put(words, r->colour ? "\033[0m\n" : "\n");
}

static void tell(struct reporter *r, struct text *words) {
    report_progress_end(r);
    write_stderr(r, words);
    text_free(words);
}

/* Of --call and --list: the first death is the end of it, and there is no replacement to be told of. */
static bool is_over_with_the_server(const struct reporter *r) {
    const struct options *o = r->options;
    return o->mode == CALL || (o->mode == LIST && !o->retry);
}

/* Whether what goes as it should is told, too: on behalf of a client only what does not is. */
static bool tells_routine(const struct reporter *r) {
    return r->options->mode == PASS_LINES || r->options->verbose;
}

/* "exit code 1", "signal SIGKILL". */
static void put_exit(struct text *words, const mcp_supervised_event *e) {
    const char *name = signal_name(e->signal);
    if (e->signal != 0 && name != NULL) {
        text_printf(words, "signal %s", name);
    } else if (e->signal != 0) {
        text_printf(words, "signal %d", (int)e->signal);
    } else if (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) {
        text_put(words, "how is unknown");
    } else {
        text_printf(words, "exit code %d", (int)e->exit_code);
    }
}

static void put_next(const struct reporter *r, struct text *words, const mcp_supervised_event *e) {
    text_printf(words, "restart %" PRIu32, e->attempt);
    if (r->options->max_restarts != MCP_SUPERVISED_UNLIMITED) {
        text_printf(words, " of %" PRIu32, r->options->max_restarts);
    }
    text_put(words, " in ");
    text_duration(words, e->delay_ms);
}

/* The last lines of a text, each behind a bar. */
static void put_last_lines(const struct reporter *r, struct text *words, const char *lines, size_t len) {
    size_t from = len;
    int count = 0;
    while (from > 0 && count < LAST_LINES) {
        do {
            from--;
        } while (from > 0 && lines[from - 1] != '\n');
        count++;
    }
    begin(r, words, QUIET);
    text_put(words, count == 1 ? "its last line on stderr:" : "its last lines on stderr:");
    end_line(r, words);
    while (from < len) {
        const char *end = memchr(lines + from, '\n', len - from);
        size_t line = end != NULL ? (size_t)(end - (lines + from)) : len - from;
        begin(r, words, QUIET);
        text_put(words, "  | ");
        text_add(words, lines + from, line);
        end_line(r, words);
        from += line + 1;
    }
}

static void tell_close(struct reporter *r, const mcp_supervised_event *e, struct unread unread) {
    struct text words = {0};
    bool lost = e->status == MCP_SUPERVISED_CLOSE_PEER_LOST;
    if (e->status == MCP_SUPERVISED_CLOSE_WITHDRAWN) {
        /* Of a budget that is spent everything was said. */
        if (!r->given_up && !is_over_with_the_server(r)) {
            begin(r, &words, QUIET);
            text_put(&words, "no replacement is started any more");
            end_line(r, &words);
        }
    } else if (lost || e->exit_code != 0 || tells_routine(r)) {
        begin(r, &words, lost ? BAD : e->exit_code == 0 ? GOOD : WARNING);
        text_put(&words, lost ? "the server died: " : "the server ended: ");
        put_exit(&words, e);
        text_put(&words, ", after ");
        text_duration(&words, e->uptime_ms);
        text_printf(&words, " (pid %" PRId32 ")", e->pid);
        end_line(r, &words);
        if (e->payload_len > 0 && (lost || e->exit_code > 0)) {
            put_last_lines(r, &words, e->payload, e->payload_len);
        }
    }
    if (unread.count > 0) {
        begin(r, &words, WARNING);
        if (unread.count == 1) {
            text_printf(&words, "it cannot have read line %" PRIu64 " of the input, which", unread.first_line);
            text_put(&words, " was sent to it and is not sent again");
        } else {
            text_printf(&words, "it cannot have read the last %" PRIu64 " lines sent to it, which begin", unread.count);
            text_printf(&words, " with line %" PRIu64 " of the input and are not sent again", unread.first_line);
        }
        end_line(r, &words);
    }
    if ((e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT) && !is_over_with_the_server(r)) {
        begin(r, &words, WARNING);
        put_next(r, &words, e);
        end_line(r, &words);
    }
    tell(r, &words);
}

static void tell_error(struct reporter *r, const mcp_supervised_event *e) {
    struct text words = {0};
    begin(r, &words, e->status == MCP_SUPERVISED_E_MALFORMED ? WARNING : BAD);
    switch (e->status) {
    case MCP_SUPERVISED_E_MALFORMED: text_put(&words, "not passed on, the server wrote no message: "); break;
    case MCP_SUPERVISED_E_SPAWN: text_put(&words, "the replacement could not be started: "); break;
    case MCP_SUPERVISED_E_PROTOCOL: text_put(&words, "the server wrote what this protocol does not allow: "); break;
    default: break;
    }
    /* It may be a line of the server as it came. */
    text_visible(&words, e->payload, e->payload_len, "");
    if (e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT) {
        text_put(&words, "; ");
        put_next(r, &words, e);
    }
    end_line(r, &words);
    tell(r, &words);
}

static void tell_exhausted(struct reporter *r) {
    struct text words = {0};
    if (is_over_with_the_server(r)) {
        return;
    }
    begin(r, &words, BAD);
    if (r->options->max_restarts == MCP_SUPERVISED_NO_RESTART) {
        text_put(&words, "given up: restarts are switched off");
    } else {
        text_printf(&words, "given up: %" PRIu32 " restart%s in ", r->options->max_restarts,
                    r->options->max_restarts == 1 ? "" : "s");
        text_duration(&words, r->options->window_ms);
        text_put(&words, " were not enough");
    }
    end_line(r, &words);
    tell(r, &words);
}

static void tell_log(struct reporter *r, const mcp_supervised_event *e) {
    struct text words = {0};
    bool server = e->status == MCP_SUPERVISED_LOG_SERVER;
    /* The library logs its restarts, which are told in our own words. */
    if (!server && !r->options->verbose) {
        return;
    }
    const char *before = r->colour ? TONES[QUIET] : "";
    const char *after = r->colour ? "\033[0m" : "";
    const char *who = server ? "[server]" : "[library]";
    if (e->count > 0) {
        text_printf(&words, "%s%s (%" PRIu64 " lines left out)%s\n", before, who, e->count, after);
    }
    text_printf(&words, "%s%s%s ", before, who, after);
    text_add(&words, e->payload, e->payload_len);
    text_put(&words, "\n");
    tell(r, &words);
}

/* Of a client: what the server says beside the answers. */
static void tell_message(struct reporter *r, const mcp_supervised_event *e) {
    if (!r->options->verbose || e->request != 0) {
        return;
    }
    struct text words = {0};
    begin(r, &words, QUIET);
    text_put(&words, "beside the answers the server wrote: ");
    text_visible(&words, e->payload, e->payload_len, "");
    end_line(r, &words);
    tell(r, &words);
}

static void say(struct reporter *r, enum tone tone, const char *what, const char *why) {
    struct text words = {0};
    begin(r, &words, tone);
    text_put(&words, what);
    text_put(&words, why);
    end_line(r, &words);
    tell(r, &words);
}

static void put_version(struct text *words, const mcp_supervised_event *e) {
    text_visible(words, e->payload, e->payload_len, "");
    if (e->era == MCP_SUPERVISED_ERA_LEGACY) {
        text_put(words, ", with a handshake");
    }
}

static void tell_event(struct reporter *r, const mcp_supervised_event *e, struct unread unread) {
    struct text words = {0};
    switch (e->kind) {
    case MCP_SUPERVISED_EVENT_MESSAGE: tell_message(r, e); break;
    case MCP_SUPERVISED_EVENT_CLOSE: tell_close(r, e, unread); break;
    case MCP_SUPERVISED_EVENT_ERROR:
        if (e->request == 0) {
            tell_error(r, e);
        } /* what became of a request is told by the client */
        break;
    case MCP_SUPERVISED_EVENT_EXHAUSTED: tell_exhausted(r); break;
    case MCP_SUPERVISED_EVENT_LOG: tell_log(r, e); break;
    case MCP_SUPERVISED_EVENT_READY:
        if (!tells_routine(r)) {
            break;
        }
        begin(r, &words, GOOD);
        text_put(&words, "it speaks MCP ");
        put_version(&words, e);
        end_line(r, &words);
        tell(r, &words);
        break;
    case MCP_SUPERVISED_EVENT_RECONNECT:
        begin(r, &words, GOOD);
        text_printf(&words, "replaced (pid %" PRId32 ")", e->pid);
        if (e->flags & MCP_SUPERVISED_FLAG_SERVER_CHANGED) {
            text_put(&words, " by another server, which speaks MCP ");
            put_version(&words, e);
        }
        end_line(r, &words);
        tell(r, &words);
        break;
    default: break;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void open_object(const struct reporter *r, const char *event) {
    text_put(r->out, "{\"event\":\"");
    text_put(r->out, event);
    text_put(r->out, "\"");
}

static void put_number(const struct reporter *r, const char *name, uint64_t value) {
    text_printf(r->out, ",\"%s\":%" PRIu64, name, value);
}

static void put_string(const struct reporter *r, const char *name, const char *value, size_t len) {
    text_printf(r->out, ",\"%s\":", name);
    text_json(r->out, value, len);
}

static void put_bool(const struct reporter *r, const char *name, bool value) {
    text_printf(r->out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void close_object(const struct reporter *r) {
    text_put(r->out, "}\n");
}

static void put_whose(const struct reporter *r, uint32_t life) {
    put_number(r, "peer", r->peer);
    put_number(r, "life", life);
}

static void put_pid(const struct reporter *r, int32_t pid) {
    text_printf(r->out, ",\"pid\":%" PRId32, pid);
}

/* null where there was no exit code or no signal. */
static void put_how(const struct reporter *r, const mcp_supervised_event *e) {
    if (e->exit_code >= 0) {
        put_number(r, "exit_code", (uint64_t)e->exit_code);
    } else {
        text_put(r->out, ",\"exit_code\":null");
    }
    const char *name = signal_name(e->signal);
    if (e->signal == 0) {
        text_put(r->out, ",\"signal\":null");
    } else if (name != NULL) {
        put_string(r, "signal", name, strlen(name));
    } else {
        text_printf(r->out, ",\"signal\":\"%d\"", (int)e->signal);
    }
    put_bool(r, "exit_unknown", (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) != 0);
}

static void put_max(const struct reporter *r) {
    if (r->options->max_restarts == MCP_SUPERVISED_UNLIMITED) {
        text_put(r->out, ",\"max_restarts\":null");
    } else {
        bool none = r->options->max_restarts == MCP_SUPERVISED_NO_RESTART;
        put_number(r, "max_restarts", none ? 0 : r->options->max_restarts);
    }
}

static void put_promise(const struct reporter *r, const mcp_supervised_event *e) {
    put_bool(r, "will_reconnect", (e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT) != 0);
    put_number(r, "attempt", e->attempt);
    put_max(r);
    put_number(r, "delay_ms", e->delay_ms);
}

static const char *message_kind(uint32_t kind) {
    switch (kind) {
    case MCP_SUPERVISED_MESSAGE_RESULT: return "result";
    case MCP_SUPERVISED_MESSAGE_REMOTE_ERROR: return "error";
    case MCP_SUPERVISED_MESSAGE_NOTIFICATION: return "notification";
    case MCP_SUPERVISED_MESSAGE_REQUEST: return "request";
    case MCP_SUPERVISED_MESSAGE_UNMATCHED: return "unmatched";
    default: return "unknown";
    }
}

static const char *close_reason(int32_t reason) {
    switch (reason) {
    case MCP_SUPERVISED_CLOSE_PEER_LOST: return "peer_lost";
    case MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST: return "closed_by_host";
    case MCP_SUPERVISED_CLOSE_WITHDRAWN: return "withdrawn";
    default: return "unknown";
    }
}

static const char *log_level(int32_t level) {
    switch (level) {
    case MCP_SUPERVISED_LOG_SERVER: return "server";
    case MCP_SUPERVISED_LOG_ERROR: return "error";
    case MCP_SUPERVISED_LOG_WARNING: return "warning";
    case MCP_SUPERVISED_LOG_INFO: return "info";
    default: return "unknown";
    }
}

/* Of what belongs to a request or a stream. */
static void put_request(const struct reporter *r, const mcp_supervised_event *e) {
    if (e->request == 0) {
        return;
    }
    put_number(r, "request", e->request);
    put_bool(r, "complete", (e->flags & MCP_SUPERVISED_FLAG_COMPLETE) != 0);
    if (e->flags & MCP_SUPERVISED_FLAG_COMPLETE) {
        put_bool(r, "retried", (e->flags & MCP_SUPERVISED_FLAG_RETRIED) != 0);
        put_bool(r, "unread", (e->flags & MCP_SUPERVISED_FLAG_UNREAD) != 0);
    }
}

static void write_message(const struct reporter *r, const mcp_supervised_event *e) {
    open_object(r, "message");
    const char *kind = message_kind(e->message_kind);
    put_string(r, "kind", kind, strlen(kind));
    put_whose(r, r->life);
    put_request(r, e);
    /* As it came: its whole grammar was checked, see the limit set in supervise.c. */
    text_put(r->out, ",\"line\":");
    text_add(r->out, e->payload, e->payload_len);
    close_object(r);
}

static void write_close(const struct reporter *r, const mcp_supervised_event *e, struct unread unread) {
    const char *reason = close_reason(e->status);
    open_object(r, "close");
    put_string(r, "reason", reason, strlen(reason));
    put_whose(r, e->life);
    put_pid(r, e->pid);
    put_how(r, e);
    put_number(r, "uptime_ms", e->uptime_ms);
    put_promise(r, e);
    put_number(r, "unread_lines", unread.count);
    put_number(r, "unread_from_line", unread.first_line);
    put_string(r, "stderr", e->payload, e->payload_len);
}

static void write_error(const struct reporter *r, const mcp_supervised_event *e) {
    const char *status = mcp_supervised_status_name(e->status);
    open_object(r, "error");
    put_string(r, "status", status, strlen(status));
    put_whose(r, e->life != 0 ? e->life : r->life);
    put_string(r, "text", e->payload, e->payload_len);
    put_request(r, e);
    if (e->request == 0) {
        put_promise(r, e);
    }
}

/* Nothing where lines are only passed through. */
static void put_spoken(const struct reporter *r, const mcp_supervised_event *e) {
    const char *era = e->era == MCP_SUPERVISED_ERA_LEGACY ? "legacy" : "modern";
    if (e->era != 0) {
        put_string(r, "era", era, strlen(era));
        put_string(r, "version", e->payload, e->payload_len);
    }
}

static void write_event(const struct reporter *r, const mcp_supervised_event *e, struct unread unread) {
    const char *level;
    switch (e->kind) {
    case MCP_SUPERVISED_EVENT_MESSAGE: write_message(r, e); return;
    case MCP_SUPERVISED_EVENT_CLOSE: write_close(r, e, unread); break;
    case MCP_SUPERVISED_EVENT_ERROR: write_error(r, e); break;
    case MCP_SUPERVISED_EVENT_READY:
        open_object(r, "ready");
        put_whose(r, e->life);
        put_pid(r, e->pid);
        put_spoken(r, e);
        break;
    case MCP_SUPERVISED_EVENT_RECONNECT:
        open_object(r, "reconnect");
        put_whose(r, e->life);
        put_pid(r, e->pid);
        put_number(r, "attempt", e->attempt);
        put_spoken(r, e);
        break;
    case MCP_SUPERVISED_EVENT_EXHAUSTED:
        open_object(r, "exhausted");
        put_whose(r, r->life);
        put_max(r);
        break;
    case MCP_SUPERVISED_EVENT_DRAIN:
        open_object(r, "drain");
        put_whose(r, r->life);
        break;
    case MCP_SUPERVISED_EVENT_WRITABLE:
        open_object(r, "writable");
        put_whose(r, r->life);
        break;
    case MCP_SUPERVISED_EVENT_LOG:
        level = log_level(e->status);
        open_object(r, "log");
        put_string(r, "level", level, strlen(level));
        put_whose(r, r->life);
        put_number(r, "dropped", e->count);
        put_string(r, "text", e->payload, e->payload_len);
        break;
    default: return;
    }
    put_bool(r, "final", (e->flags & MCP_SUPERVISED_FLAG_FINAL) != 0);
    close_object(r);
}

/* ---- Either ------------------------------------------------------------------------------------------------------ */

void report_started(struct reporter *r) {
    const char *program = r->options->command[0];
    if (r->options->json) {
        open_object(r, "started");
        put_whose(r, r->life);
        put_pid(r, r->pid);
        close_object(r);
        return;
    }
    if (!tells_routine(r)) {
        return;
    }
    struct text words = {0};
    begin(r, &words, GOOD);
    text_put(&words, "started ");
    text_put(&words, program);
    text_printf(&words, " (pid %" PRId32 ")", r->pid);
    end_line(r, &words);
    tell(r, &words);
}

void report_not_started(struct reporter *r, int32_t status, const char *why) {
    if (!r->options->json) {
        say(r, BAD, "the server could not be started: ", why);
        return;
    }
    const char *name = mcp_supervised_status_name(status);
    open_object(r, "error");
    put_string(r, "status", name, strlen(name));
    put_string(r, "text", why, strlen(why));
    close_object(r);
}

void report_event(struct reporter *r, const mcp_supervised_event *e, struct unread unread) {
    if (e->kind == MCP_SUPERVISED_EVENT_RECONNECT) {
        r->life = e->life;
        r->pid = e->pid;
    }
    if (r->options->json) {
        write_event(r, e, unread);
    } else if (e->kind == MCP_SUPERVISED_EVENT_MESSAGE && r->options->mode == PASS_LINES) {
        text_add(r->out, e->payload, e->payload_len);
        text_add(r->out, "\n", 1);
    } else {
        tell_event(r, e, unread);
    }
    if (e->kind == MCP_SUPERVISED_EVENT_EXHAUSTED) {
        r->given_up = true;
    }
}

void report_request(struct reporter *r, uint64_t id, const char *method) {
    if (r->options->json) {
        open_object(r, "request");
        put_whose(r, r->life);
        put_number(r, "request", id);
        put_string(r, "method", method, strlen(method));
        close_object(r);
    }
}

void report_words(struct reporter *r, enum tone tone, struct text *words) {
    if (!r->options->json) {
        struct text line = {0};
        begin(r, &line, tone);
        text_add(&line, text_begin(words), text_len(words));
        end_line(r, &line);
        tell(r, &line);
    }
    text_free(words);
}

/* How many bytes of a text fit into so many columns. */
static size_t fitting(const struct text *text, size_t columns) {
    const char *at = text_begin(text);
    size_t len = text_len(text);
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        /* The bytes behind the first one of a character take no column of their own. */
        used += ((unsigned char)at[i] & 0xc0) != 0x80;
        if (used > columns) {
            return i;
        }
    }
    return len;
}

void report_progress(struct reporter *r, struct text *words) {
    if (r->options->verbose || !r->terminal || r->options->json) {
        if (r->options->verbose) {
            report_words(r, QUIET, words);
        }
        text_free(words);
        return;
    }
    struct winsize size = {0};
    size_t columns = 79;
    /* The last column stays free: some terminals break the line behind it. */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
        columns = (size_t)size.ws_col - 1;
    }
    struct text line = {0};
    text_put(&line, "\r\033[K");
    text_add(&line, text_begin(words), fitting(words, columns));
    r->progress_shown = true;
    write_stderr(r, &line);
    text_free(&line);
    text_free(words);
}

void report_progress_end(struct reporter *r) {
    if (!r->progress_shown) {
        return;
    }
    struct text line = {0};
    r->progress_shown = false;
    text_put(&line, "\r\033[K");
    write_stderr(r, &line);
    text_free(&line);
}

void report_refused(struct reporter *r, uint64_t line, int32_t status, const char *why) {
    if (r->options->json) {
        const char *name = mcp_supervised_status_name(status);
        open_object(r, "refused");
        put_number(r, "input_line", line);
        put_string(r, "status", name, strlen(name));
        put_string(r, "text", why, strlen(why));
        close_object(r);
        return;
    }
    struct text words = {0};
    begin(r, &words, WARNING);
    text_printf(&words, "line %" PRIu64 " of the input is left out: ", line);
    text_put(&words, why);
    end_line(r, &words);
    tell(r, &words);
}

static void put_grace(struct text *words, const char *signal, uint64_t ms) {
    if (ms == UINT64_MAX) {
        text_printf(words, "no %s", signal);
    } else {
        text_printf(words, "%s after ", signal);
        text_duration(words, ms);
    }
}

void report_closing(struct reporter *r, const char *why) {
    if (r->options->json) {
        open_object(r, "closing");
        put_string(r, "why", why, strlen(why));
        close_object(r);
        return;
    }
    if (!tells_routine(r)) {
        return;
    }
    struct text words = {0};
    begin(r, &words, QUIET);
    text_put(&words, why);
    text_put(&words, ": ending the server (");
    put_grace(&words, "SIGTERM", r->options->close_grace_ms);
    text_put(&words, ", ");
    put_grace(&words, "SIGKILL", r->options->kill_grace_ms);
    text_put(&words, r->options->kill_grace_ms == UINT64_MAX ? ")" : " more)");
    end_line(r, &words);
    tell(r, &words);
}

void report_end(struct reporter *r, int exit_status, uint64_t unsent) {
    if (r->options->json) {
        open_object(r, "end");
        put_number(r, "exit_status", (uint64_t)exit_status);
        put_number(r, "unsent_lines", unsent);
        close_object(r);
        return;
    }
    if (unsent > 0) {
        struct text words = {0};
        begin(r, &words, WARNING);
        text_printf(&words, "%" PRIu64 " line%s of the input %s not sent", unsent, unsent == 1 ? "" : "s",
                    unsent == 1 ? "was" : "were");
        end_line(r, &words);
        tell(r, &words);
    }
}

void report_trouble(struct reporter *r, const char *what, const char *why) {
    say(r, BAD, what, why);
}
