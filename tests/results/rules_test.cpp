// SPDX-License-Identifier: Apache-2.0
// Each rule, with a planted fault beside the case that passes.
#include "results/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

using Flags = std::vector<std::string>;
using ::testing::HasSubstr;

// --- repetitions

TEST(Rules, ForeignCoresOrStolenTimeContend) {
  EXPECT_FALSE(contended(0.05, 0.01));
  EXPECT_TRUE(contended(0.051, 0));
  EXPECT_TRUE(contended(0, 0.011));
}

Repetition repetition(double time_s, Flags flags = {}) {
  Repetition r;
  r.samples_s = {0.5 * time_s, time_s, 2 * time_s};
  r.wall_s = 0.2;
  r.flags = std::move(flags);
  return r;
}

TEST(Rules, EveryFlagButRetriedDisturbs) {
  EXPECT_FALSE(disturbed(repetition(1)));
  EXPECT_FALSE(disturbed(repetition(1, {"retried"})));
  EXPECT_TRUE(disturbed(repetition(1, {"retried", "contended"})));
  EXPECT_TRUE(disturbed(repetition(1, {"throttled"})));
  EXPECT_TRUE(disturbed(repetition(1, {"slowed"})));
}

TEST(Rules, ACpuIsSlowedWhoseMultiplyAddsTakeAThirdLonger) {
  EXPECT_FALSE(slowed(1));
  EXPECT_FALSE(slowed(1.3)) << "a clock that moves with what runs elsewhere on the socket";
  EXPECT_TRUE(slowed(1.4));
  EXPECT_TRUE(slowed(2)) << "two virtual CPUs on one core";
}

TEST(Rules, DisturbedRepetitionsCountOnlyWhereTooFewAreLeft) {
  for (const char* flag : {"contended", "clock"}) {
    const Summary clean = summarise({repetition(1), repetition(2), repetition(3, {"retried"}), repetition(90, {flag})});
    EXPECT_EQ(clean.median_s, 2);
    EXPECT_EQ(clean.lo_s, 1);
    EXPECT_EQ(clean.hi_s, 3);
    EXPECT_EQ(clean.min_s, 0.5);
    EXPECT_EQ(counted_medians({repetition(1), repetition(2, {flag}), repetition(90, {flag})}).size(), 3u);
    EXPECT_EQ(summarise({repetition(1), repetition(2, {flag}), repetition(90, {flag})}).hi_s, 90);
  }
}

TEST(Rules, ASummarySaysWhatItsIntervalIs) {
  EXPECT_THAT(summarise({repetition(1)}).interval, HasSubstr("one repetition"));
  EXPECT_THAT(summarise(std::vector<Repetition>(5, repetition(1))).interval, HasSubstr("min-max"));
  EXPECT_THAT(summarise(std::vector<Repetition>(6, repetition(1))).interval, HasSubstr("order statistics"));
}

Series short_series(std::vector<double> foreign_cores, double wall_s, const CpuWindow& around = {}) {
  Series s;
  for (const double cores : foreign_cores) {
    s.repetitions.push_back(repetition(1));
    s.repetitions.back().wall_s = wall_s;
    s.repetitions.back().foreign_cores = cores;
  }
  decide_contention(s, around);
  return s;
}

TEST(Rules, ShortRepetitionsAreCheckedTogether) {
  const Series busy = short_series({0, 0, 1.5, 1.5}, 0.03);  // one tick of 10 ms is a third of a core here
  ASSERT_TRUE(busy.foreign_cores);
  EXPECT_DOUBLE_EQ(*busy.foreign_cores, 0.75);
  for (const Repetition& r : busy.repetitions) EXPECT_TRUE(disturbed(r));
  const Series calm = short_series({0, 0, 0, 0}, 0.03);
  EXPECT_DOUBLE_EQ(*calm.foreign_cores, 0);
  for (const Repetition& r : calm.repetitions) EXPECT_FALSE(disturbed(r));
}

TEST(Rules, WhereAllRepetitionsAreShortTheWindowAroundThemDecides) {
  EXPECT_FALSE(short_series({1.5, 1.5}, 0.03).foreign_cores) << "too short, and nothing around them";
  EXPECT_FALSE(short_series({1.5, 1.5}, 0.03, {.wall_s = 0.09, .foreign_cores = 1}).foreign_cores);
  const Series busy = short_series({0, 0}, 0.03, {.wall_s = 2, .foreign_cores = 0.5});
  EXPECT_EQ(busy.foreign_cores, 0.5);
  for (const Repetition& r : busy.repetitions) EXPECT_TRUE(disturbed(r));
  const Series stolen = short_series({0, 0}, 0.03, {.wall_s = 2, .steal_share = 0.1});
  for (const Repetition& r : stolen.repetitions) EXPECT_TRUE(disturbed(r));
  const Series calm = short_series({1.5, 0}, 0.03, {.wall_s = 2, .foreign_cores = 0.01});
  EXPECT_EQ(calm.foreign_cores, 0.01);
  for (const Repetition& r : calm.repetitions) EXPECT_FALSE(disturbed(r));
  const Series by_itself = short_series({0, 0}, 0.06, {.wall_s = 2, .foreign_cores = 1});
  EXPECT_EQ(by_itself.foreign_cores, 0) << "long enough without what lies between them";
}

TEST(Rules, LongRepetitionsAreCheckedOneByOne) {
  const Series s = short_series({0, 0, 1, 0}, 0.2);
  EXPECT_FALSE(disturbed(s.repetitions[1]));
  EXPECT_TRUE(disturbed(s.repetitions[2]));
}

TEST(Rules, WhatIsTooShortToBeCheckedSaysSo) {
  Series s = short_series({1, 1, 1}, 0.03);
  EXPECT_FALSE(s.foreign_cores);
  set_flags(s, Device::cpu, 0);
  EXPECT_TRUE(s.has_flag("unchecked"));
  EXPECT_FALSE(s.has_flag("disturbed"));
  set_flags(s, Device::gpu, 0);
  EXPECT_FALSE(s.has_flag("unchecked")) << "a GPU does not share its time";
}

// --- series

Repetition probed(double roof_s, double sample_s, Flags flags = {}) {
  Repetition r = repetition(1, std::move(flags));
  r.samples_s = {sample_s, sample_s, sample_s};
  r.roof_s = {0.99 * roof_s, roof_s, 1.01 * roof_s};
  return r;
}

TEST(Rules, TheShareOfTheRoofIsPairedByRepetition) {
  // The machine halves its speed for the last two, and the share stays what it is.
  Roof roof;
  ASSERT_TRUE(set_adjacent_fraction({probed(0.8, 1), probed(0.82, 1), probed(1.6, 2), probed(1.62, 2)}, roof));
  EXPECT_NEAR(roof.fraction, 0.805, 1e-12);
  EXPECT_NEAR(roof.lo, 0.8, 1e-12);
  EXPECT_NEAR(roof.hi, 0.82, 1e-12);
  EXPECT_EQ(roof.source, RoofSource::adjacent);
  EXPECT_THAT(roof.interval, HasSubstr("min-max of paired"));
  EXPECT_TRUE(roof.quiet);
  EXPECT_FALSE(set_adjacent_fraction({probed(0.8, 1), repetition(1)}, roof)) << "one without a probe";
  EXPECT_TRUE(over_roof(probed(1.04, 1)));
  EXPECT_FALSE(over_roof(probed(1.02, 1)));
  EXPECT_FALSE(over_roof(repetition(1)));
}

TEST(Rules, TheShareIsPairedBySample) {
  // A machine that changes its speed within a repetition: the ratio of the medians is 0.4.
  Repetition r = repetition(1);
  r.samples_s = {1, 2, 3};
  r.roof_s = {0.8, 1.6, 0.3};
  Roof roof;
  ASSERT_TRUE(set_adjacent_fraction({r}, roof));
  EXPECT_DOUBLE_EQ(roof.fraction, 0.8);
}

TEST(Rules, DisturbedPairsDoNotCount) {
  Roof roof;
  set_adjacent_fraction({probed(1, 1), probed(1, 1), probed(1, 1), probed(3, 1, {"contended"})}, roof);
  EXPECT_EQ(roof.hi, 1);
  EXPECT_FALSE(roof.quiet);
}

TEST(Rules, AttemptsAtARepetitionAreJoined) {
  Repetition all = probed(1, 1, {"contended"}), again = probed(0.5, 1, {"contended", "retried"});
  all.wall_s = 1;
  all.foreign_cores = 0.2;
  again.wall_s = 3;
  again.foreign_cores = 1;
  const size_t samples = all.samples_s.size();
  append_attempt(all, again);
  EXPECT_EQ(all.samples_s.size(), 2 * samples);
  EXPECT_EQ(all.roof_s.size(), 2 * samples);
  EXPECT_EQ(all.roof_s.back(), again.roof_s.back());
  EXPECT_DOUBLE_EQ(all.wall_s, 4);
  EXPECT_DOUBLE_EQ(all.foreign_cores, 0.8);
  EXPECT_EQ(all.flags, (Flags{"contended", "retried"}));
  again.roof_s.clear();  // without a probe
  append_attempt(all, again);
  EXPECT_EQ(all.samples_s.size(), 3 * samples);
  EXPECT_TRUE(all.roof_s.empty());
}

TEST(Rules, AShareOfWhichRepetitionsDifferIsUnsteady) {
  Series s = make_series(Scope::call, 1e-5, 0.8);
  EXPECT_FALSE(has_unsteady_share(s));
  s.roof->lo = 0.75;
  s.roof->hi = 0.84;
  EXPECT_FALSE(has_unsteady_share(s));
  s.flags = {"disturbed"};
  EXPECT_TRUE(has_unsteady_share(s));
  s.roof->hi = 0.79;
  EXPECT_FALSE(has_unsteady_share(s));
  s.flags.clear();
  s.roof->hi = 0.86;
  EXPECT_TRUE(has_unsteady_share(s));
  s.roof.reset();
  EXPECT_FALSE(has_unsteady_share(s));
}

TEST(Rules, OnlyASteadyProbeIsQuiet) {
  Repetition r = probed(1, 1);
  r.roof_s = {0.8, 0.8, 1, 1, 1.2, 1.2, 1.2, 1.2};
  r.samples_s.assign(r.roof_s.size(), 1);
  Roof roof;
  set_adjacent_fraction({r}, roof);
  EXPECT_FALSE(roof.quiet);
}

Flags flags_at(double fraction, Device device = Device::cpu, Scope scope = Scope::call) {
  Series s = make_series(scope, 1e-5, fraction);
  s.flags = {"restored", "suspect", "weak_cpu"};  // old ones are replaced
  set_flags(s, device, 0);
  return s.flags;
}

TEST(Rules, ASeriesOverItsRoofIsSuspect) {
  EXPECT_EQ(flags_at(1.03), Flags({"restored"})) << "within a ceiling's own spread";
  EXPECT_EQ(flags_at(1.04), Flags({"restored", "suspect"}));
  EXPECT_EQ(flags_at(1.04, Device::gpu), Flags({"restored", "suspect"}));
}

TEST(Rules, OnlyAQuietAdjacentRoofAccusesASeries) {
  const auto suspect_with = [](const auto& change) {
    Series s = make_series(Scope::call, 1e-5, 1.3);
    change(*s.roof);
    set_flags(s, Device::cpu, 0);
    return s.has_flag("suspect");
  };
  EXPECT_TRUE(suspect_with([](Roof&) {}));
  EXPECT_FALSE(suspect_with([](Roof& r) { r.source = RoofSource::run; })) << "ceilings of another moment";
  EXPECT_FALSE(suspect_with([](Roof& r) { r.quiet = false; }));
  EXPECT_FALSE(suspect_with([](Roof& r) { r.lo = 1.02; })) << "one repetition was below";
}

TEST(Rules, AShareBeyondARoofThatAccusesNobodySaysNothing) {
  const auto disturbed_with = [](const auto& change) {
    Series s = make_series(Scope::call, 1e-5, 1.3);
    change(s);
    return has_disturbed_roof(s);
  };
  EXPECT_FALSE(disturbed_with([](Series&) {})) << "it accuses";
  EXPECT_TRUE(disturbed_with([](Series& s) { s.flags = {"disturbed"}; }));
  EXPECT_TRUE(disturbed_with([](Series& s) { s.roof->quiet = false; }));
  EXPECT_FALSE(disturbed_with([](Series& s) {
    s.roof->quiet = false;
    s.roof->source = RoofSource::run;
  }));
  EXPECT_FALSE(disturbed_with([](Series& s) {
    s.roof->quiet = false;
    set_fraction(s, 1.02);
  }));
  EXPECT_FALSE(disturbed_with([](Series& s) { s.roof.reset(); }));
}

TEST(Rules, ACpuFarBelowItsRoofIsWeak) {
  EXPECT_EQ(flags_at(0.4), Flags({"restored"}));
  EXPECT_EQ(flags_at(0.39), Flags({"restored", "weak_cpu"}));
  EXPECT_EQ(flags_at(0.39, Device::gpu), Flags({"restored"}));
}

TEST(Rules, WhatIsNearAnEmptyKernelIsAtTheFloorAndNotComparedWithItsRoof) {
  const auto flags = [](Scope scope, double time_s, double fraction) {
    Series s = make_series(scope, time_s, fraction);
    set_flags(s, Device::gpu, 1e-6);
    return s.flags;
  };
  EXPECT_EQ(flags(Scope::kernel, 2.9e-6, 0.9), Flags({"floor"}));
  EXPECT_EQ(flags(Scope::kernel, 2.9e-6, 1.5), Flags({"floor"}));
  EXPECT_EQ(flags(Scope::kernel, 3.1e-6, 1.5), Flags({"suspect"}));
  EXPECT_EQ(flags(Scope::call, 2.9e-6, 1.5), Flags({"floor"}));
}

TEST(Rules, ASeriesThatHadToCountDisturbedRepetitionsSaysSo) {
  Series s = make_series(Scope::call, 1e-3, 0.8);
  for (const size_t i : {0, 1}) s.repetitions[i].flags = {"contended"};
  set_flags(s, Device::cpu, 0);
  EXPECT_FALSE(s.has_flag("disturbed")) << "three of five are left";
  s.repetitions[2].flags = {"contended"};
  set_flags(s, Device::cpu, 0);
  EXPECT_TRUE(s.has_flag("disturbed"));
  Series one = make_series(Scope::call, 1e-3, 0.8, 1, Cache::warm, 1);
  set_flags(one, Device::cpu, 0);
  EXPECT_FALSE(one.has_flag("disturbed")) << "the only repetition was left alone";
}

// --- jobs

struct Verdict {
  bool comparable;
  std::string reason;
};
template <class Fault>
Verdict verdict_after(const Fault& plant) {
  Job job = softmax_pair()[0];
  plant(job);
  set_verdict(job);
  return {job.comparable, job.reason};
}

TEST(Rules, AVerifiedAndPlausibleJobIsComparable) {
  const Verdict v = verdict_after([](Job&) {});
  EXPECT_TRUE(v.comparable);
  EXPECT_EQ(v.reason, "");
}

TEST(Rules, WhatExcludesAJob) {
  const auto excluded = [](const char* reason, const auto& plant) {
    const Verdict v = verdict_after(plant);
    EXPECT_FALSE(v.comparable) << reason;
    EXPECT_THAT(v.reason, HasSubstr(reason));
  };
  excluded("no such library", [](Job& j) {
    j.status = Status::skipped;
    j.reason = "no such library";
    j.series.clear();
  });
  excluded("was not checked", [](Job& j) { j.check.reset(); });
  excluded("is not a number", [](Job& j) { j.check->max_error_ratio.reset(); });
  excluded("no part of its result", [](Job& j) { j.check->slices = 0; });
  excluded("no part of its result", [](Job& j) { j.check->elements = 0; });
  excluded("1.5 times its bound", [](Job& j) { j.check->max_error_ratio = 1.5; });
  for (const char* impl : {"reference", "cpu.reference", "simt.naive"})
    excluded("never stands in a ratio", [&](Job& j) { j.impl = impl; });
  excluded("call, warm, 4 threads: 104 % of its roof (cpu.copy)", [](Job& j) {
    j.series[0].roof->fraction = j.series[0].roof->lo = j.series[0].roof->hi = 1.04;
    // The one-thread series alone looks fine.
    set_flags(j.series[0], j.device, 0);
  });
  excluded("flagged suspect by the run", [](Job& j) {
    j.series[1].flags = {"suspect"};
    j.series[1].roof.reset();
  });
}

TEST(Rules, AnErrorAtItsBoundPasses) {
  EXPECT_TRUE(verdict_after([](Job& j) { j.check->max_error_ratio = 1; }).comparable);
}

// --- the best of a side

TEST(Rules, TheFastestComparableCallStandsForItsSide) {
  std::vector<Job> jobs = softmax_pair();
  jobs.push_back(make_job("softmax/cpu.onednn/f32/rows:64", {make_series(Scope::call, 5e-4, 0.9, 4)}));
  const auto choose = [&](Device device) {
    const JobsByCase cases = jobs_by_case(jobs);
    EXPECT_EQ(cases.size(), 1u);
    return best(cases[0].second, device);
  };
  EXPECT_EQ(choose(Device::cpu)->job->impl, "cpu.onednn");
  jobs[2].plan.emplace().algorithm = std::string("brgemm; ") + kBeforeTheClock + "w";
  EXPECT_EQ(choose(Device::cpu)->job->impl, "cpu.onednn") << "with its weights packed before the clock";
  jobs[2].check->max_error_ratio = 1.5;
  set_verdict(jobs[2]);
  EXPECT_EQ(choose(Device::cpu)->job->impl, "cpu.tuned");
  EXPECT_EQ(choose(Device::cpu)->call->threads, 4);
  const auto gpu = choose(Device::gpu);
  EXPECT_EQ(gpu->at(Scope::kernel)->summary.median_s, 1e-5);
  EXPECT_EQ(gpu->at(Scope::call)->summary.median_s, 2e-5);
  EXPECT_EQ(gpu->at(Scope::end_to_end)->summary.median_s, 2e-3);
  EXPECT_EQ(gpu->device_time(), gpu->kernel);
}

TEST(Rules, OwnCodeThatALibraryBeatsIsWeak) {
  const auto flags_with = [](const char* library, double library_s, const char* algorithm = "") {
    std::vector<Job> jobs{
        make_job("conv2d/cpu.im2col/f32/rows:64", {make_series(Scope::call, 3e-3, 0.9, 4)}),
        make_job("conv2d/cpu.tuned/f32/rows:64",
                 {make_series(Scope::call, 1e-3, 0.9, 4), make_series(Scope::call, 4e-3, 0.9, 1)}),
        make_job(std::string("conv2d/") + library + "/f32/rows:64", {make_series(Scope::call, library_s, 0.9, 4)})};
    jobs[2].plan.emplace().algorithm = algorithm;
    flag_beaten(jobs);
    flag_beaten(jobs);  // changes nothing more
    EXPECT_EQ(jobs[0].series[0].flags, Flags()) << "not the best of our own";
    EXPECT_EQ(jobs[1].series[1].flags, Flags()) << "the library was not timed with one thread";
    EXPECT_EQ(jobs[2].series[0].flags, Flags());
    return jobs[1].series[0].flags;
  };
  EXPECT_EQ(flags_with("cpu.onednn", 0.90e-3), Flags({"weak_cpu"}));
  EXPECT_EQ(flags_with("cpu.openblas", 0.90e-3), Flags({"weak_cpu"}));
  EXPECT_EQ(flags_with("cpu.onednn", 0.92e-3), Flags()) << "less than 10 %";
  EXPECT_EQ(flags_with("cpu.onednn_packed", 0.5e-3, (std::string(kBeforeTheClock) + "w").c_str()), Flags({"weak_cpu"}));
  EXPECT_EQ(flags_with("cpu.materialised", 0.5e-3), Flags()) << "no library";
}

TEST(Rules, AWrongLibraryBeatsNothing) {
  std::vector<Job> jobs{make_job("gemm/cpu.tuned/f32/rows:64", {make_series(Scope::call, 1e-3, 0.9, 4)}),
                        make_job("gemm/cpu.onednn/f32/rows:64", {make_series(Scope::call, 5e-4, 0.9, 4)})};
  ASSERT_EQ(beaten(jobs).size(), 1u);
  EXPECT_EQ(beaten(jobs)[0].own, &jobs[0]);
  EXPECT_EQ(beaten(jobs)[0].library, &jobs[1]);
  EXPECT_DOUBLE_EQ(beaten(jobs)[0].factor, 2);
  jobs[1].check->max_error_ratio = 1.5;
  set_verdict(jobs[1]);
  EXPECT_TRUE(beaten(jobs).empty());
}

TEST(Rules, WarmIsPreferredToColdWhateverTheTimes) {
  std::vector<Job> jobs{make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 2e-3, 0.5, 4),
                                                            make_series(Scope::call, 1e-3, 0.5, 4, Cache::cold)})};
  const std::vector<const Job*> of_case{&jobs[0]};
  EXPECT_EQ(best(of_case, Device::cpu)->call->cache, Cache::warm);
  EXPECT_EQ(best(of_case, Device::cpu, Cache::cold)->call->cache, Cache::cold);
  jobs[0].series.erase(jobs[0].series.begin());
  EXPECT_EQ(best(of_case, Device::cpu)->call->cache, Cache::cold);
  EXPECT_FALSE(best(of_case, Device::gpu));
}

// --- ceilings

TEST(Rules, CeilingsThatDriftAreNamedAndTheBetterValueCounts) {
  const std::vector<Ceiling> before{make_ceiling("cpu.copy", 100, "B/s", 8, 4),
                                    make_ceiling("cpu.read", 100, "B/s", 8, 4), make_ceiling("gpu.launch", 5, "s")};
  std::vector<std::string> warnings;
  std::vector<Ceiling> after = before;
  after[0].value = 97.1;
  after[1].value = 102.9;
  after[2].value = 1;
  const auto joined = join_ceilings(before, after, warnings);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  EXPECT_EQ(joined[0].value, 100);
  EXPECT_EQ(joined[1].value, 102.9);
  EXPECT_EQ(joined[2].value, 1) << "of times the smaller one";
  EXPECT_EQ(joined[0].samples.size(), 4u);
  after[0].value = 96;
  after[1].value = 110;
  join_ceilings(before, after, warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("2 of 3 ceilings moved by more than 3 %"));
  EXPECT_THAT(warnings[0], HasSubstr("cpu.read"));
  EXPECT_THAT(warnings[0], HasSubstr("(+10 %)"));
}

TEST(Rules, OneThreadFasterThanAllIsInconsistent) {
  std::vector<Ceiling> all{make_ceiling("cpu.copy", 100, "B/s", 8, 4), make_ceiling("cpu.copy", 102, "B/s", 8, 1),
                           make_ceiling("cpu.fork_join", 1, "s", 0, 4), make_ceiling("cpu.fork_join", 9, "s", 0, 1)};
  EXPECT_EQ(inconsistency(all), "");
  all[1].value = 110;
  EXPECT_THAT(inconsistency(all), HasSubstr("cpu.copy, 8e-06 MB: 110 B/s with one thread, 100 with 4"));
}

// --- the run

TEST(Rules, ARunIsTrustworthyUntilSomethingDisturbsIt) {
  results::Run run = make_run(softmax_pair());
  decide_trust(run);
  EXPECT_EQ(run.invocation.trust, Trust::trustworthy);
  EXPECT_TRUE(run.invocation.doubts.empty());

  run.invocation.doubts = {"4 of 12 ceilings moved"};
  decide_trust(run);
  EXPECT_EQ(run.invocation.trust, Trust::disturbed);

  run = make_run(softmax_pair());
  decide_trust(run, "a debug build");
  EXPECT_EQ(run.invocation.trust, Trust::unusable);
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr("a debug build"));
}

TEST(Rules, DisturbedRowsMakeTheRunDisturbed) {
  results::Run run = make_run(softmax_pair());
  Job& job = run.jobs[0];
  for (Repetition& r : job.series[0].repetitions) r.flags = {"contended"};
  decide(job);
  EXPECT_TRUE(job.comparable);
  EXPECT_EQ(job.trust, Trust::disturbed);
  decide_trust(run);
  EXPECT_EQ(run.invocation.trust, Trust::disturbed);
  ASSERT_EQ(run.invocation.doubts.size(), 1u);
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr("1 of 2 rows are disturbed"));
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr(job.name));
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr("2 of 2 series on the CPU could be checked"));
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr("disturbed: other processes ran ("));
  for (Repetition& r : run.jobs[1].series[0].repetitions) {
    r.flags = {"throttled"};
    r.throttled_by = "power cap";
  }
  decide(run.jobs[1]);
  run.invocation.doubts.clear();
  decide_trust(run);
  EXPECT_EQ(run.invocation.trust, Trust::disturbed);
  ASSERT_EQ(run.invocation.doubts.size(), 1u);
  EXPECT_THAT(run.invocation.doubts[0], HasSubstr("other processes ran, the GPU lowered its clock by power cap ("));
}

}  // namespace
}  // namespace duet::results::testing
