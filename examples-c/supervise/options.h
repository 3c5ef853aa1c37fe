/* The command line of supervise. */
#ifndef SUPERVISE_OPTIONS_H
#define SUPERVISE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* How supervise exits. */
enum {
    ENDED_WELL = 0,
    ENDED_ROUGHLY = 1,
    USAGE_ERROR = 2,
    NOT_STARTED = 3,
    EXHAUSTED = 4,
    REFUSED = 5,
    NO_ANSWER = 6,
};

/* What is done with the server. */
enum mode { PASS_LINES, LIST, CALL, LISTEN };

struct options {
    uint32_t max_restarts; /* as mcp_supervised_spec_restart takes it */
    uint64_t delay_ms;
    uint64_t window_ms;
    uint64_t close_grace_ms;
    uint64_t kill_grace_ms;
    uint64_t max_queue;
    uint32_t stderr_mode;
    uint32_t env_mode;
    uint32_t speak; /* a mcp_supervised_mode; 0: the default */
    const char *cwd; /* NULL: ours */
    const char **env; /* NAME=VALUE each */
    size_t env_count;
    bool json;
    bool verbose;
    enum mode mode;
    const char *tool;      /* to be called */
    const char *arguments; /* of it, a JSON object; NULL: none */
    struct text filter;    /* of what is listened to, a JSON object */
    size_t listen_count;   /* the things in it */
    uint64_t timeout_ms;   /* 0: the default, UINT64_MAX: never */
    bool retry;
    bool timestamps;
    char **command; /* the program and its arguments, NULL-terminated */
};

/* Reads the command line. It returns only if there is a server to be run: --help, --version and errors exit. */
void options_parse(struct options *options, int argc, char **argv);

/* Says what is wrong with the command line and exits. */
void usage_error(const char *format, ...);

#endif
