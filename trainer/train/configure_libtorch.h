// libtorch as every process of a run needs it.
#ifndef LORSA_TRAINER_TRAIN_CONFIGURE_LIBTORCH_H_
#define LORSA_TRAINER_TRAIN_CONFIGURE_LIBTORCH_H_

namespace lorsa::trainer {

// Sets libtorch's thread count and deterministic mode, which are the process's.
void ConfigureLibtorch(int threads);

// The threads that a computation of libtorch's really gets, which OpenMP's own settings may make
// fewer than were asked for.
int ThreadsInUse();

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_CONFIGURE_LIBTORCH_H_
