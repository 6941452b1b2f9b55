/* policy_parse.h - the parts of reading a queue's settings. Not for other layers. */
#ifndef CORE_POLICY_PARSE_H
#define CORE_POLICY_PARSE_H

#include "core/policy.h"

#define ERROR_TYPE_MAX FAILURE_TYPE_MAX
#define PATTERN_MAX 1024
#define RULE_FINGERPRINT_MAX 256 /* as FINGERPRINT_GIVEN_MAX */
#define VISIBILITY_MIN_MS 1000
#define VISIBILITY_MAX_MS ((int64_t)12 * 3600 * 1000)
#define BACKOFF_MAX_MS ((int64_t)30 * 86400000)
#define RETENTION_MIN_MS 1000
#define REDRIVES_LIMIT 1000
#define CRASH_LIMIT_LIMIT 1000

void policy_defaults(struct policy *p);
/* d may be NULL. Text goes into arena; compiled patterns are in p->rules also when it fails: policy_clear. */
enum dlq_code policy_parse(const struct doc *d, struct arena *arena, struct policy *p, struct dlq_err *err) MUST_USE;
void policy_clear(struct policy *p);
/* p->rules from classify, permanent_when, transient_when of the policy map d. */
enum dlq_code rules_parse(const struct doc *d, struct arena *arena, struct policy *p, struct dlq_err *err) MUST_USE;
void policy_write(const struct policy *p, struct json_out *j);
/* The keys of a policy, for errors about misplaced ones. */
extern const char *const policy_keys[];
extern const size_t policy_keys_len;

#endif
