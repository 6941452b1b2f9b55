/* jq_scan.h - jq programs as text: the names they may not use here, and where an error is. Pure; reads untrusted text, fuzzed. */
#ifndef JQ_JQ_SCAN_H
#define JQ_JQ_SCAN_H

#include "base/base.h"

/*
 * BAD_REQUEST for the first name of the list in jq.h that the program uses, with line, column and what to do instead. Names in texts,
 * comments, field accesses (.input) and as keys ({input: 1}) are free; code inside "\(...)" counts. Syntax is jq's to check.
 */
enum dlq_code jq_scan(struct str program, struct dlq_err *err) MUST_USE;

/*
 * What jq's compiler says, for people: from "jq: error: WHAT (Unix shell quoting issues?) at <top-level>, line 2:", the line, and as
 * many spaces as stand before the place, to "line 2, column 5: WHAT". Other messages as they are, cut. Appended to out.
 */
void jq_shape_message(struct str program, struct str message, struct buf *out);

#endif
