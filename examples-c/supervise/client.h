/* supervise as a client of its own: --list, --call and --listen. Everything here happens on the loop of supervise.c. */
#ifndef SUPERVISE_CLIENT_H
#define SUPERVISE_CLIENT_H

#include <mcp_supervised.h>
#include <stdbool.h>

#include "options.h"
#include "report.h"
#include "text.h"

struct client {
    const struct options *options;
    struct reporter *report;
    struct text *out; /* for stdout; with --json the events are what is told there, and this leads nowhere */
    struct text nowhere;
    mcp_supervised *handle;
    mcp_supervised_peer peer;

    const char *method; /* of the request that is under way, or waits for a replacement */
    struct text params;
    mcp_supervised_request_id request;
    bool waits; /* for RECONNECT */

    size_t section;     /* of the listing; 0: nobody knows yet which there are */
    unsigned has;       /* the sections the server has, as bits */
    bool is_first_page;
    struct text cursor; /* of the page that was asked for, as JSON */

    uint32_t acknowledged; /* by so many lives */
    bool is_terminal;      /* stdout is one */

    bool done; /* nothing is left to be asked for */
    int status;
};

void client_init(struct client *c, const struct options *options, struct reporter *report, struct text *out,
                 mcp_supervised *handle);
/* The server runs: the first request. */
void client_begin(struct client *c, mcp_supervised_peer peer);
/* Any event of the peer, after it was reported. */
void client_event(struct client *c, const mcp_supervised_event *e);
/* A signal asks for the end. */
void client_interrupt(struct client *c);
void client_free(struct client *c);

#endif
