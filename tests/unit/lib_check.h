/* lib_check.h - what the unit tests share: cmocka, and settings documents in one call. */
#ifndef UNIT_LIB_CHECK_H
#define UNIT_LIB_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy.h"

/* s equals the NUL-ended text; shows both when not. */
#define assert_str(s, z)                                                                                               \
	do {                                                                                                           \
		char *copy_ = mem_strdup(s);                                                                           \
		assert_string_equal(copy_, z);                                                                         \
		mem_free(copy_);                                                                                       \
	} while (0)
/* The detail of err holds the text. */
#define assert_says(err, part)                                                                                         \
	do {                                                                                                           \
		if (!strstr((err)->detail, part))                                                                      \
			fail_msg("\"%s\" is not in \"%s\"", part, (err)->detail);                                      \
	} while (0)

/* A queue's settings from YAML; the name is "q". NULL with err set when refused. The caller unrefs. */
struct queue_config *config_of(const char *yaml, struct dlq_err *err);
/* The canonical JSON of q; the caller frees it with mem_free. */
char *config_text(const struct queue_config *q);
/* Root of the document, NULL with err set. Lives in a. */
struct doc *yaml_of(struct arena *a, const char *text, struct dlq_err *err);
struct doc *json_of(struct arena *a, const char *text, struct dlq_err *err);

#endif
