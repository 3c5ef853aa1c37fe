/*
 * A host around an epoll loop of its own, in which the library is one descriptor among others.
 *
 *     epoll_loop [--edge] [COMMAND [ARGUMENT]...]
 *
 * The loop watches three things: the descriptor of the handle (with --edge for edges, otherwise for levels), a timer of the host
 * that calls the tool "pid" of an MCP server at every tick (without arguments the demo server), and the socket of a client that
 * asks for calls of its own, as lines "TOOL ARGUMENTS". In the middle of it the server crashes: the client is told that its call
 * is lost, and its next line waits for the replacement. Exits with 0 if everything was seen that belongs to this.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mcp_supervised.h>

#ifndef DEMO_SERVER
#define DEMO_SERVER "mcp-supervised-demo-server"
#endif

#define MAX_EVENTS 16
#define TICK_MS 50
#define MAX_TICKS 1200 /* a minute: then something hangs */
#define ENOUGH 3       /* ticks that each life has to answer */
#define CRASH_CODE 7

/* What every request of MCP 2026-07-28 carries. */
#define META                                                           \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* What an event of our epoll is about. */
enum source { SUPERVISED, TICK, CLIENT };

/* What has to be seen. */
enum fact { TICKS, CALLED, CRASHED, LOST, REPLACED, TICKS_AGAIN, CALLED_AGAIN, CLIENT_LEFT, ENDED, ALL };

static const char *const FACTS[] = {
    "ticks answered by the first life", "a call of the client",
    "the CLOSE of the crashed server",  "the client's lost call",
    "RECONNECT",                        "ticks answered by the replacement",
    "another call of the client",       "the client leaves content",
    "the last CLOSE of the server",
};

static int seen[ALL];
static mcp_supervised *host;
static mcp_supervised_peer server;
static int edges; /* --edge */
static int loop = -1, timer = -1, client = -1;
static pid_t client_pid;
static int ticks, answered_ticks, crash_asked, closing, over;

/* The client has one call at a time: its number, 0 if there is none. The next line waits in `lines`. */
static int client_calls, client_call;
static char lines[4096];
static size_t lines_len;
/* What the client was not ready to take yet. */
static char *unsent;
static size_t unsent_len;

/* Gives everything back, which ends the server as well; the client notices by itself. */
static void leave(int status) {
    if (host != NULL && loop >= 0) {
        /* free closes the descriptor: it leaves the loop before that. */
        epoll_ctl(loop, EPOLL_CTL_DEL, mcp_supervised_fd(host), NULL);
    }
    mcp_supervised_free(host);
    int own[] = {client, timer, loop};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (own[i] >= 0) {
            close(own[i]);
        }
    }
    free(unsent);
    exit(status);
}

static void failed(const char *what, const char *why) {
    fprintf(stderr, "failed: %s: %s\n", what, why);
    for (int fact = 0; fact < ALL; fact++) {
        if (!seen[fact]) {
            fprintf(stderr, "not seen: %s\n", FACTS[fact]);
        }
    }
    leave(EXIT_FAILURE);
}

/* A call of the library. The text has to be asked for at once: the next call may replace it. */
static int32_t check(const char *call, int32_t status) {
    if (status < 0) {
        const char *text = "";
        mcp_supervised_last_error(host, &text, NULL);
        fprintf(stderr, "%s: %s: %s\n", call, mcp_supervised_status_name(status), text);
        failed(call, mcp_supervised_status_name(status));
    }
    return status;
}

/* A call of the system. */
static int sys(const char *call, int result) {
    if (result < 0) {
        failed(call, strerror(errno));
    }
    return result;
}

static void watch(int how, int fd, uint32_t events, enum source source) {
    struct epoll_event wanted = {.events = events, .data.u32 = source};
    sys("epoll_ctl", epoll_ctl(loop, how, fd, &wanted));
}

/* ---- the server ---- */

/* Calls a tool. E_CLOSED is no mistake here: the server has died, and RECONNECT tells when the next one is there. */
static int32_t call_tool(const char *id, const char *tool, const char *arguments) {
    char line[sizeof lines + 512];
    int len = snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
                       "\"arguments\":%s," META "}}",
                       id, tool, arguments);
    if (len < 0 || (size_t)len >= sizeof line) {
        failed(id, "the request does not fit");
    }
    int32_t status = mcp_supervised_send(host, server, line, (size_t)len, NULL);
    return status == MCP_SUPERVISED_E_CLOSED ? status : check("send", status);
}

static void launch_server(char **command) {
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new(*command ? *command : DEMO_SERVER, MCP_SUPERVISED_CSTR, &spec));
    while (*command && *++command) {
        check("spec_arg", mcp_supervised_spec_arg(spec, *command, MCP_SUPERVISED_CSTR));
    }
    check("spec_mode", mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_RAW));
    check("spec_restart", mcp_supervised_spec_restart(spec, 3, 200, 60000)); /* 3 a minute, 200 ms after each death */
    check("add", mcp_supervised_add(host, spec, 0, &server));
    mcp_supervised_spec_free(spec);
    check("start", mcp_supervised_start(host, server));
    printf("server  started, pid %d\n", check("pid", mcp_supervised_pid(host, server)));
}

/* ---- the client, at the other end of a socket pair ---- */

/* A process of its own that knows nothing of MCP: a line is asked, a line is answered. */
static void be_client(int fd) {
    static const char *const TALK[][2] = {
        {"echo {\"message\":\"one\"}", "one"},
        {"sleep {\"ms\":60000}", "lost"}, /* the crash comes in between */
        {"echo {\"message\":\"two\"}", "two"},
    };
    char answer[4096];
    FILE *in = fdopen(fd, "r");
    for (size_t i = 0; in != NULL && i < sizeof TALK / sizeof *TALK; i++) {
        dprintf(fd, "%s\n", TALK[i][0]);
        if (fgets(answer, sizeof answer, in) == NULL || strstr(answer, TALK[i][1]) == NULL) {
            _exit(EXIT_FAILURE);
        }
    }
    _exit(in == NULL ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Forked before there is a handle: in a child it would be of no use. */
static void start_client(void) {
    int ends[2];
    sys("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    client_pid = (pid_t)sys("fork", fork());
    if (client_pid == 0) {
        close(ends[0]);
        be_client(ends[1]);
    }
    close(ends[1]);
    client = ends[0];
    sys("fcntl", fcntl(client, F_SETFL, O_NONBLOCK));
}

/* Input while there is room for it, output while there is some: a level that nobody lowers would keep the loop busy. */
static void watch_client(int how) {
    uint32_t wanted = (lines_len < sizeof lines ? (uint32_t)EPOLLIN : 0) | (unsent_len > 0 ? (uint32_t)EPOLLOUT : 0);
    watch(how, client, wanted, CLIENT);
}

static void write_to_client(void) {
    while (unsent_len > 0) {
        ssize_t written = send(client, unsent, unsent_len, MSG_NOSIGNAL);
        if (written < 0) {
            if (errno == EAGAIN) {
                return; /* the loop tells when there is room */
            }
            failed("the client is gone", strerror(errno));
        }
        unsent_len -= (size_t)written;
        memmove(unsent, unsent + written, unsent_len);
    }
}

/* Payloads are borrowed until the next poll, so what the client does not take now is copied. */
static void answer_client(const char *verdict, const char *text, size_t len) {
    size_t room = strlen(verdict) + len + 2;
    char *larger = realloc(unsent, unsent_len + room + 1);
    if (larger == NULL) {
        failed("realloc", "no memory");
    }
    unsent = larger;
    unsent_len += (size_t)snprintf(unsent + unsent_len, room + 1, "%s %.*s\n", verdict, (int)len, text);
    printf("client  <- %s %.*s\n", verdict, (int)len, text);
    client_call = 0;
    write_to_client();
}

/* Passes the client's next line on, if it has no call under way and there is a server. */
static void pass_on(void) {
    char *end;
    while (client_call == 0 && !closing && (end = memchr(lines, '\n', lines_len)) != NULL) {
        char id[32];
        *end = '\0';
        char *arguments = strchr(lines, ' ');
        if (arguments == NULL) {
            failed(lines, "is not TOOL ARGUMENTS");
        }
        *arguments = '\0';
        snprintf(id, sizeof id, "client-%d", client_calls + 1);
        int32_t status = call_tool(id, lines, arguments + 1);
        *arguments = ' ';
        if (status < 0) {
            *end = '\n';
            printf("client  -> %.*s (waits for the replacement)\n", (int)(end - lines), lines);
            return;
        }
        printf("client  -> %s\n", lines);
        client_call = ++client_calls;
        lines_len -= (size_t)(end + 1 - lines);
        memmove(lines, end + 1, lines_len);
    }
}

static void on_client(uint32_t what) {
    if (what & EPOLLOUT) {
        write_to_client();
    }
    if (what & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t got = read(client, lines + lines_len, sizeof lines - lines_len);
        if (got == 0) {
            int status = -1;
            /* Our own child, about to be gone: the library waits for its own ones only. */
            sys("waitpid", (int)waitpid(client_pid, &status, 0));
            if (status != 0) {
                failed("the client", "did not get what it asked for");
            }
            printf("client  left\n");
            seen[CLIENT_LEFT] = 1;
            close(client);
            client = -1;
            return;
        }
        if (got < 0 && errno != EAGAIN) {
            failed("read", strerror(errno));
        }
        lines_len += got > 0 ? (size_t)got : 0;
        if (lines_len == sizeof lines && memchr(lines, '\n', lines_len) == NULL) {
            failed("the client", "writes an endless line");
        }
        pass_on();
    }
    watch_client(EPOLL_CTL_MOD);
}

/* ---- the timer ---- */

static void on_tick(void) {
    uint64_t times;
    if (read(timer, &times, sizeof times) != (ssize_t)sizeof times) {
        return;
    }
    if (++ticks > MAX_TICKS) {
        failed("a minute has passed", "something hangs");
    }
    if (closing) {
        return;
    }
    if (seen[TICKS] && client_calls == 2 && client_call == 2 && !crash_asked) {
        printf("tick    %d: asks the server to crash\n", ticks);
        crash_asked = 1;
        char arguments[32];
        snprintf(arguments, sizeof arguments, "{\"code\":%d}", CRASH_CODE);
        call_tool("crash", "crash", arguments);
        return;
    }
    char id[32];
    snprintf(id, sizeof id, "tick-%d", ticks);
    if (call_tool(id, "pid", "{}") < 0) {
        printf("tick    %d: no server right now\n", ticks);
    }
}

/* ---- events of the library ---- */

/* Ids come back as they were sent, with their quotes. */
static int id_begins(const mcp_supervised_event *e, const char *with) {
    size_t len = strlen(with);
    return e->id_len > len + 1 && memcmp(e->id + 1, with, len) == 0;
}

/* The text a tool has answered, as it stands in the JSON. Enough for this server's short words: a real host has a parser. */
static const char *text_of(const mcp_supervised_event *e, size_t *len) {
    static const char BEFORE[] = "\"text\":\"";
    const char *text = e->payload_len > 0 ? strstr(e->payload, BEFORE) : NULL; /* the payload ends with a NUL */
    if (text == NULL) {
        *len = e->body_len;
        return e->body;
    }
    text += strlen(BEFORE);
    *len = strcspn(text, "\"");
    return text;
}

static void on_message(const mcp_supervised_event *e) {
    size_t len;
    const char *text = text_of(e, &len);
    if (id_begins(e, "tick-")) {
        printf("tick    <- %.*s\n", (int)len, text);
        if (++answered_ticks >= ENOUGH) {
            seen[seen[REPLACED] ? TICKS_AGAIN : TICKS] = 1;
        }
    } else if (id_begins(e, "client-")) {
        int failure = e->message_kind == MCP_SUPERVISED_MESSAGE_REMOTE_ERROR;
        answer_client(failure ? "error" : "ok", text, len);
        seen[seen[REPLACED] ? CALLED_AGAIN : CALLED] = !failure;
        pass_on();
    }
}

static void on_close(const mcp_supervised_event *e) {
    printf("server  CLOSE: pid %d ", e->pid);
    if (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) {
        printf("ended, nobody knows how\n");
    } else if (e->signal) {
        printf("was ended by signal %d\n", e->signal);
    } else {
        printf("ended with exit code %d\n", e->exit_code);
    }
    if (e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT) {
        printf("server  restart %u of %u in %llu ms\n", (unsigned)e->attempt, (unsigned)e->max_restarts,
               (unsigned long long)e->delay_ms);
        seen[CRASHED] = crash_asked && e->exit_code == CRASH_CODE;
        /* Nothing is sent twice behind our back: whoever asked is told, and knows best whether to ask again. */
        if (client_call != 0) {
            answer_client("lost", "the server ended", strlen("the server ended"));
            seen[LOST] = 1;
            pass_on();
        }
    } else {
        seen[ENDED] = closing && e->exit_code == 0;
    }
}

static void on_event(const mcp_supervised_event *e) {
    switch (e->kind) {
        case MCP_SUPERVISED_EVENT_MESSAGE: on_message(e); break;
        case MCP_SUPERVISED_EVENT_DRAIN: printf("server  DRAIN\n"); break;
        case MCP_SUPERVISED_EVENT_CLOSE: on_close(e); break;
        case MCP_SUPERVISED_EVENT_RECONNECT:
            printf("server  RECONNECT: pid %d, life %u\n", e->pid, (unsigned)e->life);
            seen[REPLACED] = 1;
            answered_ticks = 0;
            pass_on(); /* what the client wanted meanwhile */
            break;
        case MCP_SUPERVISED_EVENT_EXHAUSTED: printf("server  EXHAUSTED: given up\n"); break;
        case MCP_SUPERVISED_EVENT_ERROR:
            printf("server  ERROR: %s: %.*s\n", mcp_supervised_status_name(e->status), (int)e->payload_len, e->payload);
            break;
        case MCP_SUPERVISED_EVENT_LOG: printf("server  LOG: %.*s\n", (int)e->payload_len, e->payload); break;
        default: break; /* later versions may have more kinds: ignore them */
    }
    /* Nothing follows the last event of a peer. */
    if (e->flags & MCP_SUPERVISED_FLAG_FINAL) {
        over = 1;
    }
}

/*
 * Level-triggered, the default of epoll: it names the descriptor in every round as long as the library has something to do. One
 * poll for each time is enough. What does not fit into the array comes in the next round, and the timer and the client have had
 * their turn before.
 *
 * Edge-triggered: it names the descriptor once when something is new, and not again for what is left lying. The host polls until
 * fewer than MAX_EVENTS come back, which says that nothing is left; whatever comes later, a timer or a call of the host that
 * leaves work included, is a new edge. (A host that must not stay here so long may leave earlier, if it comes back by itself.)
 *
 * In both ways the timeout is 0, since the waiting is done in our own epoll_wait, which needs no timeout for the library's sake.
 */
static void on_supervised(void) {
    int32_t count;
    do {
        mcp_supervised_event events[MAX_EVENTS];
        count = check("poll", mcp_supervised_poll(host, events, sizeof events[0], MAX_EVENTS, 0));
        for (int32_t i = 0; i < count; i++) {
            on_event(&events[i]);
        }
    } while (edges && count == MAX_EVENTS);
    if (client >= 0) {
        watch_client(EPOLL_CTL_MOD); /* answers may wait for it now */
    }
}

int main(int argc, char **argv) {
    char why[256];
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    argv += argc > 0;
    if (*argv != NULL && strcmp(*argv, "--edge") == 0) {
        edges = 1;
        argv++;
    }
    start_client();
    if (mcp_supervised_new(NULL, &host, why, sizeof why) < 0) {
        failed("new", why);
    }
    loop = sys("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
    /* The one place where the two ways differ, but for the loop in on_supervised. */
    uint32_t way = (uint32_t)EPOLLIN | (edges ? (uint32_t)EPOLLET : 0);
    watch(EPOLL_CTL_ADD, check("fd", mcp_supervised_fd(host)), way, SUPERVISED);

    const struct timespec period = {.tv_nsec = TICK_MS * 1000000L};
    const struct itimerspec every = {.it_interval = period, .it_value = period};
    timer = sys("timerfd_create", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    sys("timerfd_settime", timerfd_settime(timer, 0, &every, NULL));
    watch(EPOLL_CTL_ADD, timer, EPOLLIN, TICK);
    watch_client(EPOLL_CTL_ADD);

    printf("host    watches for %s\n", edges ? "edges" : "levels");
    launch_server(argv);
    while (!over) {
        struct epoll_event ready[8];
        int count = epoll_wait(loop, ready, 8, -1);
        if (count < 0 && errno != EINTR) {
            failed("epoll_wait", strerror(errno));
        }
        for (int i = 0; i < count; i++) {
            switch (ready[i].data.u32) {
                case SUPERVISED: on_supervised(); break;
                case TICK: on_tick(); break;
                default: on_client(ready[i].events); break;
            }
        }
        if (seen[TICKS_AGAIN] && seen[CLIENT_LEFT] && !closing) {
            closing = 1;
            printf("host    closes the server\n");
            check("close", mcp_supervised_close(host, server));
        }
    }
    for (int fact = 0; fact < ALL; fact++) {
        if (!seen[fact]) {
            failed("the server is gone for good", "too early");
        }
    }
    check("remove", mcp_supervised_remove(host, server));
    printf("everything was seen\n");
    leave(EXIT_SUCCESS);
}
