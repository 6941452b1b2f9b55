/* jq_child_int.h - the parts of the child among each other. Not for other files. */
#ifndef JQ_JQ_CHILD_INT_H
#define JQ_JQ_CHILD_INT_H

#include <sys/resource.h>

#include "base/base.h"
#include "jq/jq_wire.h"

/* The runtimes of sanitizers need more system calls and address space than the child is otherwise left with. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- jq_child_confine.c; each returns NULL, or what the system refused, with errno ---- */

/* No new privileges, no capabilities, no descriptors above 2, and nobody looks in. */
const char *child_drop_privileges(void);
/* base: child_address_space() at the start; what hello allows counts from there. */
const char *child_set_limits(rlim_t base, const struct jq_hello *hello);
/* The system calls that are left. After it nothing can be opened. */
const char *child_set_filter(void);
/* Bytes of address space in use; 0 when /proc is not there. */
rlim_t child_address_space(void);

#endif
