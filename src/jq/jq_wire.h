/*
 * jq_wire.h - what jq/jq.c and its child (jq_child.c) say to each other, over one stream socket that is the child's descriptors 0
 * and 1. Both are the same program on the same machine, so numbers are as the machine has them.
 *
 *     parent: jq_hello, the program                        child: READY, or COMPILE / REFUSED with why
 *     parent: jq_ask, head, body; again, and again          child: an answer for each, in order
 *
 * The parent may send any number of items ahead. The child answers as it goes, and writes at the latest before it waits for more. An
 * item that runs past a limit is answered by LIMIT, and the child ends. The parent trusts no answer: it checks every length.
 */
#ifndef JQ_JQ_WIRE_H
#define JQ_JQ_WIRE_H

#include <stdint.h>

#define JQ_MAGIC 0x716a0001u /* the last two digits: the version of all this */

struct jq_hello {
	uint32_t magic, kind; /* enum jq_kind */
	int64_t memory_bytes, item_ms, compile_ms, cpu_s, output_bytes;
	uint32_t program_n, unused;
};

struct jq_ask {
	uint32_t head_n, body_n;
};

enum jq_answer_kind {
	JQ_A_READY = 1, /* nothing more; so are NO_MATCH, MATCH and SAME */
	JQ_A_COMPILE,   /* text */
	JQ_A_REFUSED,   /* text */
	JQ_A_NO_MATCH,
	JQ_A_MATCH,
	JQ_A_SAME,
	JQ_A_CHANGED,   /* jq_changed, n_changes times jq_changed_place, then their bytes: body, warning, and path, old, new of each */
	JQ_A_FAILED,    /* text */
	JQ_A_LIMIT,     /* uint32_t: enum jq_limit */
};

struct jq_answer {
	uint32_t n; /* bytes that follow */
	uint32_t kind;
};

struct jq_changed {
	uint32_t body_n, warning_n, n_changes, more_changes;
};
struct jq_changed_place {
	uint32_t path_n, old_n, new_n;
};

enum jq_limit { JQ_LIMIT_TIME = 1, JQ_LIMIT_CPU, JQ_LIMIT_MEMORY, JQ_LIMIT_OUTPUT, JQ_LIMIT_CRASH };

#define JQ_TEXT_MAX 2000       /* bytes of jq's messages */
#define JQ_PLACES_MAX 131072   /* bytes of everything in CHANGED but the body */

#endif
