/* jq_child.h - the child's side: linked into the program that jq_options.program names, called when argv[1] is "jq-child". */
#ifndef JQ_JQ_CHILD_H
#define JQ_JQ_CHILD_H

/* Confines itself, then serves the parent on descriptors 0 and 1 until it closes them. Returns an exit code. */
int jq_child_main(void);

#endif
