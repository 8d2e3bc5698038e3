#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

SpecFacts FactsOf(const v1::TrainingSpec& spec) {
  return {.activation_set = spec.activation_set(),
          .activation_set_sha256 = spec.activation_set_sha256(),
          .initial_checkpoint = spec.initial_checkpoint(),
          .never_runs = spec.activation_set().empty(),
          .ranks = static_cast<int>(spec.ranks()),
          .cpu_slots = static_cast<int>(spec.threads() * spec.ranks()),
          .keep_checkpoints = spec.keep_checkpoints(),
          .keep_every_tokens = static_cast<int64_t>(spec.keep_every_tokens())};
}

SpecFacts FactsOf(const v1::ProgramSpec& spec) {
  return {.activation_set = spec.activation_set(),
          .activation_set_sha256 = spec.activation_set_sha256(),
          .cpu_slots = static_cast<int>(spec.threads()),
          .keep_checkpoints = spec.keep_checkpoints()};
}

}  // namespace

std::string KindOf(const v1::JobSpec& spec) {
  return spec.has_program() ? spec.program().kind() : kTrainingKind;
}

SpecFacts FactsOf(const v1::JobSpec& resolved) {
  return resolved.has_program() ? FactsOf(resolved.program()) : FactsOf(resolved.training());
}

}  // namespace lorsa::server
