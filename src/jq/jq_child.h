/*
 * jq_child.h - the child's side: linked into the program that jq_options.program names, called when argv[1] is "jq-child".
 *
 * Before it reads a program it gives up what it has: no new privileges, no capabilities, no descriptors but the two, not dumpable,
 * address space and CPU time limited, no new descriptors, no processes, no files; then a seccomp filter that lets through what
 * malloc, the clock and reading and writing those descriptors need. All else answers EPERM, and what only an attack would call
 * (exec, fork, sockets, ptrace, signals to others) ends the process. A system that has seccomp but does not let it be used (some
 * containers) gets a refusal, not a weaker child; only on a kernel built without it does the child go on with the limits alone.
 * Builds with a sanitizer have no limit on address space (the sanitizer maps terabytes; what is resident is watched instead), and
 * no filter and no limit on descriptors and processes (its runtime opens files of /proc and looks for leaks with a process).
 *
 * The child ends when its parent does: it sees the end of its input, and while it works it looks at its parent's id several times a
 * second. PR_SET_PDEATHSIG would not do: it fires when the thread ends that started the child, not the process.
 */
#ifndef JQ_JQ_CHILD_H
#define JQ_JQ_CHILD_H

/* Confines itself, then serves the parent on descriptors 0 and 1 until it closes them. Returns an exit code. */
int jq_child_main(void);

#endif
