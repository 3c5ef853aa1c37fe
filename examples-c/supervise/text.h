/* Text that grows, and the ways supervise writes values into it. */
#ifndef SUPERVISE_TEXT_H
#define SUPERVISE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are added behind and taken from the front. All zero is an empty one. */
struct text {
    char *data;
    size_t from; /* what lies before was taken already */
    size_t end;
    size_t room;
};

size_t text_len(const struct text *text);
/* The first byte; never NULL. */
const char *text_begin(const struct text *text);
void text_free(struct text *text);
bool text_is(const struct text *text, const char *string);

/* Room for so many bytes behind the end, to be filled by the caller, who then calls text_grew. */
char *text_reserve(struct text *text, size_t bytes);
void text_grew(struct text *text, size_t bytes);
/* Takes so many bytes from the front. */
void text_take(struct text *text, size_t bytes);

void text_add(struct text *text, const char *bytes, size_t len);
void text_put(struct text *text, const char *string);
/* At most 255 bytes: for numbers and names, not for what a server wrote. */
void text_printf(struct text *text, const char *format, ...);
/* A JSON string with its quotes. The bytes must be UTF-8. */
void text_json(struct text *text, const char *bytes, size_t len);
/* What a server wrote, for a reader: control characters are made visible. Those in `keep` are left as they are. */
void text_visible(struct text *text, const char *bytes, size_t len, const char *keep);
/* "250 ms", "1.5 s", "2 min 5 s", "3 h". */
void text_duration(struct text *text, uint64_t ms);

/* "SIGKILL"; NULL for a number that has no name. */
const char *signal_name(int number);

#endif
