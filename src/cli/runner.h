/*
 * runner.h - runs one command for one message: body on stdin, its own process group, a time limit, the end of stderr
 * kept. The calling thread waits in poll(2); several threads may run commands at once.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "base/base.h"

#define RUN_TAIL 4096   /* bytes of stderr kept */
#define RUN_GRACE_MS 2000 /* between SIGTERM and SIGKILL */

enum run_end {
	RUN_EXIT,       /* status: exit code */
	RUN_SIGNAL,     /* status: signal number */
	RUN_TIMEOUT,    /* killed after timeout_ms */
	RUN_STOPPED,    /* killed because stop_fd became readable, or tick said so */
	RUN_NOT_STARTED /* status: errno */
};

struct run {
	/* in */
	char *const *argv;      /* argv[0] is looked up in PATH; ended by NULL */
	char *const *envp;
	struct str body;
	int64_t timeout_ms;     /* 0: none */
	int stop_fd;            /* readable: end it now; -1: none */
	int64_t tick_ms;        /* tick is called that often while it runs; 0: never */
	bool (*tick)(void *arg);/* false: end it now */
	void *arg;
	/* out */
	enum run_end end;
	int status;
	char tail[RUN_TAIL];    /* the end of stderr; bytes as they are */
	size_t tail_n;
};
void run_command(struct run *r);

#endif
