// Preloaded into a process, makes its wall clock run ahead of the machine's by as many seconds as
// the file named by LORSA_CLOCK has bytes. When the file is cut to nothing, the process sees the
// clock set back, and a wait that it began by the wall clock before lasts that much longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static time_t seconds_ahead(void) {
  const char *path = getenv("LORSA_CLOCK");
  struct stat file;
  return path != NULL && stat(path, &file) == 0 ? (time_t)file.st_size : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead();
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
