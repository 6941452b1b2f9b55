/* main.c - the entry, and nothing else: tests link the rest. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
