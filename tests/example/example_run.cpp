// SPDX-License-Identifier: Apache-2.0
#include "tests/example/example_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "results/rules.h"
#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

// The two devices. A call of the CPU costs little, one of the GPU a launch and a wait.
constexpr int kThreads = 16;
constexpr double kCpuCall_s = 2.5e-7, kCpuBandwidth = 1.9e11, kCpuRate = 1.65e12, kCpuRateBf16 = 6.0e12;
constexpr double kKernel_s = 1.9e-6, kGpuCall_s = 4.8e-6, kGpuBandwidth = 3.1e12, kGpuRate = 5.2e13,
                 kGpuRateBf16 = 6.1e14;
constexpr double kCopy_s = 9e-6, kLinkBandwidth = 2.4e10;  // between host and device, each way
constexpr double kOneThread = 9.3;                         // a thread alone is this many times slower

using Sizes = std::map<std::string, double>;

struct Op {
  const char *name, *family, *formula, *cpu_impl, *gpu_impl;
  double cpu_share, gpu_share;  // of the device's roof
  std::function<double(const Sizes&)> flops, elements;
};

double product(const Sizes& s) {
  double all = 1;
  for (const auto& [name, size] : s) all *= size;
  return all;
}

const std::vector<Op>& ops() {
  const auto gemm_flops = [](const Sizes& s) { return 2 * s.at("m") * s.at("n") * s.at("k"); };
  const auto gemm_elements = [](const Sizes& s) {
    return s.at("m") * s.at("k") + s.at("k") * s.at("n") + s.at("m") * s.at("n");
  };
  const auto conv_flops = [](const Sizes& s) {
    return 2 * s.at("n") * s.at("k") * s.at("h") * s.at("w") * s.at("c") * s.at("r") * s.at("s");
  };
  const auto conv_elements = [](const Sizes& s) {
    return s.at("n") * s.at("h") * s.at("w") * (s.at("c") + s.at("k")) + s.at("k") * s.at("c") * s.at("r") * s.at("s");
  };
  const auto attention_flops = [](const Sizes& s) { return 4 * product(s) * s.at("T"); };
  const auto lstm_flops = [](const Sizes& s) {
    return 8 * s.at("T") * s.at("B") * s.at("H") * (s.at("I") + s.at("H"));
  };
  const auto lstm_elements = [](const Sizes& s) {
    return 4 * s.at("H") * (s.at("I") + s.at("H")) + s.at("T") * s.at("B") * (s.at("I") + s.at("H"));
  };
  const auto scaled = [](double factor) { return [factor](const Sizes& s) { return factor * product(s); }; };
  static const std::vector<Op> kOps = {
      {"relu", "elementwise", "y = max(x, 0)", "cpu.tuned", "cuda.tuned", 0.90, 0.91, scaled(1), scaled(2)},
      {"gelu", "elementwise", "y = x Phi(x)", "cpu.tuned", "cuda.tuned", 0.86, 0.90, scaled(12), scaled(2)},
      {"sum", "reduction", "y = sum_i x[i]", "cpu.tuned", "cuda.cub", 0.93, 0.88, scaled(1), scaled(1)},
      {"softmax", "norm", "y = exp(x - max) / sum exp(x - max)", "cpu.tuned", "cuda.tuned", 0.84, 0.77, scaled(4),
       scaled(2)},
      {"layernorm", "norm", "y = (x - mean) rstd gamma + beta", "cpu.tuned", "cuda.cudnn", 0.81, 0.76, scaled(7),
       scaled(2)},
      {"gemm", "gemm", "C = alpha A B + beta C", "cpu.openblas", "cuda.cublas", 0.76, 0.71, gemm_flops, gemm_elements},
      {"conv2d", "conv", "y = w * x", "cpu.tuned", "cuda.cudnn", 0.58, 0.61, conv_flops, conv_elements},
      {"attention", "attention", "y = softmax(q k^T / sqrt(D)) v", "cpu.tuned", "cuda.cudnn", 0.31, 0.55,
       attention_flops, scaled(4)},
      {"maxpool2d", "pool", "y = max over a window", "cpu.tuned", "cuda.cudnn", 0.62, 0.70, scaled(9), scaled(1.25)},
      {"cross_entropy", "loss", "y = -log softmax(x)[label]", "cpu.tuned", "cuda.tuned", 0.79, 0.72, scaled(4),
       scaled(1)},
      {"adamw", "optimiser", "w -= lr (m / (sqrt(v) + eps) + decay w)", "cpu.tuned", "cuda.tuned", 0.88, 0.87,
       scaled(14), scaled(7)},
      {"embedding", "embedding", "y[b,t] = table[id[b,t]]", "cpu.tuned", "cuda.tuned", 0.66, 0.81, scaled(0),
       scaled(2)},
      {"transpose", "memory", "y[j,i] = x[i,j]", "cpu.tuned", "cuda.tuned", 0.71, 0.83, scaled(0), scaled(2)},
      {"lstm", "recurrent", "h[t] = f(x[t], h[t-1])", "cpu.tuned", "cuda.cudnn", 0.35, 0.08, lstm_flops,
       lstm_elements}};
  return kOps;
}

const Op& op_named(const std::string& name) {
  return *std::find_if(ops().begin(), ops().end(), [&](const Op& op) { return op.name == name; });
}

struct ExampleCase {
  std::string op, dtype, sizes, why;  // sizes: "m:64 n:64"
};

std::vector<ExampleCase> cases_of_models() {
  std::vector<ExampleCase> cases;
  for (const std::string dtype : {"f32", "bf16"}) {
    const auto add = [&](const char* op, const char* sizes, const char* why) {
      cases.push_back({op, dtype, sizes, why});
    };
    add("relu", "n:1024", "4 KiB in f32: the cost of a call");
    add("relu", "n:16384", "64 KiB in f32: in L1 or L2");
    add("relu", "n:262144", "1 MiB a tensor: in L2 or L3");
    add("relu", "n:4194304", "16 MiB a tensor");
    add("relu", "n:67108864", "256 MiB a tensor");
    add("gelu", "n:25165824", "GPT-2 124M MLP, 8192 tokens, 3072 features");
    add("gelu", "n:1179648", "BERT-base, one sequence, 3072 features");
    add("sum", "n:25557032", "ResNet-50, all gradients");
    add("sum", "n:1024", "4 KiB in f32: the cost of a call");
    add("softmax", "rows:256 cols:1000", "ResNet-50 head, batch 256");
    add("softmax", "rows:98304 cols:1024", "GPT-2 124M scores, 8 x 1024 tokens");
    add("softmax", "rows:4096 cols:50257", "GPT-2 124M vocabulary, 4096 tokens");
    add("layernorm", "rows:8192 cols:768", "GPT-2 124M, 8 x 1024 tokens");
    add("layernorm", "rows:384 cols:768", "BERT-base, one sequence");
    add("layernorm", "rows:1024 cols:12288", "GPT-3 175B, 1024 tokens");
    add("gemm", "m:64 n:128 k:784", "MLP 784-128, batch 64");
    add("gemm", "m:8192 n:3072 k:768", "GPT-2 124M 768->3072, 8192 tokens");
    add("gemm", "m:1 n:4096 k:4096", "Llama-3-8B, one token");
    add("gemm", "m:512 n:6144 k:4096", "Llama-3-8B 4096->6144, 512 tokens");
    add("gemm", "m:1760 n:128 k:1760", "DeepBench 1760, batch 128");
    add("gemm", "m:3072 n:24000 k:1024", "DeepBench 3072x24000x1024");
    add("gemm", "m:7680 n:64 k:2560", "DeepBench 7680, batch 64");
    for (const int size : {64, 256, 1024, 4096})
      cases.push_back({"gemm", dtype, fmt::format("m:{0} n:{0} k:{0}", size), "sizes by powers of four"});
    add("conv2d", "n:32 c:64 h:56 w:56 k:64 r:3 s:3", "ResNet-50 64@56 3x3, batch 32");
    add("conv2d", "n:32 c:256 h:14 w:14 k:256 r:3 s:3", "ResNet-50 256@14 3x3, batch 32");
    add("conv2d", "n:1 c:512 h:7 w:7 k:2048 r:1 s:1", "ResNet-50 512@7->2048 1x1");
    add("conv2d", "n:1 c:64 h:224 w:224 k:64 r:3 s:3", "VGG-19 64@224 3x3");
    add("attention", "B:4 H:12 T:1024 D:64", "GPT-2 124M, batch 4");
    add("attention", "B:1 H:16 T:4096 D:128", "FlashAttention-2, 4k tokens");
    add("attention", "B:1 H:12 T:384 D:64", "BERT-base, one sequence");
    add("maxpool2d", "n:32 c:64 h:112 w:112", "ResNet-50 64@112, batch 32");
    add("cross_entropy", "rows:4096 cols:50257", "GPT-2 124M vocabulary, 4096 tokens");
    add("cross_entropy", "rows:32 cols:10", "MLP 784-128-10, batch 32");
    add("adamw", "n:25557032", "ResNet-50, every parameter");
    add("adamw", "n:101770", "MLP 784-128-10, every parameter");
    add("embedding", "B:8 T:1024 C:768", "GPT-2 124M, 8 x 1024 tokens");
    add("transpose", "rows:12544 cols:2048", "ResNet-50 conv1 output, batch 32, NHWC to NCHW");
    add("lstm", "T:50 B:16 I:1760 H:1760", "DeepBench 1760, batch 16");
    add("lstm", "T:256 B:512 I:16 H:32", "IMDb sentiment: 512 x 256 tokens of 16 features");
  }
  return cases;
}

std::vector<ExampleCase> make_cases(size_t count) {
  std::vector<ExampleCase> cases = cases_of_models();
  if (count == 0) return cases;
  const size_t known = cases.size();
  for (size_t i = 0; cases.size() < count; ++i) {
    const ExampleCase& like = cases[i % known];
    const size_t more = 1 + i / known;  // added to the last size, so that every case differs
    const size_t colon = like.sizes.rfind(':');
    const auto last = std::stoll(like.sizes.substr(colon + 1));
    cases.push_back({like.op, like.dtype,
                     fmt::format("{}:{}", like.sizes.substr(0, colon), last + 32 * static_cast<int64_t>(more)),
                     fmt::format("{}, {} more", like.why, 32 * more)});
  }
  cases.resize(count);
  return cases;
}

Params params_of(const std::string& sizes) {
  Params params;
  for (size_t begin = 0; begin < sizes.size();) {
    const size_t end = std::min(sizes.find(' ', begin), sizes.size()), colon = sizes.find(':', begin);
    params.emplace_back(sizes.substr(begin, colon - begin), int64_t{std::stoll(sizes.substr(colon + 1, end - colon))});
    begin = end + 1;
  }
  return params;
}

// A number in [-1, 1) that depends on the text alone.
double noise(const std::string& text) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  hash ^= hash >> 29;
  return static_cast<double>(hash % 20001) / 10000.0 - 1;
}

struct Writer {
  ExampleOptions options;
  int repetitions, samples;
  std::vector<Job> jobs = {};
  std::vector<Sweep> sweeps = {};

  Series series(const std::string& seed, Scope scope, Cache cache, int threads, double time_s, double fraction) const {
    Series s;
    s.scope = scope;
    s.cache = cache;
    s.threads = threads;
    s.iterations = samples;
    s.first_call_s = 3 * time_s;
    s.foreign_cores = 0.01;
    const double spread = 0.006 + 0.014 * std::abs(noise(seed + "spread"));
    for (int r = 0; r < repetitions; ++r) {
      Repetition repetition{.order = r,
                            .samples_s = {},
                            .roof_s = {},
                            .wall_s = 0.2,
                            .foreign_cores = 0.01,
                            .sm_clock_mhz = {},
                            .memory_clock_mhz = {},
                            .throttled_by = {},
                            .flags = {}};
      for (int i = 0; i < samples; ++i) {
        repetition.samples_s.push_back(time_s * (1 + spread * noise(fmt::format("{} {} {}", seed, r, i))));
        if (fraction > 0) repetition.roof_s.push_back(fraction * time_s);
      }
      s.repetitions.push_back(std::move(repetition));
    }
    s.summary = summarise(s.repetitions);
    return s;
  }

  void add_roof(Series& s, Bound bound, const std::string& ceiling, double value) const {
    Roof roof{.bound = bound, .ceiling = ceiling, .value = value, .interval = ""};
    if (set_adjacent_fraction(s.repetitions, roof)) s.roof = roof;
  }

  Job job(const ExampleCase& c, const Op& op, const std::string& impl) const {
    std::string label = c.sizes;
    std::replace(label.begin(), label.end(), ' ', '/');
    Job made = make_job(fmt::format("{}/{}/{}/{}", op.name, impl, c.dtype, label), {});
    made.family = op.family;
    made.formula = op.formula;
    made.why = c.why;
    made.params = params_of(c.sizes);
    Sizes sizes;
    for (const auto& [name, value] : made.params) sizes[name] = static_cast<double>(std::get<int64_t>(value));
    made.flops = op.flops(sizes);
    made.bytes = static_cast<int64_t>(op.elements(sizes)) * (c.dtype == "f32" ? 4 : 2);
    made.footprint_bytes = made.bytes;
    return made;
  }

  // Adds the case's jobs on both sides; returns the times of its best calls.
  SweepPoint add(const ExampleCase& c) {
    const Op& op = op_named(c.op);
    const bool bf16 = c.dtype == "bf16";
    Job cpu = job(c, op, op.cpu_impl);
    const auto bytes = static_cast<double>(cpu.bytes);
    const double cpu_rate = bf16 ? kCpuRateBf16 : kCpuRate, gpu_rate = bf16 ? kGpuRateBf16 : kGpuRate;
    const double cpu_compute_s = cpu.flops / cpu_rate, cpu_memory_s = bytes / (kCpuBandwidth * (bytes < 3e7 ? 4 : 1));
    const double gpu_compute_s = cpu.flops / gpu_rate, gpu_memory_s = bytes / (kGpuBandwidth * (bytes < 4e7 ? 2 : 1));
    const Bound cpu_bound = cpu_compute_s > cpu_memory_s ? Bound::compute : Bound::memory;
    const Bound gpu_bound = gpu_compute_s > gpu_memory_s ? Bound::compute : Bound::memory;
    const double vary = 1 + 0.12 * noise(cpu.name);
    double cpu_s =
        (c.sizes == "n:1024" ? 4e-8 : kCpuCall_s) + std::max(cpu_compute_s, cpu_memory_s) / op.cpu_share * vary;
    const double kernel_s = kKernel_s + std::max(gpu_compute_s, gpu_memory_s) / op.gpu_share / vary;
    const double call_s = kernel_s + kGpuCall_s, copied_s = call_s + 2 * kCopy_s + bytes / kLinkBandwidth;
    if (c.op == "relu" && c.sizes == "n:1024" && !bf16) cpu_s = call_s / 217;  // the CPU wins by a round number
    const std::string cpu_ceiling = cpu_bound == Bound::memory ? "cpu.copy" : "cpu.fma." + c.dtype;
    const std::string gpu_ceiling = gpu_bound == Bound::memory ? "gpu.copy" : "gpu.fma." + c.dtype;
    const double cpu_share = std::min(0.98, std::max(cpu_compute_s, cpu_memory_s) / cpu_s);
    const double gpu_share = std::max(gpu_compute_s, gpu_memory_s) / kernel_s;

    const size_t number = jobs.size();
    std::vector<Cache> caches{Cache::warm};
    if (bytes < 3e7 && number % 5 == 0) caches.push_back(Cache::cold);
    for (const Cache cache : caches) {
      const double slower = cache == Cache::cold ? 1.7 : 1;
      cpu.series.push_back(series(cpu.name, Scope::call, cache, kThreads, slower * cpu_s, cpu_share));
      add_roof(cpu.series.back(), cpu_bound, cpu_ceiling, cpu_bound == Bound::memory ? kCpuBandwidth : cpu_rate);
    }
    if (options.cases == 0 && bytes > 1e6)
      cpu.series.push_back(series(cpu.name + "1", Scope::call, Cache::warm, 1, kOneThread * cpu_s, 0));
    decide(cpu);
    jobs.push_back(std::move(cpu));

    SweepPoint point{
        .size = 1, .cpu_s = cpu_s, .gpu_call_s = {}, .gpu_end_to_end_s = {}, .cpu_impl = op.cpu_impl, .gpu_impl = {}};
    Job gpu = job(c, op, op.gpu_impl);
    if (!options.gpu) {
      add_missing(gpu.name, Status::skipped, "no CUDA device", c);
      return point;
    }
    for (const Cache cache : caches) {
      const double slower = cache == Cache::cold ? 1.3 : 1;
      gpu.series.push_back(series(gpu.name, Scope::kernel, cache, 1, slower * kernel_s, gpu_share));
      add_roof(gpu.series.back(), gpu_bound, gpu_ceiling, gpu_bound == Bound::memory ? kGpuBandwidth : gpu_rate);
      gpu.series.push_back(series(gpu.name + "call", Scope::call, cache, 1, slower * call_s, 0));
      gpu.series.push_back(series(gpu.name + "copies", Scope::end_to_end, cache, 1, slower * copied_s, 0));
    }
    decide(gpu);
    jobs.push_back(std::move(gpu));
    point.gpu_call_s = call_s;
    point.gpu_end_to_end_s = copied_s;
    point.gpu_impl = op.gpu_impl;
    return point;
  }

  void add_missing(const std::string& name, Status status, const std::string& reason, const ExampleCase& c) {
    Job missing = make_missing(name, status, reason);
    missing.family = op_named(c.op).family;
    missing.why = c.why;
    if (status == Status::failed)
      missing.repro = fmt::format("build/bin/duet op {} --impl {} --case '{} dtype:{}' --seed 1", c.op, missing.impl,
                                  c.sizes, c.dtype);
    jobs.push_back(std::move(missing));
  }

  void add_sweep(const std::string& op, const std::string& dtype, const std::string& size_name,
                 const std::function<std::string(int64_t)>& sizes, int64_t first, int count) {
    Sweep sweep{.op = op, .dtype = dtype, .size_name = size_name, .fixed = {}, .points = {}};
    int64_t size = first;
    for (int i = 0; i < count; ++i, size *= 4) {
      const std::string text = sizes(size);
      sweep.points.push_back(add({op, dtype, text, "sizes by powers of four"}));
      sweep.points.back().size = size;
    }
    sweeps.push_back(std::move(sweep));
  }

  void add_step(const std::string& model, const std::string& dtype, int64_t batch, double cpu_per_sample_s,
                double gpu_per_sample_s, bool tokens, Sweep& sweep) {
    SweepPoint point{
        .size = batch, .cpu_s = {}, .gpu_call_s = {}, .gpu_end_to_end_s = {}, .cpu_impl = {}, .gpu_impl = {}};
    for (const std::string side : {"cpu", "gpu", "gpu.graph"}) {
      const std::string name = fmt::format("step/{}/{}/{}/batch:{}", model, side, dtype, batch);
      const bool on_gpu = side != "cpu";
      if (on_gpu && !options.gpu) {
        Job missing = make_missing(name, Status::skipped, "no CUDA device");
        missing.family = "step";
        jobs.push_back(std::move(missing));
        continue;
      }
      const double launches_s = side == "cpu" ? 2e-5 : side == "gpu" ? 4.5e-4 : 6e-5;
      const double step_s = launches_s + (on_gpu ? gpu_per_sample_s : cpu_per_sample_s) * static_cast<double>(batch);
      Amounts nodes;
      for (const auto& [op, part] : std::initializer_list<std::pair<const char*, double>>{
               {"gemm", 0.55}, {"layernorm", 0.12}, {"gelu", 0.09}, {"softmax", 0.06}, {"adamw", 0.05}})
        nodes.emplace_back(op, part * (step_s - launches_s));
      Job job =
          make_step(name, step_s, std::move(nodes),
                    {{"forward", 0.31 * step_s}, {"backward", 0.57 * step_s}, {"optimiser", 0.07 * step_s}}, batch);
      job.family = "step";
      job.why = model + ", a whole training step";
      job.formula = "";
      job.flops = 0;
      job.step->peak_memory_bytes = (int64_t{40} << 20) * (1 + batch);
      if (tokens) job.step->tokens = batch * 1024;
      job.step->implementations = {{"gemm", on_gpu ? "cuda.cublas" : "cpu.openblas"},
                                   {"layernorm", on_gpu ? "cuda.cudnn" : "cpu.tuned"}};
      job.series[0].roof.reset();
      job.series[0].threads = on_gpu ? 1 : kThreads;
      decide(job);
      if (!on_gpu) point.cpu_s = step_s;
      if (on_gpu && (!point.gpu_call_s || step_s < *point.gpu_call_s)) {
        point.gpu_call_s = step_s;
        point.gpu_end_to_end_s = step_s + 2e-5;
        point.gpu_impl = side;
      }
      jobs.push_back(std::move(job));
    }
    sweep.points.push_back(std::move(point));
  }

  void add_steps() {
    struct Model {
      const char* name;
      double cpu_per_sample_s, gpu_per_sample_s;
      std::vector<int64_t> batches;
      bool tokens;
    };
    for (const std::string dtype : {"f32", "bf16"})
      for (const Model& m :
           {Model{"mlp", 9e-6, 1.2e-7, {1, 8, 64, 512}, false}, Model{"lenet", 2.4e-4, 2.1e-6, {1, 16, 256}, false},
            Model{"resnet50", 0.061, 6.8e-4, {1, 8, 32}, false}, Model{"gpt2", 2.9, 0.012, {1, 4}, true}}) {
        Sweep sweep{
            .op = fmt::format("step/{}", m.name), .dtype = dtype, .size_name = "batch", .fixed = {}, .points = {}};
        const double faster = dtype == "bf16" ? 2.6 : 1;
        for (const int64_t batch : m.batches)
          add_step(m.name, dtype, batch, m.cpu_per_sample_s / (dtype == "bf16" ? 1.4 : 1), m.gpu_per_sample_s / faster,
                   m.tokens, sweep);
        sweeps.push_back(std::move(sweep));
      }
  }

  // Jobs without a result, of every kind, and rows to read with care.
  void add_doubtful() {
    const ExampleCase conv{"conv2d", "f32", "n:32 c:64 h:56 w:56 k:64 r:3 s:3", "ResNet-50 64@56 3x3, batch 32"};
    const ExampleCase gemm{"gemm", "bf16", "m:4096 n:4096 k:4096", "sizes by powers of four"};
    const ExampleCase relu{"relu", "f32", "n:16777216", "64 MiB: beyond the caches"};
    if (options.gpu) {
      add_missing("conv2d/cuda.naive/f32/n:32/c:64/h:56/w:56/k:64/r:3/s:3", Status::failed,
                  "3 of 24 slices differ: element 12 of slice 7 is 0.8125, expected 0.8321, bound 1.1e-05", conv);
      add_missing("gemm/cuda.tuned/bf16/m:4096/n:4096/k:4096", Status::failed,
                  "an illegal memory access was encountered", gemm);
    }
    add_missing("gemm/cpu.amx/bf16/m:4096/n:4096/k:4096", Status::skipped, "this CPU has no AMX", gemm);
    add_missing("conv2d/cpu.naive/f32/n:32/c:64/h:56/w:56/k:64/r:3/s:3", Status::failed,
                "killed by signal 11 (SIGSEGV)", conv);
    for (const int64_t m : {1024, 2048, 4096, 8192})
      add_missing(fmt::format("gemm/cuda.cublaslt/fp8/m:{0}/n:{0}/k:{0}", m), Status::skipped,
                  "row-major nn layout: fp8 needs tn", gemm);

    // Faster than its roof.
    Job suspect = job(relu, op_named("relu"), "cpu.stream");
    suspect.series = {series(suspect.name, Scope::call, Cache::warm, kThreads, 6.1e-4, 1.12)};
    add_roof(suspect.series.back(), Bound::memory, "cpu.copy", kCpuBandwidth);
    decide(suspect);
    jobs.push_back(std::move(suspect));
    add(relu);
    // Timed and not verified.
    Job unchecked = job(relu, op_named("relu"), "cpu.draft");
    unchecked.series = {series(unchecked.name, Scope::call, Cache::warm, kThreads, 9e-4, 0.7)};
    unchecked.check.reset();
    decide(unchecked);
    jobs.push_back(std::move(unchecked));
    // A neighbour ran.
    size_t left = 3;
    for (Job& job : jobs) {
      if (left == 0) break;
      if (job.device != Device::cpu || !job.comparable || job.step || job.family != "norm") continue;
      for (Repetition& r : job.series[0].repetitions) r.flags.emplace_back(flag::kContended);
      decide(job);
      --left;
    }
  }

  void add_hostile() {
    const std::string names[] = {"=cmd|' /C calc'!A0", "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
                                 "](javascript:alert(1)) \x01\x1b[31m|`*_"};
    for (size_t i = 0; i < std::size(names); ++i) {
      const size_t first = jobs.size();
      add({"gelu", "f32", fmt::format("n:{}", 1000003 + i), names[i]});
      for (size_t k = first; k < jobs.size(); ++k) {
        Job& job = jobs[k];
        job.op = names[i];
        job.name = fmt::format("{}/{}/f32/n:{}", names[i], job.impl, 1000003 + i);
        job.case_name = fmt::format("{}/f32/n:{}", names[i], 1000003 + i);
        job.formula = names[i];
        if (job.status != Status::ok) job.reason = "no CUDA device " + names[i];
      }
    }
    Job missing = make_missing("=1+1/cpu.tuned/f32/n:7", Status::failed, names[1]);
    missing.repro = "build/bin/duet op " + names[3];
    jobs.push_back(std::move(missing));
  }
};

Ceiling ceiling(const std::string& name, double value, const std::string& unit, int threads = 1) {
  return make_ceiling(name, value, unit, unit == "B/s" ? int64_t{1} << 30 : 0, threads);
}

}  // namespace

Run example_run(const ExampleOptions& options) {
  const bool large = options.cases > 500;
  Writer writer{.options = options, .repetitions = large ? 3 : 5, .samples = large ? 1 : 3};
  for (const ExampleCase& c : make_cases(options.cases)) writer.add(c);
  const auto n = [](int64_t size) { return fmt::format("n:{}", size); };
  const auto square = [](int64_t size) { return fmt::format("m:{0} n:{0} k:{0}", size); };
  const auto rows = [](int64_t size) { return fmt::format("rows:{} cols:1024", size); };
  writer.add_sweep("adamw", "f32", "n", n, 256, 10);
  writer.add_sweep("gelu", "f32", "n", n, 256, 10);
  writer.add_sweep("gemm", "f32", "m=n=k", square, 8, 4);
  writer.add_sweep("softmax", "f32", "rows", rows, 4, 8);
  writer.add_steps();
  writer.add_doubtful();
  if (options.hostile) writer.add_hostile();

  Run run = make_run(std::move(writer.jobs));
  // Sweeps and cases may share a shape; each job stands once.
  std::map<std::string, bool> seen;
  std::erase_if(run.jobs, [&](const Job& job) { return std::exchange(seen[job.name], true); });
  run.sweeps = std::move(writer.sweeps);
  run.context.host_name = "invented";
  run.context.num_cpus = kThreads;
  run.invocation.id = "invented";
  run.invocation.threads = kThreads;
  run.invocation.selection.gpu = options.gpu;
  run.invocation.selection.repetitions = writer.repetitions;
  run.invocation.warnings = {"invented run: no number in it was measured"};
  if (!options.gpu) run.invocation.no_gpu = "no CUDA device";
  run.build.cuda = options.gpu ? "13.0" : "";
  run.build.libraries = {{"openblas", "0.3.21 pthread"}, {"cudnn", "9.19"}};
  run.machine.cpu = {"invented CPU", kThreads, "AVX3", {"avx2", "fma", "avx512f"}};
  run.machine.gpu = Gpu{"invented GPU", "90", int64_t{80} << 30, 50 << 20, "580", "13.0", "13.1", "9.19"};
  if (!options.gpu) run.machine.gpu.reset();
  run.ceilings = {ceiling("cpu.copy", kCpuBandwidth, "B/s", kThreads), ceiling("cpu.copy", kCpuBandwidth / 11, "B/s"),
                  ceiling("cpu.triad", 1.08 * kCpuBandwidth, "B/s", kThreads),
                  ceiling("cpu.fma.f32", kCpuRate, "FLOP/s", kThreads),
                  ceiling("cpu.fma.bf16", kCpuRateBf16, "FLOP/s", kThreads)};
  if (options.gpu)
    for (const Ceiling& c :
         {ceiling("gpu.copy", kGpuBandwidth, "B/s"), ceiling("gpu.triad", 0.99 * kGpuBandwidth, "B/s"),
          ceiling("gpu.fma.f32", kGpuRate, "FLOP/s"), ceiling("gpu.fma.bf16", kGpuRateBf16, "FLOP/s")})
      run.ceilings.push_back(c);
  decide_trust(run);
  return run;
}

}  // namespace duet::results::testing
