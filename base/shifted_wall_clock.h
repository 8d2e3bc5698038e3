// A wall clock that unit tests can set, for the C library and Abseil too. Link
// shifted_wall_clock.cc into the test.
#ifndef LORSA_BASE_SHIFTED_WALL_CLOCK_H_
#define LORSA_BASE_SHIFTED_WALL_CLOCK_H_

namespace lorsa {

// While one exists, the wall clock of this process is that many seconds ahead of the kernel's. One
// at a time.
class ShiftedWallClock {
 public:
  explicit ShiftedWallClock(int seconds_ahead) { SetAhead(seconds_ahead); }
  ~ShiftedWallClock() { SetAhead(0); }

  // Thread-safe.
  void SetAhead(int seconds);
  // From here on the clock shows `seconds` after the Unix epoch, until SetAhead. Thread-safe.
  void StopAt(int seconds);
};

}  // namespace lorsa

#endif  // LORSA_BASE_SHIFTED_WALL_CLOCK_H_
