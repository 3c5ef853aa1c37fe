/* What supervise tells its user: words on stderr, or JSON objects on stdout. */
#ifndef SUPERVISE_REPORT_H
#define SUPERVISE_REPORT_H

#include <mcp_supervised.h>
#include <signal.h>
#include <stdbool.h>

#include "options.h"
#include "text.h"

enum tone { GOOD, BAD, WARNING, QUIET };

struct reporter {
    const struct options *options;
    /* What waits to be written to stdout. */
    struct text *out;
    /* The signals that came. */
    const volatile sig_atomic_t *signals;
    bool colour;
    bool terminal;       /* stderr can show a line that changes */
    bool progress_shown; /* and does */
    bool given_up;
    int patience_ms; /* what is left of the time for a stderr that takes nothing, once a signal came */
    uint32_t life; /* the connection that events without a number belong to */
    int32_t pid;
    mcp_supervised_peer peer;
};

/* Lines that the dead server cannot have read: how many, and the input line of the first. */
struct unread {
    uint64_t count;
    uint64_t first_line;
};

void report_init(struct reporter *r, const struct options *options, struct text *out,
                 const volatile sig_atomic_t *signals);
/* The first process runs. */
void report_started(struct reporter *r);
/* It does not. */
void report_not_started(struct reporter *r, int32_t status, const char *why);
/* One event of the peer. `unread` counts for CLOSE. */
void report_event(struct reporter *r, const mcp_supervised_event *e, struct unread unread);
/* A line of the input that cannot be sent. */
void report_refused(struct reporter *r, uint64_t line, int32_t status, const char *why);
/* The end begins. */
void report_closing(struct reporter *r, const char *why);
/* A request was sent. */
void report_request(struct reporter *r, uint64_t id, const char *method);
/* Words of the client, whose text is freed. With --json the events say it all. */
void report_words(struct reporter *r, enum tone tone, struct text *words);
/* How far a call is: a line that changes on a terminal, a line each with --verbose. The text is freed. */
void report_progress(struct reporter *r, struct text *words);
void report_progress_end(struct reporter *r);
/* The last word. `unsent` lines were read from the input and never sent. */
void report_end(struct reporter *r, int exit_status, uint64_t unsent);
/* Words that belong to stderr in any case, since stdout is the trouble, or the program itself. */
void report_trouble(struct reporter *r, const char *what, const char *why);

#endif
