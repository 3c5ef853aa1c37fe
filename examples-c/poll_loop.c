/*
 * A host with a loop of its own: poll(2) on the one descriptor of the handle, and no timeout to compute.
 *
 *     poll_loop [COMMAND [ARGUMENT]...]
 *
 * Starts an MCP server, any one (without arguments the demo server), whatever revision it speaks. Asks what it can do, opens a
 * stream of notifications, lists the tools and calls one, if there is one that is known to do no harm. Then the server is killed
 * in the middle of a request: the host is told how it ended, that the request is over without an answer, and when a replacement
 * comes. The stream goes on there under the same id. A second server that crashes whenever it is started is given up. Exits with
 * 0 if all of this happened in this order.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mcp_supervised.h>

#ifndef DEMO_SERVER
#define DEMO_SERVER "mcp-supervised-demo-server"
#endif

#define MAX_EVENTS 64
#define MAX_SHOWN 256 /* bytes of a message */

/* What has to happen, in this order, unless the server cannot. A request carries the step that its completion is, as its
 * user_data. */
enum step {
    READY,
    DISCOVERED,
    LISTENING,
    LISTED,
    CALLED,
    WORKING,
    DRAINED,
    CLOSED,
    LOST,
    REPLACED,
    LISTENING_AGAIN,
    NOTIFIED,
    FLIPPED,
    CALLED_AGAIN,
    GIVEN_UP,
    ENDED,
    STREAM_ENDED,
    ALL
};

static const char *const STEPS[] = {
    "READY",
    "the answer to server/discover",
    "the acknowledgement of the stream",
    "the answer to tools/list",
    "the answer to tools/call",
    "progress of the long call",
    "the DRAIN of the killed server",
    "the CLOSE of the killed server",
    "the end of the request that was under way",
    "RECONNECT",
    "the acknowledgement of the stream by the replacement",
    "a notification of the stream from the replacement",
    "the answer to the call of flip",
    "the answer of the replacement",
    "the EXHAUSTED of the crasher",
    "the last CLOSE of the server",
    "the end of the stream",
};

static mcp_supervised *host;
static mcp_supervised_peer server;  /* the one we work with */
static mcp_supervised_peer crasher; /* the one that never comes up */
static mcp_supervised_request_id stream; /* of notifications of the first */
static enum step awaited;
static char skipped[ALL]; /* steps that this server cannot make */
static const char *call;  /* the parameters of a call that does no harm, NULL if the server has no tool for it */
static int is_demo;       /* it has the tools of the demo server, and streams */
static int closing;

/* Gives everything back, which ends the servers as well. */
static void leave(int status) {
    mcp_supervised_free(host);
    exit(status);
}

/* Every call that fails is the end of this host. The text has to be asked for at once: the next call may replace it. */
static int32_t check(const char *call, int32_t status) {
    if (status < 0) {
        const char *text = "";
        mcp_supervised_last_error(host, &text, NULL);
        fprintf(stderr, "%s: %s: %s\n", call, mcp_supervised_status_name(status), text);
        leave(EXIT_FAILURE);
    }
    return status;
}

static void reached(enum step step) {
    if (step != awaited) {
        fprintf(stderr, "failed: came %s, awaited was %s\n", STEPS[step], awaited < ALL ? STEPS[awaited] : "nothing");
        leave(EXIT_FAILURE);
    }
    do {
        awaited = (enum step)(awaited + 1);
    } while (awaited < ALL && skipped[awaited]);
}

static void skip(enum step step) {
    skipped[step] = 1;
    if (awaited == step) {
        reached(step);
    }
}

/* Sends a request; its completion carries `step`. */
static void request(const char *method, const char *params, enum step step, uint32_t flags) {
    mcp_supervised_request_options options = {.size = sizeof options, .user_data = step, .flags = flags};
    mcp_supervised_request_id id = 0;
    check("request", mcp_supervised_request(host, server, method, MCP_SUPERVISED_CSTR, params, MCP_SUPERVISED_CSTR, &options,
                                            &id));
    printf("server   -> %llu %s %s\n", (unsigned long long)id, method, params);
}

/* Opens a stream. It has one id for good, however often the server is replaced. */
static void listen_to(const char *filter) {
    check("listen", mcp_supervised_listen(host, server, filter, MCP_SUPERVISED_CSTR, LISTENING, &stream));
    printf("server   -> %llu subscriptions/listen %s\n", (unsigned long long)stream, filter);
}

/* `peer_data` is 1 for the crasher. */
static mcp_supervised_peer launch(mcp_supervised_spec *spec, uint64_t peer_data) {
    mcp_supervised_peer peer = 0;
    check("add", mcp_supervised_add(host, spec, peer_data, &peer));
    mcp_supervised_spec_free(spec);
    check("start", mcp_supervised_start(host, peer));
    printf("%-8s started, pid %d\n", peer_data ? "crasher" : "server", check("pid", mcp_supervised_pid(host, peer)));
    return peer;
}

static void launch_server(char **command) {
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new(*command ? *command : DEMO_SERVER, MCP_SUPERVISED_CSTR, &spec));
    while (*command && *++command) {
        check("spec_arg", mcp_supervised_spec_arg(spec, *command, MCP_SUPERVISED_CSTR));
    }
    check("spec_client_info",
          mcp_supervised_spec_client_info(spec, "poll_loop", MCP_SUPERVISED_CSTR, "1", MCP_SUPERVISED_CSTR));
    check("spec_restart", mcp_supervised_spec_restart(spec, 3, 100, 60000)); /* 3 a minute, 100 ms after each death */
    server = launch(spec, 0);
}

static void launch_crasher(void) {
    static const char *const ARGUMENTS[] = {"-c", "echo 'no database' >&2; exit 3"};
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new("/bin/sh", MCP_SUPERVISED_CSTR, &spec));
    for (size_t i = 0; i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++) {
        check("spec_arg", mcp_supervised_spec_arg(spec, ARGUMENTS[i], MCP_SUPERVISED_CSTR));
    }
    check("spec_restart", mcp_supervised_spec_restart(spec, 2, 50, 60000));
    crasher = launch(spec, 1);
}

static int is_method(const mcp_supervised_event *e, const char *method) {
    return e->method_len == strlen(method) && memcmp(e->method, method, e->method_len) == 0;
}

/* Whether the answer to tools/list has a tool of that name. A host to keep has a JSON reader. */
static int has_tool(const mcp_supervised_event *e, const char *name) {
    static const char *const SPACES[] = {"", " "};
    for (size_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++) {
        char member[64];
        snprintf(member, sizeof member, "\"name\":%s\"%s\"", SPACES[i], name);
        if (strstr(e->payload, member) != NULL) {
            return 1;
        }
    }
    return 0;
}

static void kill_server(void) {
    /* Only to show what follows. A host never signals its servers: it calls mcp_supervised_close. */
    int32_t pid = check("pid", mcp_supervised_pid(host, server));
    kill(pid, SIGKILL);
    printf("server   killed in the middle of a request, pid %d\n", pid);
}

/* A request that is under way when the server dies. */
static void ask_and_kill(void) {
    if (is_demo) {
        /* It never ends by itself, and the server is killed at its first progress. With PROGRESS the server tells how far it is. */
        request(MCP_SUPERVISED_METHOD_TOOLS_CALL, "{\"name\":\"progress\",\"arguments\":{\"every_ms\":20}}", LOST,
                MCP_SUPERVISED_REQUEST_PROGRESS);
        return;
    }
    /* One that is stopped, with all that it has started, cannot answer before it dies. */
    kill(-check("pid", mcp_supervised_pid(host, server)), SIGSTOP);
    request(MCP_SUPERVISED_METHOD_TOOLS_LIST, "{}", LOST, 0);
    kill_server();
}

static void call_or_list(enum step step) {
    if (call != NULL) {
        request(MCP_SUPERVISED_METHOD_TOOLS_CALL, call, step, 0);
    } else {
        request(MCP_SUPERVISED_METHOD_TOOLS_LIST, "{}", step, 0);
    }
}

/* What can be shown with this server. */
static void look_at_tools(const mcp_supervised_event *e) {
    is_demo = !skipped[LISTENING] && has_tool(e, "pid") && has_tool(e, "progress") && has_tool(e, "flip");
    if (is_demo) {
        call = "{\"name\":\"pid\",\"arguments\":{}}";
        return;
    }
    if (has_tool(e, "echo")) {
        call = "{\"name\":\"echo\",\"arguments\":{\"message\":\"hello\"}}";
    }
    skip(WORKING);
    skip(NOTIFIED);
    skip(FLIPPED);
}

/* Nothing is heard of a stream that a server does not know. */
static void stream_refused(void) {
    skip(LISTENING_AGAIN);
    skip(STREAM_ENDED);
    skip(LISTENING);
}

/* What a request is answered, or why it is not: each one has exactly one event like this. */
static void on_completion(const mcp_supervised_event *e) {
    switch (e->user_data) {
        case DISCOVERED:
            reached(DISCOVERED);
            listen_to("{\"toolsListChanged\":true}");
            break;
        case LISTED:
            reached(LISTED);
            look_at_tools(e);
            call_or_list(CALLED);
            break;
        case CALLED:
            reached(CALLED);
            ask_and_kill();
            break;
        case LOST:
            if (e->status == MCP_SUPERVISED_E_CLOSED) {
                reached(LOST);
                printf("server   the request is not sent again: %s\n", e->flags & MCP_SUPERVISED_FLAG_UNREAD
                                                                        ? "the server cannot have read it"
                                                                        : "the server may have run it");
            }
            break;
        case FLIPPED:
            reached(FLIPPED);
            call_or_list(CALLED_AGAIN);
            break;
        case CALLED_AGAIN:
            reached(CALLED_AGAIN);
            launch_crasher();
            break;
        case LISTENING:
            if (awaited == LISTENING) {
                stream_refused();
                request(MCP_SUPERVISED_METHOD_TOOLS_LIST, "{}", LISTED, 0);
            } else {
                reached(STREAM_ENDED);
            }
            break;
        default: break;
    }
}

/* A notification of a request or of the stream. */
static void on_notification(const mcp_supervised_event *e) {
    if (is_method(e, "notifications/progress") && awaited == WORKING) {
        reached(WORKING);
        kill_server();
    } else if (e->request != stream) {
        return;
    } else if (!is_method(e, "notifications/subscriptions/acknowledged")) {
        if (is_demo) {
            reached(NOTIFIED);
        }
    } else if (awaited == LISTENING) {
        reached(LISTENING);
        request(MCP_SUPERVISED_METHOD_TOOLS_LIST, "{}", LISTED, 0);
    } else {
        reached(LISTENING_AGAIN);
        if (is_demo) {
            request(MCP_SUPERVISED_METHOD_TOOLS_CALL, "{\"name\":\"flip\",\"arguments\":{}}", FLIPPED, 0);
        } else {
            call_or_list(CALLED_AGAIN);
        }
    }
}

static void on_message(const char *who, const mcp_supervised_event *e) {
    int shown = e->payload_len < MAX_SHOWN ? (int)e->payload_len : MAX_SHOWN;
    printf("%-8s <- %llu %.*s%s\n", who, (unsigned long long)e->request, shown, e->payload,
           e->payload_len > MAX_SHOWN ? "..." : "");
    if (e->flags & MCP_SUPERVISED_FLAG_COMPLETE) {
        on_completion(e);
    } else if (e->message_kind == MCP_SUPERVISED_MESSAGE_NOTIFICATION) {
        on_notification(e);
    }
}

/* A request or the stream that ended without an answer; a line that is no message; a replacement that cannot be spawned. */
static void on_error(const char *who, const mcp_supervised_event *e) {
    printf("%-8s ERROR: ", who);
    if (e->request != 0) {
        printf("%llu: ", (unsigned long long)e->request);
    }
    printf("%s: %.*s\n", mcp_supervised_status_name(e->status), (int)e->payload_len, e->payload);
    if (e->flags & MCP_SUPERVISED_FLAG_COMPLETE) {
        on_completion(e);
    }
}

static void on_close(const char *who, const mcp_supervised_event *e) {
    printf("%-8s CLOSE: ", who);
    if (e->pid == 0) {
        printf("there is no process any more");
    } else if (e->flags & MCP_SUPERVISED_FLAG_EXIT_UNKNOWN) {
        printf("pid %d ended, nobody knows how", e->pid);
    } else if (e->signal) {
        printf("pid %d was ended by signal %d", e->pid, e->signal);
    } else {
        printf("pid %d ended with exit code %d", e->pid, e->exit_code);
    }
    if (e->payload_len > 0) {
        printf(", its last words: %.*s", (int)e->payload_len, e->payload);
    }
    if (e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT) {
        printf("; restart %u of %u in %llu ms", (unsigned)e->attempt, (unsigned)e->max_restarts,
               (unsigned long long)e->delay_ms);
    }
    printf("\n");
    if (e->peer == server) {
        reached(closing ? ENDED : CLOSED);
    }
}

static void on_event(const mcp_supervised_event *e) {
    const char *who = e->peer_data ? "crasher" : "server";
    switch (e->kind) {
        case MCP_SUPERVISED_EVENT_MESSAGE: on_message(who, e); break;
        case MCP_SUPERVISED_EVENT_DRAIN: /* what is on its way to this connection is lost, or is the last it takes */
            printf("%-8s DRAIN\n", who);
            if (e->peer == server && !closing) {
                reached(DRAINED);
            }
            break;
        case MCP_SUPERVISED_EVENT_CLOSE: on_close(who, e); break;
        case MCP_SUPERVISED_EVENT_READY: /* of the first life; its replacements are told of by RECONNECT */
            printf("%-8s READY: pid %d speaks %s%s\n", who, e->pid, e->payload,
                   e->era == MCP_SUPERVISED_ERA_LEGACY ? ", an older revision" : "");
            if (e->peer == server) {
                reached(READY);
                request(MCP_SUPERVISED_METHOD_DISCOVER, "{}", DISCOVERED, 0);
            }
            break;
        case MCP_SUPERVISED_EVENT_RECONNECT:
            printf("%-8s RECONNECT: pid %d, life %u, speaks %s\n", who, e->pid, (unsigned)e->life, e->payload);
            if (e->peer == server) {
                reached(REPLACED); /* what survived is on its way there already */
                if (skipped[LISTENING_AGAIN]) {
                    call_or_list(CALLED_AGAIN);
                }
            }
            break;
        case MCP_SUPERVISED_EVENT_EXHAUSTED:
            printf("%-8s EXHAUSTED: given up after %u restarts\n", who, (unsigned)e->max_restarts);
            if (e->peer == crasher) {
                reached(GIVEN_UP);
                check("close", mcp_supervised_close(host, server));
                closing = 1;
            }
            break;
        case MCP_SUPERVISED_EVENT_ERROR: on_error(who, e); break;
        case MCP_SUPERVISED_EVENT_LOG:
            printf("%-8s LOG: %.*s\n", who, (int)e->payload_len, e->payload);
            break;
        case MCP_SUPERVISED_EVENT_WRITABLE: /* after E_WOULD_BLOCK, which this host never comes near */
        case MCP_SUPERVISED_EVENT_WAKEUP:   /* another thread called mcp_supervised_wakeup */
        case MCP_SUPERVISED_EVENT_SHUTDOWN: /* the last event after mcp_supervised_shutdown */
        default: break;                     /* later versions may have more kinds: ignore them */
    }
    /* Nothing follows the last event of a peer. */
    if (e->flags & MCP_SUPERVISED_FLAG_FINAL && e->peer != 0) {
        check("remove", mcp_supervised_remove(host, e->peer));
    }
    if (e->flags & MCP_SUPERVISED_FLAG_FINAL && e->peer == server && awaited != ALL) {
        fprintf(stderr, "failed: the server is gone for good, awaited was %s\n", STEPS[awaited]);
        leave(EXIT_FAILURE);
    }
}

int main(int argc, char **argv) {
    char why[256];
    if (mcp_supervised_new(NULL, &host, why, sizeof why) < 0) {
        fprintf(stderr, "new: %s\n", why);
        return EXIT_FAILURE;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    launch_server(argv + (argc > 0));

    struct pollfd watched = {.fd = check("fd", mcp_supervised_fd(host)), .events = POLLIN};
    while (awaited != ALL) {
        if (poll(&watched, 1, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            perror("poll");
            leave(EXIT_FAILURE);
        }
        mcp_supervised_event events[MAX_EVENTS];
        int32_t count = check("poll", mcp_supervised_poll(host, events, sizeof events[0], MAX_EVENTS, 0));
        for (int32_t i = 0; i < count; i++) {
            on_event(&events[i]);
        }
    }
    printf("every step was seen, in order\n");
    leave(EXIT_SUCCESS);
}
