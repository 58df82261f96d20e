/* Stands between a process and its disk: counts, fails, kills at or records the calls that change files below
   one folder. Loaded by LD_PRELOAD, driven through the functions torture_*, and idle until then.

   A record is: kind (1 byte), four numbers (int64), two lengths (int64) and as many bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, NAME = 4, OPEN = 8 };
enum { OFF, COUNT, FAIL, KILL, RECORD };

static int mode, error_number, sticky, kinds, record_fd = -1;
static long calls, moment;
static char root[4096];
static size_t root_length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...)                                                                                \
    static type (*real)(__VA_ARGS__);                                                                        \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t really_write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(fd, data, size);
}

static int really_open(const char *path, int flags, mode_t rights) {
    REAL(int, "open64", const char *, int, ...);
    return real(path, flags, rights);
}

/* --- driven by these */

void torture_root(const char *path) {
    strncpy(root, path, sizeof root - 1);
    root_length = strlen(root);
}

void torture_arm(int how, int which, long at, int number, int goes_on) {
    mode = OFF;
    calls = 0, kinds = which, moment = at, error_number = number, sticky = goes_on;
    mode = how;
}

long torture_calls(void) { return calls; }

void torture_record(const char *path) {
    if (record_fd >= 0) close(record_fd);
    record_fd = path ? really_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
}

/* --- what is below the folder */

static int below(const char *path) {
    size_t length = strlen(path);
    if (!root_length || length < root_length || strncmp(path, root, root_length)) return 0;
    return !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int resolve(int folder, const char *name, char *path, size_t size) {
    if (name[0] == '/') return snprintf(path, size, "%s", name) < (int)size;
    char start[4096];
    if (folder == AT_FDCWD ? !getcwd(start, sizeof start) : !path_of(folder, start, sizeof start)) return 0;
    return snprintf(path, size, "%s/%s", start, name) < (int)size;
}

static int ours(int fd, char *path, size_t size) { return mode && path_of(fd, path, size) && below(path); }

static void put(char kind, int64_t a, int64_t b, int64_t c, const void *x, int64_t nx, const void *y, int64_t ny) {
    if (record_fd < 0) return;
    int64_t head[5] = {a, b, c, nx, ny};
    pthread_mutex_lock(&lock);
    really_write(record_fd, &kind, 1);
    really_write(record_fd, head, sizeof head);
    for (const char *at = x; nx > 0;) { ssize_t n = really_write(record_fd, at, nx); if (n <= 0) break; at += n, nx -= n; }
    if (ny) really_write(record_fd, y, ny);
    pthread_mutex_unlock(&lock);
}

void torture_mark(long number) { put('M', number, 0, 0, 0, 0, 0, 0); }

static int64_t inode(int fd) {
    struct stat found;
    return fstat(fd, &found) ? -1 : (int64_t)found.st_ino;
}

/* Whether this call fails now; errno is set then. */
static int fails(int kind) {
    if (!(kinds & kind) || (mode != COUNT && mode != FAIL && mode != KILL)) return 0;
    long number = __sync_add_and_fetch(&calls, 1);
    if (mode == KILL && number == moment) kill(getpid(), SIGKILL);
    if (mode == FAIL && (number == moment || (sticky && number > moment))) {
        errno = error_number;
        return 1;
    }
    return 0;
}

/* --- contents */

static off_t place(int fd) {
    struct stat found;
    if ((fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &found)) return found.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t size) {
    char path[4096];
    if (!ours(fd, path, sizeof path)) return really_write(fd, data, size);
    if (fails(WRITE)) return -1;
    off_t at = place(fd);
    ssize_t done = really_write(fd, data, size);
    if (done > 0) put('W', inode(fd), at, 0, data, done, 0, 0);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, data, size, at);
    if (fails(WRITE)) return -1;
    ssize_t done = real(fd, data, size, at);
    if (done > 0) put('W', inode(fd), at, 0, data, done, 0, 0);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, parts, count);
    return count ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0; /* fewer than asked for is allowed */
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
    char path[4096];
    if (!ours(fileno(file), path, sizeof path)) return real(data, size, count, file);
    fflush(file);
    size_t all = size * count, done = 0;
    while (done < all) {
        ssize_t now = write(fileno(file), (const char *)data + done, all - done);
        if (now <= 0) break;
        done += now;
    }
    int kept = errno;
    fseeko(file, lseek(fileno(file), 0, SEEK_CUR), SEEK_SET);
    errno = kept;
    return size ? done / size : 0;
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, size);
    if (fails(WRITE)) return -1;
    int failed = real(fd, size);
    if (!failed) put('T', inode(fd), size, 0, 0, 0, 0, 0);
    return failed;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

/* Copies within the kernel are refused, so that whoever asks for one writes. */
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) {
    REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
    char path[4096];
    if (!ours(out, path, sizeof path)) return real(out, in, at, size);
    errno = EINVAL;
    return -1;
}

ssize_t sendfile(int out, int in, off_t *at, size_t size) { return sendfile64(out, in, at, size); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    char path[4096];
    if (!ours(out, path, sizeof path)) return real(in, from, out, to, size, flags);
    errno = EINVAL;
    return -1;
}

/* --- syncs */

static int synced(int fd, int (*real)(int)) {
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd);
    if (fails(SYNC)) return -1;
    struct stat found;
    int failed = mode == RECORD ? 0 : real(fd); /* a replay needs the order, not the disk */
    if (!failed && !fstat(fd, &found)) {
        if (S_ISDIR(found.st_mode)) put('D', 0, 0, 0, path, strlen(path), 0, 0);
        else put('S', (int64_t)found.st_ino, 0, 0, 0, 0, 0, 0);
    }
    return failed;
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return synced(fd, real);
}

void sync(void) {
    REAL(void, "sync", void);
    if (mode == RECORD) put('A', 0, 0, 0, 0, 0, 0, 0);
    else real();
}

/* --- names */

static int opened(int folder, const char *name, int flags, mode_t rights) {
    REAL(int, "openat64", int, const char *, int, ...);
    char path[4096];
    if (!mode || !resolve(folder, name, path, sizeof path) || !below(path)) return real(folder, name, flags, rights);
    if (fails(OPEN)) return -1;
    int unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    int existed = access(path, F_OK) == 0;
    int fd = real(folder, name, flags, rights);
    if (fd >= 0 && !unnamed && (flags & O_CREAT) && !existed) put('C', inode(fd), 0, 0, path, strlen(path), 0, 0);
    if (fd >= 0 && existed && (flags & O_TRUNC)) put('T', inode(fd), 0, 0, 0, 0, 0, 0);
    return fd;
}

#define RIGHTS                                                                                               \
    mode_t rights = 0;                                                                                       \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                     \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        rights = va_arg(more, mode_t);                                                                       \
        va_end(more);                                                                                        \
    }

int open(const char *name, int flags, ...) { RIGHTS return opened(AT_FDCWD, name, flags, rights); }
int open64(const char *name, int flags, ...) { RIGHTS return opened(AT_FDCWD, name, flags, rights); }
int openat(int folder, const char *name, int flags, ...) { RIGHTS return opened(folder, name, flags, rights); }
int openat64(int folder, const char *name, int flags, ...) { RIGHTS return opened(folder, name, flags, rights); }

static int renamed(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
    char first[4096], second[4096];
    int known = mode && resolve(from, old, first, sizeof first) && resolve(to, new, second, sizeof second);
    if (!known || !(below(first) || below(second))) return real(from, old, to, new, flags);
    if (fails(NAME)) return -1;
    int failed = real(from, old, to, new, flags);
    if (!failed) put(flags & RENAME_EXCHANGE ? 'X' : 'R', 0, 0, 0, first, strlen(first), second, strlen(second));
    return failed;
}

int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return renamed(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return renamed(from, old, to, new, flags);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    char first[4096], second[4096];
    int known = mode && resolve(from, old, first, sizeof first) && resolve(to, new, second, sizeof second);
    if (!known || !below(second)) return real(from, old, to, new, flags);
    if (fails(NAME)) return -1;
    int failed = real(from, old, to, new, flags);
    if (!failed) put('L', 0, 0, 0, first, strlen(first), second, strlen(second));
    return failed;
}

int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int folder, const char *name, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char path[4096];
    if (!mode || !resolve(folder, name, path, sizeof path) || !below(path)) return real(folder, name, flags);
    if (fails(NAME)) return -1;
    int failed = real(folder, name, flags);
    if (!failed) put(flags & AT_REMOVEDIR ? 'Q' : 'U', 0, 0, 0, path, strlen(path), 0, 0);
    return failed;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t rights) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char path[4096];
    if (!mode || !resolve(folder, name, path, sizeof path) || !below(path)) return real(folder, name, rights);
    if (fails(NAME)) return -1;
    int failed = real(folder, name, rights);
    if (!failed) put('K', 0, 0, 0, path, strlen(path), 0, 0);
    return failed;
}

int mkdir(const char *name, mode_t rights) { return mkdirat(AT_FDCWD, name, rights); }
