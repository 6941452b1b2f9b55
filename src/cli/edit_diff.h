/* edit_diff.h - what is different between two bodies, for a person. */
#ifndef CLI_EDIT_DIFF_H
#define CLI_EDIT_DIFF_H

#include "base/base.h"

/* To stdout: place by place where both are JSON, else line by line. */
void edit_diff(struct str old, struct str new_body);

#endif
