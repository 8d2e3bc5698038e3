// What the server needs to know of a job's specification, whatever the kind of the job.
#ifndef LORSA_SERVER_MODEL_SPEC_FACTS_H_
#define LORSA_SERVER_MODEL_SPEC_FACTS_H_

#include <cstdint>
#include <string>

#include "lorsa/v1/job_spec.pb.h"

namespace lorsa::server {

// Job.kind of a training job.
inline constexpr char kTrainingKind[] = "training";

// Job.kind of a job with this specification.
std::string KindOf(const v1::JobSpec& spec);

struct SpecFacts {
  std::string activation_set;         // id; empty if the job reads none
  std::string activation_set_sha256;  // of its manifest; empty if that was not recorded
  // Name of the checkpoint whose weights alone the job starts from; empty if there is none.
  std::string initial_checkpoint;
  // The job shows an imported checkpoint and never runs.
  bool never_runs = false;
  int ranks = 1;      // processes of one attempt
  int cpu_slots = 1;  // threads × ranks
  // As RetentionPolicy (job_spec/retention.h).
  int64_t keep_checkpoints = 1;
  int64_t keep_every_tokens = 0;
};

// Of a resolved specification.
SpecFacts FactsOf(const v1::JobSpec& resolved);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_MODEL_SPEC_FACTS_H_
