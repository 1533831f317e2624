/* Starts one program of the toolbox with the toolbox's own loader and libraries, in any image.
 *
 * Built statically, once a program: -DNAME="git". The image's loader, libraries and preloads play no part, and no
 * environment variable is needed, so that nothing of the toolbox reaches the commands' environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP "/codeagent"

int main(int argc, char **argv)
{
    static char *before[] = {TOP "/lib/loader", "--inhibit-cache", "--library-path", TOP "/lib",
                             "--argv0", TOP "/bin/" NAME, TOP "/libexec/" NAME};
    const size_t count = sizeof before / sizeof *before;
    char **args = calloc(count + (argc > 0 ? argc : 1), sizeof *args);

    if (!args)
        return 127;
    memcpy(args, before, sizeof before);
    for (int i = 1; i < argc; i++)
        args[count + i - 1] = argv[i];
    /* An image's preloads and audit modules were built for the image's own C library. */
    unsetenv("LD_PRELOAD");
    unsetenv("LD_AUDIT");
    /* git looks for itself here when it starts itself. */
    if (!strcmp(NAME, "git"))
        setenv("GIT_EXEC_PATH", TOP "/bin", 1);
    execv(args[0], args);
    perror("codeagent: the toolbox does not start");
    return 127;
}
