#include "qtape/model/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "qtape/core/error.h"
#include "qtape/io/sha256.h"

namespace qtape {
namespace {

constexpr char separator = '\x1f';
// Samples that are compared between processes: all of a small data set.
constexpr int64_t max_hashed = 4096;

/// Hash of samples that are spread evenly over the data set.
std::string hash_of(const data::Dataset& dataset) {
  Sha256 hash;
  const int64_t count = std::min(dataset.size(), max_hashed);
  std::vector<float> values;
  for (size_t column = 0; column < dataset.columns().size(); ++column) {
    const TensorType& sample = dataset.columns()[column].sample;
    values.resize(static_cast<size_t>(sample.elements()));
    for (int64_t i = 0; i < count; ++i) {
      dataset.read(column, i * dataset.size() / count, std::span(values));
      hash.update(std::as_bytes(std::span(values)));
    }
  }
  return hex(hash.digest());
}

/// Values of one fact with the ranks that have them: "rank 0: a; ranks 1, 2: b".
std::string by_rank(std::span<const std::string> values) {
  std::vector<bool> named(values.size());
  std::string text;
  for (size_t first = 0; first < values.size(); ++first) {
    if (named[first]) continue;
    std::string ranks;
    size_t count = 0;
    for (size_t rank = first; rank < values.size(); ++rank) {
      if (values[rank] != values[first]) continue;
      named[rank] = true;
      ranks += fmt::format("{}{}", count++ == 0 ? "" : ", ", rank);
    }
    text += fmt::format("{}rank{} {}: {}", text.empty() ? "" : "; ", count == 1 ? "" : "s",
                        ranks, values[first]);
  }
  return text;
}

}  // namespace

RankFact count_fact(const std::string& name, const data::Dataset& dataset) {
  return {"number of " + name, std::to_string(dataset.size()), same_files};
}

std::vector<RankFact> data_facts(const std::string& name, const data::Dataset& dataset) {
  return {count_fact(name, dataset), {name, hash_of(dataset), same_files}};
}

std::vector<std::string> Ranks::gather(const std::string& text) const {
  const auto ranks = static_cast<size_t>(count());
  std::vector<int64_t> sizes(ranks);
  const auto size = static_cast<int64_t>(text.size());
  exchange_->gather(std::as_bytes(std::span(&size, 1)),
                    std::vector<int64_t>(ranks, static_cast<int64_t>(sizeof(size))),
                    reinterpret_cast<std::byte*>(sizes.data()));
  std::string all(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})),
                  '\0');
  exchange_->gather(std::as_bytes(std::span(text)), sizes,
                    reinterpret_cast<std::byte*>(all.data()));
  std::vector<std::string> texts;
  size_t begin = 0;
  for (const int64_t each : sizes) {
    texts.push_back(all.substr(begin, static_cast<size_t>(each)));
    begin += static_cast<size_t>(each);
  }
  return texts;
}

int Ranks::largest(int value) const {
  if (count() == 1) return value;
  exchange_->gather(std::as_bytes(std::span(&value, 1)), bytes_,
                    reinterpret_cast<std::byte*>(values_.data()));
  return *std::ranges::max_element(values_);
}

void Ranks::require_equal(std::span<const RankFact> facts) const {
  if (count() == 1) return;
  std::string own;
  for (const RankFact& fact : facts) {
    own += fact.name + separator + fact.value + separator + fact.remedy + separator;
  }
  std::map<std::string, std::vector<std::string>> values;  // by name and rank
  std::map<std::string, std::string> remedies;
  const std::vector<std::string> texts = gather(own);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    std::istringstream text(texts[rank]);
    RankFact fact;
    while (std::getline(text, fact.name, separator) &&
           std::getline(text, fact.value, separator) &&
           std::getline(text, fact.remedy, separator)) {
      std::vector<std::string>& by_rank = values[fact.name];
      by_rank.resize(texts.size(), "none");
      by_rank[rank] = fact.value;
      remedies[fact.name] = fact.remedy;
    }
  }
  std::string differences;
  for (const auto& [name, all] : values) {
    if (std::ranges::count(all, all[0]) == static_cast<int64_t>(all.size())) continue;
    differences += fmt::format("{}{} ({}; {})", differences.empty() ? "" : ", ", name,
                               by_rank(all), remedies[name]);
  }
  require<ArgumentError>(differences.empty(),
                         "the processes of a run must agree, but differ in {}", differences);
}

}  // namespace qtape
