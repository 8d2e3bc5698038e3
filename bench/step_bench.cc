// Whole optimiser steps of one Lorsa on random data: one line of JSON. gflops counts
// what the mathematics needs (step_cost.h).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/lorsa/fast_lorsa.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/lorsa/step_cost.h"
#include "trainer/train/adam.h"

namespace lorsa::trainer {
namespace {

struct Options {
  int64_t d_model = 768, n_ov = 6144, n_qk = 48, d_qk = 64, k = 64, context = 256, sequences = 8;
  int64_t steps = 10, warmup = 2;
  int threads = 2;
  std::string precision = "bf16";
  bool profile = false, reference = false;
};

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of all threads: what a step takes on a machine that others use too.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

double PeakRssGb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// CPU seconds of all threads by stage, from one end of a stage to the next.
class StageTimes {
 public:
  void Start() { last_ = CpuSeconds(); }
  void End(const std::string& stage) {
    const double now = CpuSeconds();
    seconds_[stage] += now - last_;
    last_ = now;
  }
  void Clear() { seconds_.clear(); }
  nlohmann::json Shares() const {
    double total = 0;
    for (const auto& [stage, seconds] : seconds_) total += seconds;
    nlohmann::json shares;
    for (const auto& [stage, seconds] : seconds_) shares[stage] = seconds / total;
    return shares;
  }

 private:
  double last_ = 0;
  std::map<std::string, double> seconds_;
};

LorsaConfig ConfigOf(const Options& o) {
  LorsaConfig config{.d_model = o.d_model,
                     .n_ov_heads = o.n_ov,
                     .n_qk_heads = o.n_qk,
                     .d_qk = o.d_qk,
                     .top_k = o.k,
                     .attn_scale = std::sqrt(static_cast<double>(o.d_qk))};
  config.rope = store::Rope{.base = 10000, .rotary_dim = o.d_qk / 2 * 2, .adjacent_pairs = false};
  return config;
}

LorsaParameters RandomParameters(const LorsaConfig& config) {
  LorsaParameters parameters;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    parameters.*spec.member =
        at::randn(spec.shape) / std::sqrt(static_cast<double>(config.d_model));
  }
  return parameters;
}

std::unique_ptr<LorsaKernel> MakeKernel(const Options& o, const LorsaConfig& config,
                                        StageTimes& stages) {
  if (o.reference) return std::make_unique<ReferenceLorsa>(config);
  StageObserver observer;
  if (o.profile) observer = [&stages](const char* stage) { stages.End(stage); };
  return MakeFastLorsa(config, o.precision == "bf16" ? Precision::kBf16 : Precision::kFp32,
                       kernels::BestLevel(), observer);
}

nlohmann::json Run(const Options& o) {
  at::set_num_threads(o.threads);
  at::manual_seed(0);
  const LorsaConfig config = ConfigOf(o);
  LorsaParameters parameters = RandomParameters(config);
  AdamState adam = NewAdamState(config, at::kCPU);
  Batch batch{.x = at::randn({o.sequences, o.context, o.d_model}),
              .y = at::randn({o.sequences, o.context, o.d_model}),
              .mask = at::ones({o.sequences, o.context}, at::kBool)};
  StageTimes stages;
  const auto kernel = MakeKernel(o, config, stages);
  const StepOptions options{.top_k = o.k, .loss_targets = o.sequences * o.context};
  std::vector<double> wall, cpu;
  for (int64_t i = 0; i < o.warmup + o.steps; ++i) {
    if (i == o.warmup) stages.Clear();
    const double wall_start = WallSeconds(), cpu_start = CpuSeconds();
    stages.Start();
    const StepResult step = kernel->ForwardBackward(parameters, batch, options);
    if (o.profile) stages.Start();
    ApplyAdam(config, {}, {.qk = 1e-4, .w_v = 1e-4, .w_o = 1e-4, .biases = 1e-4},
              /*gradient_factor=*/1, step.gradients, parameters, adam);
    if (o.profile) stages.End("optimizer");
    if (i < o.warmup) continue;
    wall.push_back(WallSeconds() - wall_start);
    cpu.push_back(CpuSeconds() - cpu_start);
  }
  const double step_s = Median(wall);
  nlohmann::json result{
      {"tokens_per_s", o.sequences * o.context / step_s},
      {"step_s", step_s},
      {"step_cpu_s", Median(cpu)},
      {"peak_rss_gb", PeakRssGb()},
      {"gflops",
       1e-9 * StepFlops(config, {.sequences = o.sequences, .context = o.context}) / step_s}};
  if (o.profile) result["profile"] = stages.Shares();
  return result;
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app("Times whole optimiser steps on random data and prints one line of JSON.");
  app.add_option("--d-model", o.d_model)->capture_default_str();
  app.add_option("--n-ov", o.n_ov)->capture_default_str();
  app.add_option("--n-qk", o.n_qk)->capture_default_str();
  app.add_option("--d-qk", o.d_qk)->capture_default_str();
  app.add_option("--k", o.k)->capture_default_str();
  app.add_option("--context", o.context)->capture_default_str();
  app.add_option("--sequences", o.sequences)->capture_default_str();
  app.add_option("--steps", o.steps, "Steps that are timed")->capture_default_str();
  app.add_option("--warmup", o.warmup, "Steps before them")->capture_default_str();
  app.add_option("--threads", o.threads)->capture_default_str();
  app.add_option("--precision", o.precision)
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
  app.add_flag("--profile", o.profile, "Also the share of CPU time per stage");
  app.add_flag("--reference", o.reference, "The reference implementation instead (fp32)");
  CLI11_PARSE(app, argc, argv);
  std::printf("%s\n", Run(o).dump().c_str());
  return 0;
}

}  // namespace
}  // namespace lorsa::trainer

int main(int argc, char** argv) { return lorsa::trainer::Main(argc, argv); }
