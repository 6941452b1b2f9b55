/*
 * jq.h - jq programs over messages, run by libjq in a confined child process: no files, no network, no environment, limits on
 * CPU time, memory and output. The parent's side; what runs inside the child is jq_child.c, which the parent never calls.
 *
 * A struct jq is one child with one compiled program. A program that runs away kills its child and nothing else: the call says
 * which item did it, and the struct is dead from then on (jq_dead). One thread at a time uses a struct jq.
 *
 *     JQ_WHERE  input: the message document: the members of `head` (JSON object text) and "body": the JSON value, or the text of a
 *               body that is not JSON, or null and "body_base64" for one that is not UTF-8. MATCH when the output is neither
 *               false nor null; no output is no match.
 *     JQ_EDIT   input: the JSON body alone. The output becomes the new body; bytes that the program did not touch stay as
 *               they were (jq/json_merge.h). No output, or a body that is not JSON: FAILED.
 *
 * More than one output is FAILED in both.
 *
 * env, $ENV, input, inputs, input_filename, input_line_number, debug, stderr, halt, halt_error, import, include, modulemeta,
 * get_search_list and @sh are refused when the program is compiled, each with what to do instead.
 */
#ifndef JQ_JQ_H
#define JQ_JQ_H

#include "base/base.h"

struct jq;

#define JQ_PROGRAM_MAX 65536 /* bytes of a program */
#define JQ_CHANGES_MAX 100   /* changes told per item; `more_changes` counts the others */
#define JQ_DEPTH_MAX 256     /* nesting of a body; a deeper one is FAILED */

enum jq_kind { JQ_WHERE, JQ_EDIT };

struct jq_options {
	const char *program;     /* the executable that runs jq_child_main when its argv[1] is "jq-child"; NULL: DLQ_BAD_REQUEST, jq is not available here */
	int64_t memory_bytes;    /* address space of the child above its start, at most 1 GiB; 0: 64 MiB. A body of more than a quarter is FAILED */
	int64_t item_ms;         /* wall time for one item; 0: 1000 */
	int64_t cpu_s;           /* CPU seconds of the child in all; 0: 600 */
	int64_t output_bytes;    /* one new body at most; 0: 16 MiB */
};

/* Compiles (tens of ms): BAD_REQUEST with jq's own message and the place, TIMEOUT, SYSTEM (no child could be started, or it may not
 * confine itself here). o is not kept. Any thread. */
enum dlq_code jq_open(const struct jq_options *o, enum jq_kind kind, struct str program, struct jq **out, struct dlq_err *err) MUST_USE;
void jq_close(struct jq *j); /* takes NULL; ends and reaps the child */
bool jq_dead(const struct jq *j); /* also one that was killed while it had nothing to do */
bool jq_is(const struct jq *j, enum jq_kind kind, struct str program); /* for a cache */
int jq_pid(const struct jq *j); /* tests */

enum jq_verdict { JQ_NO_MATCH, JQ_MATCH, JQ_SAME, JQ_CHANGED, JQ_FAILED };

/* One place that an edit changes: path as jq writes it (".items[2].sku"), old and new JSON text, cut for people; empty old: added, empty new: removed. */
struct jq_change { struct str path, old, new; };

struct jq_item {
	struct str head, body;   /* in; borrowed */
	enum jq_verdict verdict; /* out */
	struct str new_body;     /* JQ_CHANGED */
	struct str error;        /* JQ_FAILED: jq's message */
	struct jq_change *changes; int n_changes, more_changes; /* JQ_CHANGED */
	struct str warning;      /* JQ_CHANGED: what jq could not keep ("12345678901234567890 (.a) became 12345678901234567000 at .b"); or empty */
};

/*
 * Runs n items (1 to 1000), in order. Outputs in the arena: for JQ_EDIT up to output_bytes each, so few at a time where bodies are
 * large. OK also when single items FAILED. TIMEOUT, TOO_LARGE or BAD_REQUEST (memory, or jq itself broke) when item *at ran past a
 * limit, SYSTEM when the child was lost at it: those before it are done, the child is gone. The detail begins "item 3 of 10: ".
 * A child that is out of memory after more than 1000 items is replaced by a new one and the item tried again: libjq 1.6 leaks a little
 * in some functions, and a scan of a million must not end by that.
 */
enum dlq_code jq_run(struct jq *j, struct jq_item *items, int n, struct arena *a, int *at, struct dlq_err *err) MUST_USE;

#endif
