/* A disk as Linux has it, to be loaded with LD_PRELOAD: what was written to the files of a store, and is not yet on the
 * disk, is kept beside them (FILE.pending), and what is on the disk as well (FILE.disk).
 *
 * Writing changes what is shown. A synchronisation brings it to the disk. One that fails drops it, and is not told of
 * again: what is shown stays, and counts as written. FAULTS is the share of synchronisations that fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { long long at, size; } Change; /* size -1: a truncation */

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

static int find(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 3900);
    if (length <= 0) return 0;
    path[length] = 0;
    const char *end = strstr(path, ".sqlite");
    return end && (!strcmp(end, ".sqlite") || !strcmp(end, ".sqlite-wal") || !strcmp(end, ".sqlite-mark"));
}

static int beside(const char *path, const char *suffix, int flags) {
    char name[4000];
    snprintf(name, sizeof name, "%s.%s", path, suffix);
    return open(name, flags | O_CREAT, 0600);
}

static void note(int fd, long long at, long long size, const void *data) {
    char path[4000];
    if (!find(fd, path)) return;
    REAL(ssize_t, write, int, const void *, size_t)
    int log = beside(path, "pending", O_WRONLY | O_APPEND);
    Change change = {at, size};
    real_write(log, &change, sizeof change);
    if (size > 0) real_write(log, data, size);
    close(log);
}

static int synchronise(int fd) {
    char path[4000];
    if (!find(fd, path)) return 1;
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
    REAL(int, ftruncate64, int, off64_t)
    const char *share = getenv("FAULTS");
    int log = beside(path, "pending", O_RDWR), failed = share && drand48() < atof(share);
    if (!failed) {
        int disk = beside(path, "disk", O_RDWR);
        Change change;
        while (read(log, &change, sizeof change) == sizeof change) {
            if (change.size < 0) { real_ftruncate64(disk, change.at); continue; }
            char *data = malloc(change.size);
            if (read(log, data, change.size) == change.size) real_pwrite64(disk, data, change.size, change.at);
            free(data);
        }
        close(disk);
    }
    real_ftruncate64(log, 0);
    close(log);
    if (failed) errno = EIO;
    return !failed;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
    ssize_t written = real_pwrite64(fd, data, size, at);
    if (written > 0) note(fd, at, written, data);
    return written;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t)
    off64_t at = lseek64(fd, 0, SEEK_CUR);
    ssize_t written = real_write(fd, data, size);
    if (written > 0 && at >= 0) note(fd, at, written, data);
    return written;
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, ftruncate64, int, off64_t)
    int result = real_ftruncate64(fd, size);
    if (result == 0) note(fd, size, -1, NULL);
    return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fsync(int fd) { REAL(int, fsync, int) return synchronise(fd) ? real_fsync(fd) : -1; }
int fdatasync(int fd) { REAL(int, fdatasync, int) return synchronise(fd) ? real_fdatasync(fd) : -1; }

int unlink(const char *path) {
    REAL(int, unlink, const char *)
    const char *suffixes[] = {"disk", "pending"};
    char name[4000];
    for (int i = 0; i < 2 && strstr(path, ".sqlite-"); i++) {
        snprintf(name, sizeof name, "%s.%s", path, suffixes[i]);
        real_unlink(name);
    }
    return real_unlink(path);
}

__attribute__((constructor)) static void seed(void) {
    const char *seed = getenv("FAULTS_SEED");
    srand48(seed ? atol(seed) : 1);
}
