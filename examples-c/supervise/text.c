#define _POSIX_C_SOURCE 200809L

#include "text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t text_len(const struct text *text) {
    return text->end - text->from;
}

const char *text_begin(const struct text *text) {
    return text->data != NULL ? text->data + text->from : "";
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

bool text_is(const struct text *text, const char *string) {
    size_t len = strlen(string);
    return text_len(text) == len && memcmp(text_begin(text), string, len) == 0;
}

char *text_reserve(struct text *text, size_t bytes) {
    if (bytes <= text->room - text->end) {
        return text->data + text->end;
    }
    /* Moved to the front only when more is free there than has to be moved, so that each byte moves once on average. */
    size_t len = text_len(text);
    if (text->from > len && bytes <= text->room - len) {
        memmove(text->data, text->data + text->from, len);
        text->from = 0;
        text->end = len;
        return text->data + len;
    }
    size_t room = text->room < 4096 ? 4096 : text->room;
    while (room - text->end < bytes && room <= SIZE_MAX / 2) {
        room *= 2;
    }
    char *data = room - text->end < bytes ? NULL : realloc(text->data, room);
    if (data == NULL) {
        /* Nothing can be told without memory. The server sees the end of its input. */
        fputs("supervise: out of memory\n", stderr);
        exit(1);
    }
    text->data = data;
    text->room = room;
    return data + text->end;
}

void text_grew(struct text *text, size_t bytes) {
    text->end += bytes;
}

void text_take(struct text *text, size_t bytes) {
    text->from += bytes;
    if (text->from < text->end) {
        return;
    }
    text->from = 0;
    text->end = 0;
    /* A line of many megabytes must not be paid for until the end of the program. */
    if (text->room > 4 << 20) {
        text_free(text);
    }
}

void text_add(struct text *text, const char *bytes, size_t len) {
    if (len > 0) {
        memcpy(text_reserve(text, len), bytes, len);
        text_grew(text, len);
    }
}

void text_put(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_printf(struct text *text, const char *format, ...) {
    char *at = text_reserve(text, 256);
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(at, 256, format, arguments);
    va_end(arguments);
    if (len > 0) {
        text_grew(text, len < 256 ? (size_t)len : 255);
    }
}

void text_json(struct text *text, const char *bytes, size_t len) {
    text_put(text, "\"");
    size_t plain = 0; /* from here on nothing needed an escape */
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        text_add(text, bytes + plain, i - plain);
        plain = i + 1;
        if (c == '\n') {
            text_put(text, "\\n");
        } else if (c < 0x20) {
            text_printf(text, "\\u%04x", (unsigned)c);
        } else {
            text_printf(text, "\\%c", c);
        }
    }
    text_add(text, bytes + plain, len - plain);
    text_put(text, "\"");
}

/* How many bytes at the beginning are one control character; 0 if it is another one. */
static size_t control(const unsigned char *at, size_t len) {
    if (at[0] < 0x20 || at[0] == 0x7f) {
        return 1;
    }
    /* U+0080 to U+009F: some terminals obey them like their two-byte forms. */
    return at[0] == 0xc2 && len > 1 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

void text_visible(struct text *text, const char *bytes, size_t len, const char *keep) {
    const unsigned char *at = (const unsigned char *)bytes;
    size_t plain = 0; /* from here on nothing needed to be made visible */
    for (size_t i = 0; i < len; i++) {
        size_t hidden = control(at + i, len - i);
        if (hidden == 0 || (bytes[i] != '\0' && strchr(keep, bytes[i]) != NULL)) {
            continue;
        }
        text_add(text, bytes + plain, i - plain);
        plain = i + hidden;
        text_printf(text, "\\x%02x", hidden == 1 ? (unsigned)at[i] : (unsigned)at[i + 1]);
        i = plain - 1;
    }
    text_add(text, bytes + plain, len - plain);
}

void text_duration(struct text *text, uint64_t ms) {
    uint64_t s = ms / 1000;
    if (ms < 1000) {
        text_printf(text, "%" PRIu64 " ms", ms);
    } else if (s < 60 && ms % 1000 >= 100) {
        text_printf(text, "%" PRIu64 ".%" PRIu64 " s", s, ms % 1000 / 100);
    } else if (s < 60) {
        text_printf(text, "%" PRIu64 " s", s);
    } else {
        /* The two largest units, the second one unless it is 0. */
        bool hours = s >= 3600;
        uint64_t first = hours ? s / 3600 : s / 60;
        uint64_t second = hours ? s / 60 % 60 : s % 60;
        text_printf(text, "%" PRIu64 " %s", first, hours ? "h" : "min");
        if (second != 0) {
            text_printf(text, " %" PRIu64 " %s", second, hours ? "min" : "s");
        }
    }
}

const char *signal_name(int number) {
    switch (number) {
    case SIGABRT: return "SIGABRT";
    case SIGALRM: return "SIGALRM";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGHUP: return "SIGHUP";
    case SIGILL: return "SIGILL";
    case SIGINT: return "SIGINT";
    case SIGKILL: return "SIGKILL";
    case SIGPIPE: return "SIGPIPE";
    case SIGQUIT: return "SIGQUIT";
    case SIGSEGV: return "SIGSEGV";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    /* What POSIX leaves to the system. */
#ifdef SIGSYS
    case SIGSYS: return "SIGSYS";
#endif
#ifdef SIGTRAP
    case SIGTRAP: return "SIGTRAP";
#endif
#ifdef SIGXCPU
    case SIGXCPU: return "SIGXCPU";
#endif
#ifdef SIGXFSZ
    case SIGXFSZ: return "SIGXFSZ";
#endif
#ifdef SIGPROF
    case SIGPROF: return "SIGPROF";
#endif
#ifdef SIGVTALRM
    case SIGVTALRM: return "SIGVTALRM";
#endif
    default: return NULL;
    }
}
