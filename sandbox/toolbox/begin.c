/* Becomes a command: gives up all rights but the owner's, puts up the walls, and executes the shell.
 *
 *     begin UID GID DIRECTORY SHELL SCRIPT
 *
 * The guest starts it once for each command (sandbox/guest/beginning.py). It is small and static, because a fork of the
 * guest's own interpreter takes five times as long as all that is done here. What goes wrong is said on REPORT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors beside the three of the command; closed when the shell is executed. RULES is open where the kernel has
 * Landlock, ANNOUNCING where it can announce calls. The environment comes as a file of strings that end in NUL: of
 * its own, a program that starts with other effective ids than real ones loses what its loader would heed. */
enum { REPORT = 3, RULES, ANNOUNCING, PLAIN, ENVIRONMENT, END };

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

static void fail(const char *reason)
{
    send(REPORT, reason, strlen(reason), MSG_NOSIGNAL);
    _exit(127);
}

static void check(long result)
{
    if (result < 0)
        fail(strerror(errno));
}

static void take_ids(uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct self = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct own[2], none[2] = {{0}};

    /* Under no_new_privs, older kernels (6.12 for one) start a program of other effective ids than real ones with the
     * real ones alone, here root's, and with no capability in effect. Newer ones leave the effective ids as they are. */
    check(syscall(SYS_capget, &self, own));
    for (int word = 0; word < 2; word++)
        own[word].effective = own[word].permitted;
    check(syscall(SYS_capset, &self, own));
    check(setresgid(gid, gid, gid));
    check(setresuid(uid, uid, uid));
    /* For uid 0 the change of ids keeps the capabilities; for others this finds nothing left to drop. */
    check(syscall(SYS_capset, &self, none));
    /* Until the shell is executed, other commands may not look into this process. */
    check(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

/* Installs the filter in a file. The listener's descriptor with that flag, otherwise 0; negative when it fails.
 * An empty file is that of a machine for which no filter is written. */
static long filter(int file, unsigned flags)
{
    static struct sock_filter code[BPF_MAXINSNS];
    ssize_t size = pread(file, code, sizeof code, 0);
    struct sock_fprog program = {size > 0 ? size / sizeof *code : 0, code};

    return size <= 0 ? size : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void hand_over(int listener)
{
    char control[CMSG_SPACE(sizeof listener)] = {0};
    struct iovec text = {"listener", 8};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof listener);
    memcpy(CMSG_DATA(rights), &listener, sizeof listener);
    check(sendmsg(REPORT, &message, MSG_NOSIGNAL));
    close(listener);
}

static char **environment(void)
{
    struct stat file;
    size_t count = 0;

    check(fstat(ENVIRONMENT, &file));
    char *text = malloc(file.st_size + 1);
    char **found = malloc((file.st_size + 1) * sizeof *found);
    if (!text || !found || pread(ENVIRONMENT, text, file.st_size, 0) != file.st_size)
        fail("its environment cannot be read");
    text[file.st_size] = 0;
    for (char *each = text; each < text + file.st_size; each += strlen(each) + 1)
        found[count++] = each;
    found[count] = NULL;
    return found;
}

int main(int argc, char **argv)
{
    long listener = -1;

    if (argc != 6)
        fail("it was started with the wrong arguments");
    for (int fd = REPORT; fd < END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    check(setsid());
    take_ids(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
    check(chdir(argv[3]));
    if (fcntl(RULES, F_GETFD) >= 0)
        check(syscall(SYS_landlock_restrict_self, RULES, 0));
    /* An engine may allow filters but no listener: the order of the streams is then approximate. */
    if (fcntl(ANNOUNCING, F_GETFD) >= 0)
        listener = filter(ANNOUNCING, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener >= 0)
        hand_over(listener);
    else
        check(filter(PLAIN, 0));
    execve(argv[4], (char *[]){"sh", "-c", argv[5], NULL}, environment());
    fail(strerror(errno));
}
