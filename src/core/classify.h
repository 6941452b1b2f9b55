/* classify.h - compiled patterns of classify rules. */
#ifndef CORE_CLASSIFY_H
#define CORE_CLASSIFY_H

#include "core/policy.h"

/* *code is released by pattern_free. False: why and where (a byte of the pattern, from 1) it is not a pattern. */
bool pattern_compile(struct str source, void **code, char why[160], size_t *at) MUST_USE;
void pattern_free(void *code); /* takes NULL */
/* Whether the pattern is found in the subject, within fixed limits of work; past them it is not. */
bool pattern_found(const void *code, struct str subject);

#endif
