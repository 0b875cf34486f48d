/* Loaded into a member before libc: what its disk and its wall clock do is written in a small file by chaos/preload.py.
 * Seven numbers: microseconds that an fsync takes longer, of how many fsyncs that is one, whether none ends, whether
 * writes into files of the store are refused for want of room, nanoseconds by which the wall clock is ahead; how many
 * fsyncs there were while one of some was to be slow, and how often any of it was felt. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control { volatile int64_t fsync_us, fsync_every, hung, full, clock_ns; int64_t syncs, felt; };
static struct control nothing;
static struct control *control = &nothing;

__attribute__((constructor)) static void find_control(void) {
  const char *path = getenv("TANDEMQ_PRELOAD_CONTROL");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *there = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (there != MAP_FAILED) control = there;
  close(file);
}

static void felt(void) { __atomic_add_fetch(&control->felt, 1, __ATOMIC_RELAXED); }

static int is_turn(int64_t every) {
  return every <= 1 || __atomic_add_fetch(&control->syncs, 1, __ATOMIC_RELAXED) % every == 0;
}

static void take_time(void) {
  int64_t us = control->fsync_us;
  if (us > 0 && is_turn(control->fsync_every)) {
    struct timespec length = {us / 1000000, (us % 1000000) * 1000};
    felt();
    nanosleep(&length, NULL);
  }
  if (!control->hung) return;
  struct timespec look = {0, 1000000};
  felt();
  while (control->hung) nanosleep(&look, NULL);
}

static int is_full(void) {
  if (!control->full) return 0;
  felt();
  errno = ENOSPC;
  return 1;
}

#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fsync(int file) { NEXT(fsync); take_time(); return next(file); }
int fdatasync(int file) { NEXT(fdatasync); take_time(); return next(file); }
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  NEXT(pwrite); return is_full() ? -1 : next(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  NEXT(pwrite64); return is_full() ? -1 : next(file, data, size, at);
}
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
  NEXT(pwritev); return is_full() ? -1 : next(file, parts, count, at);
}
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) {
  NEXT(pwritev64); return is_full() ? -1 : next(file, parts, count, at);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  NEXT(clock_gettime);
  int failed = next(clock, now);
  int64_t ahead = control->clock_ns;
  if (failed || clock != CLOCK_REALTIME || !ahead) return failed;
  felt();
  int64_t ns = now->tv_nsec + ahead % 1000000000;
  now->tv_sec += ahead / 1000000000 + (ns >= 1000000000) - (ns < 0);
  now->tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
  return 0;
}
