/* The work of a client written by hand, for the floor. */
#ifndef BENCH_FLOOR_WORK_H
#define BENCH_FLOOR_WORK_H

#include <stddef.h>
#include <stdint.h>

/* As large as the library's event. */
struct floor_event {
    uint32_t kind, flags;
    uint64_t request, user_data;
    const char *payload, *method, *body;
    size_t payload_len, body_len;
    uint64_t others[15];
};

/* Writes a request to `out`, which has room for it, and says how long it is; 0 if the params are no object. */
size_t floor_request(char *out, const char *method, size_t method_len, const char *params, size_t params_len, uint64_t now);
long floor_answers(char *buffer, size_t *len);

#endif
