#include "models/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/philox.h"

namespace duet {

Trainer::Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed)
    : context_(&context), train_(context, preferences, seed), evaluate_(context, preferences, seed), seed_(seed) {
  model.train(train_), model.evaluate(evaluate_);
  train_.plan(), evaluate_.plan();
  x_of_ = train_.find("x"), label_of_ = train_.find("label"), loss_of_ = train_.find("loss");
  evaluated_x_of_ = evaluate_.find("x"), logits_of_ = evaluate_.find("logits");
  const Shape shape = train_.shape(x_of_);
  batch_ = shape.at(0);
  features_ = std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
  x_.resize(static_cast<size_t>(batch_ * features_));
  label_.resize(static_cast<size_t>(batch_));
}

void Trainer::learning_rate(double lr) {
  const auto value = static_cast<float>(lr);
  train_.upload(train_.find("lr"), std::span(&value, 1));
}

void Trainer::expect(const Dataset& data) const {
  if (data.features != features_)
    throw Error("the data has {} features a sample, the model {}", data.features, features_);
}

void Trainer::gather(const Dataset& data, const std::vector<int64_t>& samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    std::memcpy(x_.data() + static_cast<int64_t>(i) * features_, data.x.data() + samples[i] * features_,
                static_cast<size_t>(features_) * sizeof(float));
    label_[i] = data.label[static_cast<size_t>(samples[i])];
  }
}

double Trainer::epoch(const Dataset& data) {
  expect(data);
  if (data.size() < batch_) throw Error("{} samples are fewer than the batch of {}", data.size(), batch_);
  std::vector<int64_t> order(static_cast<size_t>(data.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const uint64_t key = (seed_ << 16) + static_cast<uint64_t>(++epochs_);
  for (size_t i = order.size(); i > 1; --i)  // Fisher and Yates; Philox, so that the order is the same everywhere
    std::swap(order[i - 1], order[static_cast<size_t>(uint64_t{philox_bits(i, key)} * i >> 32)]);

  double sum = 0;
  const int64_t batches = data.size() / batch_;
  std::vector<int64_t> samples(static_cast<size_t>(batch_));
  context_->enter([&] {
    for (int64_t b = 0; b < batches; ++b) {
      std::copy_n(order.begin() + b * batch_, batch_, samples.begin());
      gather(data, samples);
      train_.upload(x_of_, std::span<const float>(x_));
      train_.upload(label_of_, std::span<const int32_t>(label_));
      train_.run();
      const double loss = train_.download(loss_of_)[0];
      ++steps_;
      if (!std::isfinite(loss))
        throw Error("the loss is {} in step {} (epoch {}, batch {}): a lower learning rate may help",
                    std::isnan(loss) ? "NaN" : "infinite", steps_, epochs_, b + 1);
      sum += loss;
    }
  });
  return sum / static_cast<double>(batches);
}

double Trainer::accuracy(const Dataset& data) {
  expect(data);
  evaluate_.copy_parameters(train_);
  const int64_t classes = evaluate_.shape(logits_of_).at(1);
  int64_t right = 0;
  context_->enter([&] {
    std::vector<int64_t> samples(static_cast<size_t>(batch_));
    for (int64_t first = 0; first < data.size(); first += batch_) {
      for (int64_t i = 0; i < batch_; ++i) samples[static_cast<size_t>(i)] = std::min(first + i, data.size() - 1);
      gather(data, samples);
      evaluate_.upload(evaluated_x_of_, std::span<const float>(x_));
      evaluate_.run();
      const std::vector<double> logits = evaluate_.download(logits_of_);
      for (int64_t i = 0; i < std::min(batch_, data.size() - first); ++i) {
        const auto row = logits.begin() + i * classes;
        right += std::max_element(row, row + classes) - row == data.label[static_cast<size_t>(first + i)];
      }
    }
  });
  return data.size() ? static_cast<double>(right) / static_cast<double>(data.size()) : 0;
}

}  // namespace duet
