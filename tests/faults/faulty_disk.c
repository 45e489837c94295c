/* Stands between a process and its disk, and lets a chosen call fail. Loaded with LD_PRELOAD; the plan is a mapped file.

   plan[0]  how many calls are still to go well; negative: no fault is planned
   plan[1]  which calls count: 1 writes, 2 syncs, 3 both
   plan[2]  the errno of the failure; 0: a short write, after which writes fail with ENOSPC
   plan[3]  whether the failure lasts (1) or happens once (0)
   plan[4]  how many faults there have been  */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2 };

static volatile long *plan;

static long *the_plan(void) {
    if (!plan) {
        const char *path = getenv("FAULTY_DISK_PLAN");
        int file = path ? open(path, O_RDWR) : -1;
        if (file < 0) return NULL;
        plan = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    return (long *)plan;
}

static int on_disk(int file) {
    struct stat status;
    return fstat(file, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

/* 0: go on; 1: fail with errno set; 2: write only a part */
static int fault(int file, int kind) {
    long *now = the_plan();
    if (!now || now[0] < 0 || !(now[1] & kind) || !on_disk(file)) return 0;
    if (now[0]-- > 0) return 0;
    now[4]++;
    if (now[2] == 0) {
        now[0] = 0, now[2] = ENOSPC;
        return 2;
    }
    errno = (int)now[2];
    if (now[3]) now[0] = 0;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t bytes) {
    int kind = fault(file, WRITES);
    if (kind == 1) return -1;
    return REAL(write)(file, data, kind == 2 ? bytes / 2 : bytes);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
    int kind = fault(file, WRITES);
    if (kind == 1) return -1;
    return REAL(pwrite)(file, data, kind == 2 ? bytes / 2 : bytes, at);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at) {
    int kind = fault(file, WRITES);
    if (kind == 1) return -1;
    return REAL(pwrite64)(file, data, kind == 2 ? bytes / 2 : bytes, at);
}

int fsync(int file) { return fault(file, SYNCS) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fault(file, SYNCS) ? -1 : REAL(fdatasync)(file); }
