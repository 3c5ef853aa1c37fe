/* What the parts of the benchmark host share. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include "common.h"

#include <mcp_supervised.h>

/* Events taken by one poll. */
#define BATCH 64

extern mcp_supervised *host;
extern const char *server;
extern mcp_supervised_event events[BATCH];

/* Ends the run with the library's own words. */
void fail(const char *what, int32_t status);
int32_t check(const char *what, int32_t status);

/* A server with up to two options, started. Its requests time out after `timeout_ms`, 0 for the library's default. */
mcp_supervised_peer launch_with(const char *first, const char *second, uint64_t timeout_ms);
mcp_supervised_peer launch(const char *option);

/* One request of a tool. `arguments` is the text of a JSON object. */
void call(mcp_supervised_peer peer, const char *tool, const char *arguments, uint64_t user_data);
/* The same text every time, so that the figures are not those of snprintf. */
void echo(mcp_supervised_peer peer);
int32_t take(void);
/* How many of the events taken are answers. Anything that must not happen ends the run. */
long answers(int32_t taken);
void ask_and_wait(mcp_supervised_peer peer);
/* `count` calls with `width` of them under way all the time; seconds and cpu seconds they took. */
void pipelined(mcp_supervised_peer peer, long width, long count, double *took, double *used);
/* Polls for so many seconds, whatever comes. */
void settle(double seconds);

/* host_life.c */
void restart(long count);
void deaths(long count);
void spawns(long count, long mib);

/* host_idle.c */
void idle(long count);
void busy(long count);
void quiet(long count);
void memory(long count, const char *how);

/* host_many.c */
void many(long peers, long count);
void fair(long peers, long rounds);

#endif
