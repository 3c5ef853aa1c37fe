#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mcp_supervised.h>

#ifndef DEMO_SERVER
#define DEMO_SERVER "mcp-supervised-demo-server"
#endif

#define SIZE 50
#define MAX_EVENTS 32
#define CRASH_CODE 7
#define MAX_TICKS 6000 /* two minutes: then something hangs */
#define ENOUGH 5       /* ticks with calls before the crashes, and after them */

/* One server, and what is known of it. Its index is its user data. */
struct member {
    mcp_supervised_peer peer;
    mcp_supervised_request_id call; /* under way, 0 if none is */
    int32_t pid;                    /* of the life that answers */
    int answers, answers_of_the_next, lost, closes, replaced, over;
};

static mcp_supervised *host;
static struct member fleet[SIZE];
static int ticks, ticks_with_calls, crashed, closing, over;

_Noreturn void fleet_failed(const char *what, const char *why) {
    fprintf(stderr, "failed: %s: %s\n", what, why);
    mcp_supervised_free(host);
    exit(EXIT_FAILURE);
}

static void must(int is_so, const char *what) {
    if (!is_so) {
        fleet_failed(what, "is not so");
    }
}

static int32_t check(const char *call, int32_t status) {
    if (status < 0) {
        const char *text = "";
        mcp_supervised_last_error(host, &text, NULL);
        fprintf(stderr, "%s: %s: %s\n", call, mcp_supervised_status_name(status), text);
        fleet_failed(call, mcp_supervised_status_name(status));
    }
    return status;
}

void fleet_start(int argc, char **argv) {
    char why[256];
    if (mcp_supervised_new(NULL, &host, why, sizeof why) < 0) {
        fleet_failed("new", why);
    }
    mcp_supervised_spec *spec = NULL;
    check("spec_new", mcp_supervised_spec_new(argc > 1 ? argv[1] : DEMO_SERVER, MCP_SUPERVISED_CSTR, &spec));
    for (int i = 2; i < argc; i++) {
        check("spec_arg", mcp_supervised_spec_arg(spec, argv[i], MCP_SUPERVISED_CSTR));
    }
    check("spec_client_info",
          mcp_supervised_spec_client_info(spec, "loops", MCP_SUPERVISED_CSTR, "1.0", MCP_SUPERVISED_CSTR));
    check("spec_restart", mcp_supervised_spec_restart(spec, 3, 50, 60000));
    for (uint64_t i = 0; i < SIZE; i++) {
        check("add", mcp_supervised_add(host, spec, i, &fleet[i].peer));
        check("start", mcp_supervised_start(host, fleet[i].peer));
    }
    mcp_supervised_spec_free(spec);
}

int fleet_fd(void) {
    return check("fd", mcp_supervised_fd(host));
}

static void call(struct member *m, const char *params) {
    check("request", mcp_supervised_request(host, m->peer, MCP_SUPERVISED_METHOD_TOOLS_CALL, MCP_SUPERVISED_CSTR, params,
                                            MCP_SUPERVISED_CSTR, NULL, &m->call));
}

/* The number in the text that the tool "pid" answers. Enough for this server: a real host has a parser. */
static int32_t number_in(const mcp_supervised_event *e) {
    static const char BEFORE[] = "\"text\":\"";
    const char *at = e->payload != NULL ? strstr(e->payload, BEFORE) : NULL; /* the payload ends with a NUL */
    must(at != NULL, "the answer has a text");
    return (int32_t)strtol(at + strlen(BEFORE), NULL, 10);
}

static void on_event(const mcp_supervised_event *e) {
    if (e->peer == 0) {
        must(e->kind == MCP_SUPERVISED_EVENT_SHUTDOWN, "the only event without a peer is SHUTDOWN");
        over = 1;
        return;
    }
    struct member *m = &fleet[e->peer_data];
    if (e->request != 0 && e->request == m->call && (e->flags & MCP_SUPERVISED_FLAG_COMPLETE)) {
        m->call = 0;
        if (e->kind == MCP_SUPERVISED_EVENT_MESSAGE) {
            int32_t pid = number_in(e);
            must(m->pid == 0 || m->pid == pid, "one life answers");
            m->pid = pid;
            m->answers++;
            m->answers_of_the_next += m->replaced;
        } else {
            must(e->status == MCP_SUPERVISED_E_CLOSED, "the call is lost with the server");
            m->lost++;
        }
    }
    switch (e->kind) {
        case MCP_SUPERVISED_EVENT_CLOSE:
            m->closes++;
            must(e->exit_code == (closing ? 0 : CRASH_CODE), "the exit code");
            break;
        case MCP_SUPERVISED_EVENT_RECONNECT:
            must(e->pid != m->pid, "the replacement is another process");
            m->replaced = 1;
            m->pid = 0;
            break;
        case MCP_SUPERVISED_EVENT_EXHAUSTED: fleet_failed("a server", "was given up");
        default: break; /* later versions may have more kinds */
    }
    m->over |= (e->flags & MCP_SUPERVISED_FLAG_FINAL) != 0;
}

/*
 * One poll for each time is enough where the loop looks at levels: what does not fit comes in the next round, and the loop's other
 * sources have had their turn before. For edges the library is asked until fewer than MAX_EVENTS come.
 */
void fleet_readable(int edges) {
    mcp_supervised_event events[MAX_EVENTS];
    int32_t count;
    do {
        count = check("poll", mcp_supervised_poll(host, events, sizeof events[0], MAX_EVENTS, 0));
        for (int32_t i = 0; i < count; i++) {
            on_event(&events[i]);
        }
    } while (edges && count == MAX_EVENTS);
}

/* Every server has answered that often, since the crashes if there were any. */
static int all_have_answered(int times) {
    for (int i = 0; i < SIZE; i++) {
        if ((crashed ? fleet[i].answers_of_the_next : fleet[i].answers) < times) {
            return 0;
        }
    }
    return 1;
}

static int calls_under_way(void) {
    int count = 0;
    for (int i = 0; i < SIZE; i++) {
        count += fleet[i].call != 0;
    }
    return count;
}

void fleet_tick(void) {
    if (++ticks > MAX_TICKS) {
        fleet_failed("two minutes have passed", "something hangs");
    }
    if (closing) {
        return;
    }
    if (crashed && all_have_answered(ENOUGH)) {
        closing = 1;
        check("shutdown", mcp_supervised_shutdown(host, 10000));
        return;
    }
    const int crash = !crashed && all_have_answered(ENOUGH);
    if (crash && calls_under_way() > 0) {
        return; /* asks for nothing new: soon there are none, and all can crash at once */
    }
    for (int i = 0; i < SIZE; i++) {
        /* Only who serves is asked; while a replacement is on its way E_CLOSED would be the answer. */
        if (fleet[i].call == 0 && mcp_supervised_state(host, fleet[i].peer) == MCP_SUPERVISED_STATE_RUNNING) {
            call(&fleet[i], crash ? "{\"name\":\"crash\",\"arguments\":{\"code\":7}}" : "{\"name\":\"pid\",\"arguments\":{}}");
        }
    }
    crashed |= crash;
    ticks_with_calls++;
}

int fleet_is_done(void) {
    return over;
}

int fleet_end(const char *loop) {
    int answers = 0;
    for (int i = 0; i < SIZE; i++) {
        const struct member *m = &fleet[i];
        must(m->over && m->replaced && m->lost == 1 && m->closes == 2, "every server crashed, was replaced and closed");
        answers += m->answers;
    }
    must(ticks_with_calls > ENOUGH, "the timer of the loop ticked all the time");
    printf("%s: %d servers, %d answers, %d ticks: everything was seen\n", loop, SIZE, answers, ticks);
    mcp_supervised_free(host);
    return EXIT_SUCCESS;
}
