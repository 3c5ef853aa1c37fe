/*
 * supervise: runs one MCP server, starts it again when it dies, and passes lines between it and its own standard
 * streams.
 *
 *     supervise [OPTION]... [--] PROGRAM [ARGUMENT]...
 *
 * `supervise --help` is the manual. This file is the loop; supervise/options.c reads the command line,
 * supervise/report.c tells what happens, supervise/text.c holds the bytes. Asked to list, to call or to listen it is the
 * client itself, which supervise/client.c is, with supervise/json.c as its reader; then there is no stdin.
 *
 * The library drives the server and says by one descriptor when it wants to go on. Next to it the loop watches stdin and
 * stdout, and nothing in it blocks: a reader of stdout that is slow holds the server back (its events are not taken, so
 * the library does not read it), and a signal gets through all the same.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mcp_supervised.h>

#include "supervise/client.h"
#include "supervise/options.h"
#include "supervise/report.h"
#include "supervise/text.h"

#define MAX_EVENTS 64
#define READ_BYTES ((size_t)64 << 10)
/* A blocking descriptor of which poll(2) says that it is writable takes as much without blocking. */
#define WRITE_BYTES ((size_t)4096)
/* Output that waits before events are left with the library. */
#define OUT_BYTES ((size_t)256 << 10)
/* How often the library is driven while its events are not taken: its descriptor is readable all the time then. */
#define DRIVE_MS 50
/* What stdout gets, behind the graces of the server, to take the rest after a signal. */
#define LAST_OUTPUT_MS 2000

/* The first send number from which on numbers and input lines lie `line - number` apart. */
struct stretch {
    uint64_t number;
    uint64_t line;
};

struct host {
    const struct options *options;
    mcp_supervised *handle;
    mcp_supervised_peer peer;
    struct reporter report;
    struct client client;

    struct text in;   /* read from stdin and not sent */
    size_t looked;    /* so far there is no line feed in `in` */
    uint64_t line;    /* input lines that are done with */
    bool skipping;    /* the rest of a line that is too long */
    bool at_end;      /* of stdin */
    bool waits;       /* for RECONNECT or WRITABLE, before anything else is sent */

    uint64_t number;            /* of the last line sent */
    struct stretch *stretches;  /* of the lines sent to this connection */
    size_t stretch_count;
    size_t stretch_room;

    struct text out;  /* for stdout */
    bool out_gone;    /* stdout takes nothing any more */

    bool closing;     /* the end was asked for */
    bool drained;     /* and DRAIN was taken since */
    bool over;        /* the peer's last event was taken */
    bool signalled;
    uint64_t give_up_at; /* when to stop waiting for stdout; UINT64_MAX: never */
    int status;
};

/* All that the signal handler knows. */
static mcp_supervised *volatile woken_handle;
static volatile sig_atomic_t signals;
static volatile sig_atomic_t first_signal;

static void on_signal(int number) {
    int saved = errno;
    if (signals == 0) {
        first_signal = number;
    }
    if (signals < 2) {
        signals++;
    }
    /* The loop may be just about to wait: this makes the handle's descriptor readable. */
    mcp_supervised_wakeup(woken_handle);
    errno = saved;
}

static void catch_signals(void) {
    static const int NUMBERS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: a call that blocks must end */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        sigaddset(&action.sa_mask, NUMBERS[i]);
    }
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        struct sigaction before;
        /* nohup and shells have some ignored, and mean it. */
        if (sigaction(NUMBERS[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(NUMBERS[i], &action, NULL);
        }
    }
    /* A reader that goes away is told by EPIPE. The servers get the default again from the library. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Kills what is left of the server and exits. */
static void leave(struct host *host, int status) {
    /* From here on the handler must not touch the handle. */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    mcp_supervised_free(host->handle);
    exit(status);
}

static const char *last_error(const struct host *host) {
    const char *text = "";
    mcp_supervised_last_error(host->handle, &text, NULL);
    return text;
}

/* For calls that can only fail by a mistake in this program or the library, or for want of something basic. */
static int32_t check(struct host *host, const char *call, int32_t status) {
    if (status < 0) {
        const char *text = last_error(host);
        report_trouble(&host->report, call, *text != '\0' ? text : mcp_supervised_status_name(status));
        leave(host, ENDED_ROUGHLY);
    }
    return status;
}

static void begin_closing(struct host *host, const char *why) {
    if (!host->closing) {
        host->closing = true;
        report_closing(&host->report, why);
        check(host, "close: ", mcp_supervised_close(host->handle, host->peer));
    }
}

/* ---- stdout ------------------------------------------------------------------------------------------------------ */

static void stdout_is_gone(struct host *host, int error) {
    host->out_gone = true;
    host->status = ENDED_ROUGHLY;
    text_free(&host->out);
    report_trouble(&host->report, "stdout cannot be written: ", strerror(error));
    begin_closing(host, "nobody reads stdout");
}

/* Writes as long as stdout takes it at once. */
static void write_out(struct host *host, short seen) {
    if (host->out_gone) {
        return;
    }
    if (seen & POLLNVAL) {
        stdout_is_gone(host, EBADF);
        return;
    }
    /* Without a line to write, too: a pipe whose reader has left is the end of the whole thing. So is a terminal. */
    if (seen & (POLLERR | POLLHUP)) {
        stdout_is_gone(host, EPIPE);
        return;
    }
    while (text_len(&host->out) > 0) {
        struct pollfd fd = {STDOUT_FILENO, POLLOUT, 0};
        if (poll(&fd, 1, 0) <= 0) {
            return;
        }
        size_t len = text_len(&host->out);
        ssize_t wrote = write(STDOUT_FILENO, text_begin(&host->out), len < WRITE_BYTES ? len : WRITE_BYTES);
        if (wrote < 0) {
            if (errno != EINTR && errno != EAGAIN) {
                stdout_is_gone(host, errno);
            }
            return;
        }
        text_take(&host->out, (size_t)wrote);
    }
}

/* ---- stdin ------------------------------------------------------------------------------------------------------- */

static void read_in(struct host *host) {
    ssize_t got = read(STDIN_FILENO, text_reserve(&host->in, READ_BYTES), READ_BYTES);
    if (got > 0) {
        text_grew(&host->in, (size_t)got);
    } else if (got == 0) {
        host->at_end = true;
    } else if (errno != EINTR && errno != EAGAIN) {
        report_trouble(&host->report, "stdin cannot be read: ", strerror(errno));
        host->at_end = true;
    }
}

/* Remembers which input line a number is, as long as the server that got it lives. */
static void note_sent(struct host *host, uint64_t number) {
    const struct stretch *last = host->stretch_count > 0 ? &host->stretches[host->stretch_count - 1] : NULL;
    host->number = number;
    if (last != NULL && host->line - last->line == number - last->number) {
        return;
    }
    if (host->stretch_count == host->stretch_room) {
        size_t room = host->stretch_room * 2 + 8;
        struct stretch *more = realloc(host->stretches, room * sizeof *more);
        if (more == NULL) {
            report_trouble(&host->report, "out of memory", "");
            leave(host, ENDED_ROUGHLY);
            return;
        }
        host->stretches = more;
        host->stretch_room = room;
    }
    host->stretches[host->stretch_count++] = (struct stretch){number, host->line};
}

static struct unread count_unread(const struct host *host, uint64_t from) {
    struct unread unread = {0, 0};
    if (from == 0 || from > host->number) {
        return unread;
    }
    unread.count = host->number - from + 1;
    for (size_t i = 0; i < host->stretch_count && host->stretches[i].number <= from; i++) {
        unread.first_line = host->stretches[i].line + (from - host->stretches[i].number);
    }
    return unread;
}

static bool is_blank(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (strchr(" \t\r\f", line[i]) == NULL || line[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* Passes one line on; false if it has to wait. */
static bool send_line(struct host *host, const char *line, size_t len) {
    /*
     * Another process than the one we were told of last: its RECONNECT is on its way. Waiting for it keeps apart what was
     * sent to which, so that CLOSE's number can be turned into a count.
     */
    if (mcp_supervised_pid(host->handle, host->peer) != host->report.pid) {
        host->waits = true;
        return false;
    }
    uint64_t number = 0;
    int32_t status = mcp_supervised_send(host->handle, host->peer, line, len, &number);
    switch (status) {
    case MCP_SUPERVISED_E_CLOSED:
    case MCP_SUPERVISED_E_WOULD_BLOCK: host->waits = true; return false;
    case MCP_SUPERVISED_E_INVALID: report_refused(&host->report, host->line + 1, status, last_error(host)); break;
    default:
        check(host, "send: ", status);
        host->line++;
        note_sent(host, number);
        return true;
    }
    host->line++;
    return true;
}

/* Takes a line, or a piece of one, from the input. */
static void take_in(struct host *host, size_t len) {
    text_take(&host->in, len);
    host->looked = 0;
}

/* Sends the lines that are there. */
static void forward(struct host *host) {
    while (!host->closing && !host->waits) {
        const char *at = text_begin(&host->in);
        size_t have = text_len(&host->in);
        const char *feed = have > host->looked ? memchr(at + host->looked, '\n', have - host->looked) : NULL;
        size_t len = feed != NULL ? (size_t)(feed - at) : have;
        size_t used = feed != NULL ? len + 1 : len;
        host->looked = have;
        if (host->skipping) {
            host->skipping = feed == NULL;
            host->line += feed != NULL;
        } else if (feed == NULL && have > host->options->max_queue) {
            /* It cannot be sent whatever follows, so it need not be kept. */
            report_refused(&host->report, host->line + 1, MCP_SUPERVISED_E_INVALID, "it is longer than --max-queue");
            host->skipping = true;
        } else if (feed == NULL && !(host->at_end && have > 0)) {
            return;
        } else if (is_blank(at, len)) {
            host->line++;
        } else if (!send_line(host, at, len)) {
            host->looked = len;
            return;
        }
        take_in(host, used);
        if (feed == NULL) {
            return;
        }
    }
}

/* Lines that were read and not sent. */
static uint64_t count_unsent(const struct host *host) {
    const char *at = text_begin(&host->in);
    const char *end = at + text_len(&host->in);
    uint64_t lines = 0;
    for (const char *next; at < end; at = next + 1) {
        next = memchr(at, '\n', (size_t)(end - at));
        if (next == NULL) {
            /* Of an unended line nobody knows whether it is one, unless this is the end. */
            return lines + (host->at_end && !host->skipping);
        }
        lines += !is_blank(at, (size_t)(next - at));
    }
    return lines;
}

/* ---- The server -------------------------------------------------------------------------------------------------- */

static void peer_is_over(struct host *host) {
    host->over = true;
    host->closing = true; /* there is nothing left to close */
}

/* A client whose call is lost with the last life has said so; that there is no other life is nothing to it. */
static void given_up(struct host *host) {
    if (host->options->mode == PASS_LINES || !host->client.done) {
        host->status = EXHAUSTED;
    }
}

static void handle_event(struct host *host, const mcp_supervised_event *e) {
    struct unread unread = {0, 0};
    switch (e->kind) {
    case MCP_SUPERVISED_EVENT_CLOSE: unread = count_unread(host, e->unread_from); break;
    case MCP_SUPERVISED_EVENT_DRAIN: host->drained = host->closing; break;
    case MCP_SUPERVISED_EVENT_EXHAUSTED: given_up(host); break;
    case MCP_SUPERVISED_EVENT_RECONNECT:
        host->stretch_count = 0;
        host->waits = false;
        break;
    case MCP_SUPERVISED_EVENT_WRITABLE: host->waits = false; break;
    default: break;
    }
    report_event(&host->report, e, unread);
    if (host->options->mode != PASS_LINES && e->peer == host->peer) {
        client_event(&host->client, e);
    }
    if (e->peer == host->peer && (e->flags & MCP_SUPERVISED_FLAG_FINAL)) {
        peer_is_over(host);
    }
}

/* Lets the library work; takes up to `max` of its events. */
static void drive(struct host *host, size_t max) {
    mcp_supervised_event events[MAX_EVENTS];
    int32_t count = check(host, "poll: ", mcp_supervised_poll(host->handle, events, sizeof events[0], max, 0));
    for (int32_t i = 0; i < count; i++) {
        handle_event(host, &events[i]);
    }
}

/* Gives `spec` what the command line said. A value that the library refuses is a mistake in the command line. */
static void describe(struct host *host, mcp_supervised_spec *spec) {
    const struct options *o = host->options;
    int32_t ok = 0;
    for (char **argument = o->command + 1; ok == 0 && *argument != NULL; argument++) {
        ok = mcp_supervised_spec_arg(spec, *argument, MCP_SUPERVISED_CSTR);
    }
    for (size_t i = 0; ok == 0 && i < o->env_count; i++) {
        const char *value = strchr(o->env[i], '=') + 1;
        ok = mcp_supervised_spec_env(spec, o->env[i], (size_t)(value - o->env[i]) - 1, value, MCP_SUPERVISED_CSTR);
    }
    if (ok == 0 && o->cwd != NULL) {
        ok = mcp_supervised_spec_cwd(spec, o->cwd, MCP_SUPERVISED_CSTR);
    }
    check(host, "spec: ", ok);
    if (o->mode == PASS_LINES) {
        check(host, "spec: ", mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_RAW));
    } else {
        const char *version = mcp_supervised_version();
        check(host, "spec: ", mcp_supervised_spec_mode(spec, o->speak != 0 ? o->speak : MCP_SUPERVISED_MODE_AUTO));
        check(host, "spec: ",
              mcp_supervised_spec_client_info(spec, "supervise", MCP_SUPERVISED_CSTR, version, MCP_SUPERVISED_CSTR));
        check(host, "spec: ", mcp_supervised_spec_retry_lost_requests(spec, o->retry));
    }
    check(host, "spec: ", mcp_supervised_spec_env_mode(spec, o->env_mode));
    check(host, "spec: ", mcp_supervised_spec_stderr(spec, o->stderr_mode));
    check(host, "spec: ", mcp_supervised_spec_restart(spec, o->max_restarts, o->delay_ms, o->window_ms));
    check(host, "spec: ", mcp_supervised_spec_stop_grace(spec, o->close_grace_ms, o->kill_grace_ms));
    check(host, "spec: ", mcp_supervised_spec_limit(spec, MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, o->max_queue));
    if (o->json || o->mode != PASS_LINES) {
        /* The server's lines become part of ours, or are read, so the whole grammar of long ones has to be right as well. */
        check(host, "spec: ", mcp_supervised_spec_limit(spec, MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES, (uint64_t)1 << 30));
    }
}

static void start(struct host *host) {
    mcp_supervised_spec *spec = NULL;
    if (mcp_supervised_spec_new(host->options->command[0], MCP_SUPERVISED_CSTR, &spec) < 0) {
        usage_error("the program's name is empty");
    }
    describe(host, spec);
    int32_t status = mcp_supervised_add(host->handle, spec, 0, &host->peer);
    if (status == MCP_SUPERVISED_E_INVALID) {
        usage_error("%s", last_error(host));
    }
    mcp_supervised_spec_free(spec);
    if (status >= 0) {
        status = mcp_supervised_start(host->handle, host->peer);
    }
    if (status < 0) {
        report_not_started(&host->report, status, last_error(host));
        host->status = NOT_STARTED;
        peer_is_over(host);
        return;
    }
    host->report.peer = host->peer;
    host->report.life = 1;
    host->report.pid = mcp_supervised_pid(host->handle, host->peer);
    report_started(&host->report);
    client_begin(&host->client, host->peer);
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

static void mind_signals(struct host *host) {
    if (signals > 1) {
        report_trouble(&host->report, "second signal: the server is killed", "");
        leave(host, ENDED_ROUGHLY);
    }
    if (signals == 1 && !host->signalled) {
        host->signalled = true;
        uint64_t graces = host->over ? 0 : plus(host->options->close_grace_ms, host->options->kill_grace_ms);
        host->give_up_at = plus(now_ms(), plus(graces, LAST_OUTPUT_MS));
        if (host->options->mode != PASS_LINES) {
            client_interrupt(&host->client);
        }
        begin_closing(host, signal_name(first_signal));
    }
}

/* One turn: waits until something can go on, and does it. */
static void turn(struct host *host) {
    if (host->out_gone) {
        /* It can be over with nothing left that would end the wait below. */
        text_free(&host->out);
    }
    /*
     * Output that waits is no reason to leave the events up to DRAIN where they are once a signal asked for the end:
     * before it is taken, the ending does not begin. What is queued before it is bounded.
     */
    bool stuck = text_len(&host->out) >= OUT_BYTES && !(host->signalled && !host->drained && !host->over);
    bool passes_lines = host->options->mode == PASS_LINES;
    bool reads = passes_lines && !host->at_end && !host->waits && !host->closing;
    struct pollfd fds[3] = {
        {stuck ? -1 : mcp_supervised_fd(host->handle), POLLIN, 0},
        {reads ? STDIN_FILENO : -1, POLLIN, 0},
        {host->out_gone ? -1 : STDOUT_FILENO, text_len(&host->out) > 0 ? POLLOUT : 0, 0},
    };
    bool looks_again = stuck || host->give_up_at != UINT64_MAX;
    if (poll(fds, 3, looks_again ? DRIVE_MS : -1) < 0) {
        if (errno != EINTR && errno != EAGAIN) {
            report_trouble(&host->report, "poll(2): ", strerror(errno));
            leave(host, ENDED_ROUGHLY);
        }
        fds[0].revents = fds[1].revents = fds[2].revents = 0;
    }
    mind_signals(host);
    write_out(host, fds[2].revents);
    if (fds[1].revents != 0) {
        read_in(host);
    }
    if (stuck) {
        drive(host, 0);
    } else if (fds[0].revents != 0) {
        drive(host, MAX_EVENTS);
    }
    /* After the events, which may have brought back what it waited for. */
    if (passes_lines) {
        forward(host);
    } else if (host->client.done) {
        write_out(host, 0); /* the result first, then what is told of the end */
        begin_closing(host, "done");
    }
    if (host->at_end && !host->waits && text_len(&host->in) == 0) {
        begin_closing(host, "end of input");
    }
    if (text_len(&host->out) > 0 && now_ms() >= host->give_up_at) {
        report_trouble(&host->report, "stdout takes nothing: the rest of the output is dropped", "");
        leave(host, ENDED_ROUGHLY);
    }
}

/* A program started with one of them closed must not get the handle's descriptors in its place. */
static void keep_standard_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) {
            exit(ENDED_ROUGHLY);
        }
    }
}

int main(int argc, char **argv) {
    keep_standard_descriptors();
    struct options options;
    options_parse(&options, argc, argv);

    struct host host = {.options = &options, .give_up_at = UINT64_MAX, .status = ENDED_WELL};
    report_init(&host.report, &options, &host.out, &signals);
    if (mcp_supervised_abi_version() != MCP_SUPERVISED_ABI_VERSION) {
        report_trouble(&host.report, "the library has another ABI than this program was made for", "");
        return ENDED_ROUGHLY;
    }
    char why[256];
    if (mcp_supervised_new(NULL, &host.handle, why, sizeof why) < 0) {
        report_trouble(&host.report, "no handle: ", why);
        return ENDED_ROUGHLY;
    }
    client_init(&host.client, &options, &host.report, &host.out, host.handle);
    woken_handle = host.handle;
    catch_signals();
    start(&host);

    while (!host.over) {
        turn(&host);
    }
    if (host.client.done && host.status == ENDED_WELL) {
        host.status = host.client.status;
    }
    report_end(&host.report, host.status, count_unsent(&host));
    while (text_len(&host.out) > 0 && !host.out_gone) {
        turn(&host);
    }
    client_free(&host.client);
    text_free(&options.filter);
    text_free(&host.in);
    text_free(&host.out);
    free(host.stretches);
    free(options.env);
    leave(&host, host.status);
}
