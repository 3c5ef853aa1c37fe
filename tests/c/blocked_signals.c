/*
 * H3, P3, P5: a host that blocks every signal, in all its threads, and never unblocks one. Servers start with none blocked, exits
 * are seen, groups are ended, and no signal of ours is left pending. With "sigchld" the host has asked for the handler, too, which
 * can never run.
 */
#include "host.h"

static mcp_supervised_peer peer;

static void nothing_is_pending(void) {
    sigset_t pending;
    EQUAL(sigpending(&pending), 0);
    CHECK(!sigismember(&pending, SIGPIPE));
}

static void the_mask_is_still_full(void) {
    sigset_t now;
    EQUAL(sigprocmask(SIG_SETMASK, NULL, &now), 0);
    for (int number = 1; number < 32; number++) {
        CHECK(number == SIGKILL || number == SIGSTOP || sigismember(&now, number));
    }
}

static void the_server_has_none_blocked(void) {
    const mcp_supervised_event *e;
    call(peer, "mask", "signals", "{}");
    do {
        e = next_event();
    } while (!has_id(e, "mask"));
    CHECK(strstr(e->payload, "\\\"SigBlk\\\":\\\"0000000000000000\\\"") != NULL);
}

/* Lines go on to a server that has just died: a write may meet the dead end of its pipe. */
static void writes_to_the_dead(void) {
    kill_server(peer);
    for (;;) {
        int32_t status = try_call(peer, "late", "pid", "{}");
        CHECK(status == MCP_SUPERVISED_OK || status == MCP_SUPERVISED_E_CLOSED);
        const mcp_supervised_event *e = next_event();
        if (e->kind == MCP_SUPERVISED_EVENT_CLOSE) {
            EQUAL(e->signal, SIGKILL);
        }
        if (e->kind == MCP_SUPERVISED_EVENT_RECONNECT) {
            break;
        }
    }
    nothing_is_pending();
}

int main(int argc, char **argv) {
    sigset_t all;
    mcp_supervised_config *config = NULL;
    begin(argc, argv, 1);
    sigfillset(&all);
    EQUAL(sigprocmask(SIG_SETMASK, &all, NULL), 0);
    OK(mcp_supervised_config_new(&config));
    OK(mcp_supervised_config_sigchld(config, strcmp(argv[2], "sigchld") == 0));
    OK(mcp_supervised_new(config, &host, NULL, 0));
    mcp_supervised_config_free(config);

    mcp_supervised_spec *spec = demo((const char *const[]){"--ignore-eof", NULL});
    OK(mcp_supervised_spec_restart(spec, MCP_SUPERVISED_UNLIMITED, 1, 60000));
    OK(mcp_supervised_spec_stop_grace(spec, 20, MCP_SUPERVISED_NO_TIMEOUT));
    peer = launch(spec);
    answers(peer);
    the_server_has_none_blocked();
    for (int i = 0; i < 10; i++) {
        writes_to_the_dead();
        answers(peer);
    }
    /* The timer of the grace runs, and SIGTERM reaches the server. */
    OK(mcp_supervised_close(host, peer));
    EQUAL(await(MCP_SUPERVISED_EVENT_CLOSE)->signal, SIGTERM);
    the_mask_is_still_full();
    nothing_is_pending();
    EQUAL(waitpid(-1, NULL, WNOHANG), -1);
    EQUAL(errno, ECHILD);
    end();
    printf("done\n");
    return 0;
}
