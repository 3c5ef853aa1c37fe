/*
 * B2, B3, B6: with a manual clock nothing happens but what `advance` makes happen, to the nanosecond. Real time passes only
 * where a process has to end, and that the descriptor tells.
 */
#include "host.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static void make_host(void) {
    mcp_supervised_config *config = NULL;
    OK(mcp_supervised_config_new(&config));
    OK(mcp_supervised_config_manual_clock(config, 1));
    OK(mcp_supervised_new(config, &host, NULL, 0));
    mcp_supervised_config_free(config);
}

static void advance(uint64_t ns) {
    OK(mcp_supervised_advance(host, ns));
}

/* What a loop of the host's own sees next, log lines left out. */
static const mcp_supervised_event *next_in_loop(void) {
    static mcp_supervised_event event;
    do {
        wait_readable();
    } while (OK(mcp_supervised_poll(host, &event, sizeof event, 1, 0)) == 0 || event.kind == MCP_SUPERVISED_EVENT_LOG);
    return &event;
}

static const mcp_supervised_event *expect_in_loop(uint32_t kind) {
    const mcp_supervised_event *e = next_in_loop();
    EQUAL(e->kind, kind);
    return e;
}

/* Nothing is left to do at this time of the clock: two polls bring nothing, and the descriptor is silent. */
static void nothing_happens(void) {
    mcp_supervised_event event;
    EQUAL(mcp_supervised_poll(host, &event, sizeof event, 1, 0), 0);
    EQUAL(mcp_supervised_poll(host, &event, sizeof event, 1, 0), 0);
    CHECK(!is_readable());
}

/* The server dies at this time of the clock; the CLOSE. */
static const mcp_supervised_event *dies(mcp_supervised_peer peer) {
    kill_server(peer);
    expect_in_loop(MCP_SUPERVISED_EVENT_DRAIN);
    const mcp_supervised_event *e = expect_in_loop(MCP_SUPERVISED_EVENT_CLOSE);
    EQUAL(e->signal, SIGKILL);
    return e;
}

/* It dies and is replaced: not a nanosecond before the delay is over. */
static void dies_and_is_replaced(mcp_supervised_peer peer, uint32_t attempt, uint64_t delay_ms) {
    const mcp_supervised_event *e = dies(peer);
    CHECK(e->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT);
    EQUAL(e->attempt, attempt);
    EQUAL(e->delay_ms, delay_ms);
    advance(delay_ms * MS - 1);
    nothing_happens();
    EQUAL(OK(mcp_supervised_state(host, peer)), MCP_SUPERVISED_STATE_WAITING);
    advance(1);
    CHECK(is_readable());
    EQUAL(expect_in_loop(MCP_SUPERVISED_EVENT_RECONNECT)->attempt, attempt);
}

static mcp_supervised_peer with_budget(uint32_t max, uint64_t delay_ms, uint64_t window_ms) {
    mcp_supervised_spec *spec = demo(NULL);
    OK(mcp_supervised_spec_restart(spec, max, delay_ms, window_ms));
    return launch(spec);
}

/* A window of 10 s is opened by a death; `after` nanoseconds later comes the second. */
static void second_death(uint64_t after, int is_in_window) {
    make_host();
    mcp_supervised_peer peer = with_budget(1, 5, 10000);
    advance(3 * SECOND); /* the window opens with the first restart, whenever that is */
    dies_and_is_replaced(peer, 1, 5);
    advance(after - 5 * MS);
    if (is_in_window) {
        CHECK(!(dies(peer)->flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT));
        const mcp_supervised_event *e = expect_in_loop(MCP_SUPERVISED_EVENT_EXHAUSTED);
        EQUAL(e->max_restarts, 1);
        CHECK(e->flags & MCP_SUPERVISED_FLAG_FINAL);
        EQUAL(OK(mcp_supervised_state(host, peer)), MCP_SUPERVISED_STATE_CLOSED);
    } else {
        dies_and_is_replaced(peer, 1, 5);
    }
    end();
}

/* B3: the window does not slide. Three deaths fit one width across a boundary; nothing that is served clears the count. */
static void window_tumbles(void) {
    make_host();
    mcp_supervised_peer peer = with_budget(2, 1, 10000);
    dies_and_is_replaced(peer, 1, 1); /* opens the window at 0 */
    advance(9 * SECOND);
    dies_and_is_replaced(peer, 2, 1);
    advance(SECOND); /* 10 s + 2 ms: a new window */
    dies_and_is_replaced(peer, 1, 1);
    dies_and_is_replaced(peer, 2, 1);
    answers(peer);
    dies(peer);
    expect_in_loop(MCP_SUPERVISED_EVENT_EXHAUSTED);
    end();
}

/* B6: the graces of a close stand still as well. */
static void ladder(void) {
    static const char *const STUBBORN[] = {"--ignore-eof", "--ignore-sigterm", NULL};
    make_host();
    mcp_supervised_spec *spec = demo(STUBBORN);
    OK(mcp_supervised_spec_stop_grace(spec, 6000, 2000));
    mcp_supervised_peer peer = launch(spec);
    answers(peer);
    OK(mcp_supervised_close(host, peer));
    expect_in_loop(MCP_SUPERVISED_EVENT_DRAIN);
    nothing_happens();
    advance(6 * SECOND);
    CHECK(is_readable());
    nothing_happens(); /* SIGTERM, which it ignores */
    advance(2 * SECOND - 1);
    nothing_happens();
    advance(1);
    EQUAL(expect_in_loop(MCP_SUPERVISED_EVENT_CLOSE)->signal, SIGKILL);
    end();
}

int main(int argc, char **argv) {
    begin(argc, argv, 0);
    second_death(10 * SECOND - 1, 1);
    second_death(10 * SECOND, 1);
    second_death(10 * SECOND + 1, 0);
    window_tumbles();
    ladder();
    printf("done\n");
    return 0;
}
