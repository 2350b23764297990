#include "qtape/model/training/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/io/files.h"
#include "qtape/io/json_document.h"
#include "qtape/io/json_fields.h"

namespace qtape::report {
namespace {

constexpr std::string_view format_name = "qtape-run";
constexpr int64_t format_version = 1;
constexpr int64_t max_record_bytes = int64_t{1} << 30;
constexpr int64_t longest_stride = int64_t{1} << 40;

void check_record(const JsonPlace& root, const RunRecord& record) {
  const auto expect = [&](const char* name, bool right, std::string_view what) {
    root.member(name).expect(right, what);
  };
  const Curve& loss = record.loss;
  expect("loss",
         loss.stride >= 1 && loss.stride <= longest_stride &&
             loss.means.size() <= Curve::max_points && loss.rest_steps >= 0 &&
             loss.rest_steps < loss.stride && loss.rest_finite >= 0 &&
             loss.rest_finite <= loss.rest_steps,
         "means over a stride of at least 1, and a shorter remainder");
  for (const ScaleCurve& each : record.scales) {
    expect("scales",
           each.smallest.size() == record.epochs.size() &&
               each.middle.size() == each.smallest.size() &&
               each.largest.size() == each.smallest.size(),
           "three scales for each epoch");
  }
}

RunRecord parse(std::string_view text) {
  Json document = parse_document(text);
  const JsonPlace root{document};
  root.expect(document.is_object(), "an object");
  std::string format;
  int64_t version = 0;
  read_json(root.member("format"), format);
  root.member("format").expect(format == format_name, "\"qtape-run\"");
  read_json(root.member("version"), version);
  root.member("version").expect(version == format_version, "version 1");
  document.erase("format");
  document.erase("version");
  RunRecord record;
  read_json(root, record);
  check_record(root, record);
  return record;
}

}  // namespace

std::string run_file(const std::string& folder) {
  return (std::filesystem::path(folder) / "run.json").string();
}

void Curve::add(double value) {
  if (std::isfinite(value)) {
    rest_sum += value;
    ++rest_finite;
  }
  if (++rest_steps < stride) return;
  means.push_back(rest_finite > 0 ? std::optional(rest_sum / static_cast<double>(rest_finite))
                                  : std::nullopt);
  rest_sum = 0;
  rest_finite = rest_steps = 0;
  if (means.size() < max_points) return;
  for (size_t i = 0; i < means.size() / 2; ++i) {
    const auto& first = means[2 * i];
    const auto& second = means[2 * i + 1];
    means[i] =
        first && second ? std::optional((*first + *second) / 2) : (first ? first : second);
  }
  means.resize(means.size() / 2);
  stride *= 2;
}

void Curve::keep(int64_t steps) {
  const auto whole = static_cast<size_t>(steps / stride);
  if (this->steps() <= steps) return;
  means.resize(std::min(means.size(), whole));
  rest_sum = 0;
  rest_finite = rest_steps = 0;
}

void ScaleCurve::resize(size_t epochs) {
  for (auto* each : {&smallest, &middle, &largest}) each->resize(epochs);
}

std::vector<QuantizerSummary> summaries(std::span<const QuantizerReport> reports) {
  std::vector<QuantizerSummary> result;
  for (const QuantizerReport& each : reports) {
    result.push_back(
        {.label = each.label,
         .q_min = each.limits.q_min,
         .q_max = each.limits.q_max,
         .channels = each.channels,
         .dead_channels = each.dead_channels,
         .sqnr = std::isfinite(each.sqnr) ? std::optional(each.sqnr) : std::nullopt,
         .saturated = each.saturated,
         .histogram = each.histogram});
  }
  return result;
}

std::string to_json(const RunRecord& record) {
  Json json = {{"format", format_name}, {"version", format_version}};
  json.update(write_json(record));
  return json.dump(-1, JsonTexts::Replace) + "\n";
}

void require_run_folder(const std::string& folder) {
  create_folder(folder);
  require_writable(run_file(folder));
}

void write_run(const std::string& folder, const RunRecord& record) {
  during("writing", folder, [&] { write_file(run_file(folder), to_json(record)); });
}

RunRecord read_run(const std::string& path) {
  return during("reading", path, [&] {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(path, ignored);
    const std::string file = folder ? run_file(path) : path;
    require<IoError>(!folder || std::filesystem::exists(file, ignored),
                     "{}: the folder holds no record of a run, {}; training writes one with "
                     "--report",
                     path, std::filesystem::path(file).filename().string());
    const std::string text = read_file(file, max_record_bytes);
    return naming<FormatError>(file, [&] { return parse(text); });
  });
}

}  // namespace qtape::report
