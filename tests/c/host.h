/* What the hosts of tests/c have in common: calls that must succeed, and events one at a time. */
#ifndef HOST_H
#define HOST_H

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mcp_supervised.h>

/* Ends the host with a line that says what was wrong where. */
#define CHECK(is_true) ((is_true) ? (void)0 : failed(__FILE__, __LINE__, #is_true))

/* A call of the library that must succeed; its result. */
#define OK(call) succeeded(__FILE__, __LINE__, #call, (call))

/* Two integers that must be equal. */
#define EQUAL(is, must_be) equal(__FILE__, __LINE__, #is, (long long)(is), (long long)(must_be))

static mcp_supervised *host;
static const char *demo_server;

static inline void failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: not true: %s (errno: %s)\n", file, line, what, strerror(errno));
    _exit(1);
}

static inline int32_t succeeded(const char *file, int line, const char *call, int32_t status) {
    if (status < 0) {
        const char *text = "";
        mcp_supervised_last_error(host, &text, NULL);
        fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, call, mcp_supervised_status_name(status), text);
        _exit(1);
    }
    return status;
}

static inline void equal(const char *file, int line, const char *what, long long is, long long must_be) {
    if (is != must_be) {
        fprintf(stderr, "%s:%d: %s is %lld, must be %lld\n", file, line, what, is, must_be);
        _exit(1);
    }
}

/* The first argument of every host here is the demo server. */
static inline void begin(int argc, char **argv, int arguments) {
    EQUAL(argc, 2 + arguments);
    demo_server = argv[1];
}

/* The demo server in raw mode, with flags up to a NULL, or none. */
static inline mcp_supervised_spec *demo(const char *const *flags) {
    mcp_supervised_spec *spec = NULL;
    OK(mcp_supervised_spec_new(demo_server, MCP_SUPERVISED_CSTR, &spec));
    for (; flags != NULL && *flags != NULL; flags++) {
        OK(mcp_supervised_spec_arg(spec, *flags, MCP_SUPERVISED_CSTR));
    }
    OK(mcp_supervised_spec_mode(spec, MCP_SUPERVISED_MODE_RAW));
    return spec;
}

/* Adds and starts; the spec is spent. */
static inline mcp_supervised_peer launch(mcp_supervised_spec *spec) {
    mcp_supervised_peer peer = 0;
    OK(mcp_supervised_add(host, spec, 0, &peer));
    mcp_supervised_spec_free(spec);
    OK(mcp_supervised_start(host, peer));
    return peer;
}

/* Calls a tool of the demo server; the status of the send. */
static inline int32_t try_call(mcp_supervised_peer peer, const char *id, const char *tool, const char *arguments) {
    char line[1024];
    int len = snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s,"
                       "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                       "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                       id, tool, arguments);
    CHECK(len > 0 && (size_t)len < sizeof line);
    return mcp_supervised_send(host, peer, line, (size_t)len, NULL);
}

static inline void call(mcp_supervised_peer peer, const char *id, const char *tool, const char *arguments) {
    OK(try_call(peer, id, tool, arguments));
}

/* The next event; the one before it is over. Waits in the library. */
static inline const mcp_supervised_event *next_event(void) {
    static mcp_supervised_event event;
    while (OK(mcp_supervised_poll(host, &event, sizeof event, 1, -1)) == 0) {
        /* A signal came. */
    }
    return &event;
}

/* The next event that is not for the log; it must be of that kind. */
static inline const mcp_supervised_event *expect(uint32_t kind) {
    const mcp_supervised_event *e;
    do {
        e = next_event();
    } while (e->kind == MCP_SUPERVISED_EVENT_LOG);
    EQUAL(e->kind, kind);
    return e;
}

/* The next event of that kind; what comes before it does not matter. */
static inline const mcp_supervised_event *await(uint32_t kind) {
    const mcp_supervised_event *e;
    do {
        e = next_event();
    } while (e->kind != kind);
    return e;
}

/* Ids come back as they were sent, with their quotes. */
static inline int has_id(const mcp_supervised_event *e, const char *id) {
    size_t len = strlen(id);
    return e->kind == MCP_SUPERVISED_EVENT_MESSAGE && e->id_len == len + 2 && memcmp(e->id + 1, id, len) == 0;
}

/* Asks the server for its pid, which only a live one can tell, and compares. */
static inline void answers(mcp_supervised_peer peer) {
    char text[64];
    const mcp_supervised_event *e;
    int32_t pid = OK(mcp_supervised_pid(host, peer));
    call(peer, "who", "pid", "{}");
    do {
        e = next_event();
    } while (!has_id(e, "who"));
    snprintf(text, sizeof text, "\"text\":\"%d\"", pid);
    CHECK(strstr(e->payload, text) != NULL);
}

/* SIGKILL to the server, which must be running. */
static inline void kill_server(mcp_supervised_peer peer) {
    EQUAL(kill(OK(mcp_supervised_pid(host, peer)), SIGKILL), 0);
}

/* Waits for the handle's descriptor, as a loop of the host's own does. */
static inline void wait_readable(void) {
    struct pollfd watched = {.fd = OK(mcp_supervised_fd(host)), .events = POLLIN};
    while (poll(&watched, 1, -1) < 0) {
        EQUAL(errno, EINTR);
    }
}

static inline int is_readable(void) {
    struct pollfd watched = {.fd = OK(mcp_supervised_fd(host)), .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static inline void end(void) {
    EQUAL(mcp_supervised_free(host), MCP_SUPERVISED_OK);
    host = NULL;
}

#endif
