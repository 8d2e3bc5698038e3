// What the defaults of a specification depend on besides the set: the machine that will train.
#ifndef LORSA_JOB_SPEC_TRAINING_MACHINE_H_
#define LORSA_JOB_SPEC_TRAINING_MACHINE_H_

namespace lorsa {

struct TrainingMachine {
  int cores = 1;          // that a process may keep busy, the default of `threads`
  bool has_bf16 = false;  // whether the CPU has bf16 products, which decides `precision`
};

// The one that this process runs on.
TrainingMachine ThisMachine();

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_TRAINING_MACHINE_H_
