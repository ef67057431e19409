// SPDX-License-Identifier: Apache-2.0
// A wrong implementation gets no number: implementations with planted errors are timed beside the honest ones, by the
// same code as in bench_all, and each must end as a failed job whose reason says what happened.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/case_timer.h"
#include "bench/cases.h"
#include "core/cpu_context.h"
#include "core/machine.h"
#include "core/registry.h"

namespace duet::bench {
namespace {

// One call of a faulty implementation.
struct Call {
  struct Memory {
    void* data;
    TensorSpec spec;
    double get(int64_t i) const { return load_as_double(data, spec.dtype, i); }
    void set(int64_t i, double value) const { store_double(data, spec.dtype, i, value); }
    size_t bytes() const { return static_cast<size_t>(spec.bytes()); }
    char* at(int64_t byte) const { return static_cast<char*>(data) + byte; }
  };
  std::vector<Memory> inputs, outputs;  // an inout is an output
  int number;                           // of this call, from 0
  int threads;
  std::function<void()> run;                        // the honest implementation
  std::vector<std::vector<unsigned char>>* answer;  // kept from call to call, at first empty
};

void spoil(const Call::Memory& out, int64_t i, double factor) {
  const double value = out.get(i);
  if (is_float(out.spec.dtype))
    out.set(i, value != 0 ? value * factor : factor - 1);
  else
    out.set(i, value + 1);
}
void spoil_each(const Call& call, int64_t first, int64_t stride, double factor) {
  for (const auto& out : call.outputs)
    for (int64_t i = first; i < out.spec.elements(); i += stride) spoil(out, i, factor);
}
void keep(const Call& call) {
  call.answer->clear();
  for (const auto& out : call.outputs) {
    const auto* data = static_cast<const unsigned char*>(out.data);
    call.answer->emplace_back(data, data + out.bytes());
  }
}
bool is_kept(const Call& call) {
  if (call.answer->empty()) return false;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (std::memcmp(call.outputs[i].data, (*call.answer)[i].data(), call.outputs[i].bytes()) != 0) return false;
  return true;
}
// The memory of the largest output, so that an error is somewhere in the middle of many elements.
const Call::Memory& main_output(const Call& call) {
  const Call::Memory* largest = &call.outputs[0];
  for (const auto& out : call.outputs)
    if (out.bytes() > largest->bytes()) largest = &out;
  return *largest;
}

struct Fault {
  const char* name;
  const char* reason;  // a regular expression of what the job's reason says
  std::function<void(const Call&)> call;
};

const std::vector<Fault>& faults() {
  constexpr const char* kValue = "got .*(want|verified outputs)|never written|not those verified";
  static const std::vector<Fault> all{
      {"nothing_written", kValue, [](const Call&) {}},
      {"stale", kValue,
       [](const Call& c) {
         if (c.number == 0) c.run();
       }},
      {"all_nan", kValue,
       [](const Call& c) {
         c.run();
         for (const auto& out : c.outputs)
           for (int64_t i = 0; i < out.spec.elements(); ++i) out.set(i, is_float(out.spec.dtype) ? NAN : 77);
       }},
      {"first_element", kValue,
       [](const Call& c) {
         c.run();
         spoil(main_output(c), 0, 1.5);
       }},
      {"middle_element", kValue,
       [](const Call& c) {
         c.run();
         const int64_t n = main_output(c).spec.elements();
         spoil(main_output(c), n / 2 + n / 7, 1.5);
       }},
      {"last_element", kValue,
       [](const Call& c) {
         c.run();
         spoil(main_output(c), main_output(c).spec.elements() - 1, 1.5);
       }},
      {"one_percent_wrong", kValue,
       [](const Call& c) {
         c.run();
         spoil_each(c, 37, 100, 1.5);
       }},
      {"one_percent_off_by_one_percent", kValue,
       [](const Call& c) {
         c.run();
         spoil_each(c, 37, 100, 1.01);
       }},
      {"only_when_poisoned", kValue,
       [](const Call& c) {
         unsigned char first[4];
         std::memcpy(first, main_output(c).data, main_output(c).spec.elements() > 0 ? 2 : 0);
         if (first[0] == 0xFF && first[1] == 0xFF) c.run();
       }},
      {"every_second_call", kValue,
       [](const Call& c) {
         if (c.number % 2 == 0) c.run();
       }},
      {"zeros_every_second_call", kValue,
       [](const Call& c) {
         c.run();
         if (c.number % 2 == 1)
           for (const auto& out : c.outputs) std::memset(out.data, 0, out.bytes());
       }},
      {"returns_the_first_answer", kValue,
       [](const Call& c) {
         if (c.answer->empty()) {
           c.run();
           keep(c);
         }
         for (size_t i = 0; i < c.outputs.size(); ++i)
           std::memcpy(c.outputs[i].data, (*c.answer)[i].data(), c.outputs[i].bytes());
       }},
      {"trusts_unchanged_outputs", kValue,
       [](const Call& c) {
         if (is_kept(c)) return;
         c.run();
         keep(c);
       }},
      {"ff_behind", "overwritten: byte [0-9]+ behind",
       [](const Call& c) {
         c.run();
         std::memset(main_output(c).at(main_output(c).spec.bytes()), 0xFF, 4);
       }},
      {"a_page_behind", "overwritten: byte [0-9]+ behind",
       [](const Call& c) {
         c.run();
         std::memset(main_output(c).at(main_output(c).spec.bytes() + 4096), 0, 4);
       }},
      {"in_front", "overwritten: byte [0-9]+ before",
       [](const Call& c) {
         c.run();
         std::memset(main_output(c).at(-64), 0xFF, 4);
       }},
      {"destroys_an_input_once", "input .* was overwritten",
       [](const Call& c) {
         c.run();
         const Call::Memory& in = c.inputs[0];
         if (c.number == 4) std::memset(in.at(in.spec.bytes() / 2), 0, 4);
       }},
      {"destroys_an_input_always", "input .* was overwritten",
       [](const Call& c) {
         c.run();
         const Call::Memory& in = c.inputs[0];
         in.at(in.spec.bytes() / 2)[0] = static_cast<char>(in.at(in.spec.bytes() / 2)[0] + 1);
       }},
      {"wrong_with_two_threads", kValue, [](const Call& c) {
         c.run();
         const int64_t n = main_output(c).spec.elements();
         if (c.threads > 1) spoil(main_output(c), n / 2 + n / 9, 1.5);
       }}};
  return all;
}

const Problem* timed = nullptr;  // the problem of the case that is measured

// An op's implementation cpu.tuned, or where it has none its first one on the CPU, with a fault.
Plan faulty(const Problem& problem, CpuContext& cpu, const Fault& fault) {
  const Implementation* of_op = find_implementation(problem.name(), "cpu.tuned");
  if (!of_op) of_op = find_implementation(problem.name(), "cpu.libc");
  Plan honest = of_op->plan(problem, cpu);
  if (!honest) return Unsupported{honest.reason()};
  const WorkspaceLayout workspace = honest.workspace;
  return Plan([honest = std::make_shared<Plan>(std::move(honest)), specs = problem.tensors(), &cpu, &fault, number = 0,
               answer = std::vector<std::vector<unsigned char>>{}](Args t) mutable {
           Call call{{}, {}, number++, cpu.threads(), [&] { (*honest)(t); }, &answer};
           for (size_t s = 0; s < specs.size(); ++s) {
             const Tensor& tensor = t[Slot{static_cast<int>(s), specs[s].name, specs[s].role}];
             (specs[s].role == Role::in ? call.inputs : call.outputs).push_back({tensor.data, specs[s]});
           }
           fault.call(call);
         })
      .with("planted fault", workspace);
}

constexpr size_t kFaults = 19;
template <size_t... kIndex>
void add_faults(const char* op, std::index_sequence<kIndex...>) {
  const auto plan = []<size_t kFault>() -> registration::PlanFunction {
    return {nullptr, [](registration::PlanFunction::Any, const void*, Context& context) {
              return faulty(*timed, static_cast<CpuContext&>(context), faults()[kFault]);
            }};
  };
  std::string function = op;
  std::replace(function.begin(), function.end(), '/', '_');  // of study/transfer
  (registration::add_implementation(op, Device::cpu, (function + "_" + faults()[kIndex].name).c_str(),
                                    plan.template operator()<kIndex>()),
   ...);
}

// Cases with more slices than are sampled. Those beyond what the reference may take are compared by projections or
// with a second implementation.
const std::vector<const char*> kCases{
    "add n:200003",
    "attention B:1 H:2 Tq:192 Tk:192 D:32",
    "cast n:100003 to:bf16",
    "conv2d n:2 c:16 h:28 w:28 k:32 r:3 s:3 pad_h:1 pad_w:1",
    "conv2d n:2 c:16 h:28 w:28 k:32 r:3 s:3 pad_h:1 pad_w:1 dtype:bf16",
    "conv2d_backward_data n:2 c:32 h:28 w:28 k:16 r:3 s:3 pad_h:1 pad_w:1",
    "conv2d_backward_filter n:2 c:32 h:28 w:28 k:16 r:3 s:3 pad_h:1 pad_w:1",
    "cross_entropy rows:300 cols:1000",
    "gelu n:200003",
    "gemm m:300 n:310 k:256",
    "gemm m:300 n:310 k:256 dtype:bf16",
    "gemm m:300 n:310 k:256 dtype:f8e4m3",
    "layernorm rows:300 cols:768",
    "linear n:300 in:256 out:310",
    "linear_backward n:300 in:256 out:310",
    "lstm T:8 B:100 I:64 H:64",
    "max_pool2d n:4 c:32 h:28 w:28 r:2 s:2 stride_h:2 stride_w:2",
    "sgd n:100003",
    "softmax rows:300 cols:1000",
    "study/pipeline n:100003 chunks:4",
    "study/transfer n:200003",
    "sum rows:1000 cols:300",
    "transpose batch:1 rows:500 cols:300",
};

TEST(Verification, EveryFaultIsRefused) {
  ASSERT_EQ(faults().size(), kFaults);
  std::set<std::string> ops;
  for (const char* text : kCases) {
    const std::string op = std::string(text).substr(0, std::string(text).find(' '));
    if (ops.insert(op).second) add_faults(op.c_str(), std::make_index_sequence<kFaults>{});
  }

  Options options;
  options.preset = Preset::quick;
  options.gpu = false;
  options.repetitions = 2;
  options.min_time_s = 0.002;
  options.threads = std::min(2, usable_threads());
  Devices devices;
  devices.cpu = std::make_unique<CpuContext>(*options.threads);
  devices.no_gpu = "not wanted";
  int refused = 0, planted = 0;
  for (const char* text : kCases) {
    options.cases = read_named_cases({text});
    const Problem problem = parse_case(options.cases[0].op, options.cases[0].text);
    timed = &problem;
    const std::vector<Ceiling> no_ceilings;  // and so no probes of roofs
    CaseTimer timer(options, devices, no_ceilings);
    for (const auto& c : op_cases(options)) {
      std::erase_if(c->sides, [](const Side& s) { return s.device != Device::cpu; });
      for (const results::Job& job : timer.measure(*c)) {
        const std::string name = job.impl.substr(job.impl.find('.') + 1);
        const auto fault =
            std::find_if(faults().begin(), faults().end(), [&](const Fault& f) { return name == f.name; });
        if (fault == faults().end()) {
          EXPECT_NE(job.status, results::Status::failed) << job.name << " is honest: " << job.reason;
          if (job.status == results::Status::ok) fmt::print("{}: {}\n", job.name, job.check->coverage);
          continue;
        }
        // An inout is restored before each application, so that its kept value is never there.
        if (job.op == "sgd" && name == "trusts_unchanged_outputs") continue;
        ASSERT_NE(job.status, results::Status::skipped) << job.name << ": " << job.reason;
        ++planted;
        refused += job.status == results::Status::failed;
        EXPECT_EQ(job.status, results::Status::failed) << job.name << " got a time";
        EXPECT_THAT(job.reason, testing::ContainsRegex(fault->reason)) << job.name;
      }
    }
  }
  fmt::print("{} of {} planted faults were refused\n", refused, planted);
  EXPECT_GT(planted, 0);
}

}  // namespace
}  // namespace duet::bench
