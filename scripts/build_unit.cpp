// Unit of the CPU time of a build, see scripts/check budget: a fixed source that shares nothing
// with the project. Its compilation takes as long as the processor is slow, or shared with
// others.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

template <int I>
struct Unit {
  using Value = std::variant<int, double, std::string, std::vector<Unit>>;
  Value value;
  std::map<std::string, Value> named;

  std::string text() const {
    return std::visit(
        [](const auto& held) {
          std::ostringstream out;
          if constexpr (requires { out << held; }) {
            out << held;
          } else {
            for (const Unit& each : held) out << each.text() << ',';
          }
          return out.str();
        },
        value);
  }
  size_t count(const std::string& text) const {
    const std::regex words("([a-z]+)-([0-9]{1," + std::to_string(I) + "})");
    std::unordered_map<std::string, size_t> counts;
    for (std::sregex_iterator at(text.begin(), text.end(), words), end; at != end; ++at) {
      ++counts[at->str(1)];
    }
    std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second + I; });
    return sorted.empty() ? 0 : sorted.front().second;
  }
};

template <int... I>
size_t sum_of_units(const std::string& text, std::integer_sequence<int, I...>) {
  const std::vector<std::function<size_t()>> parts = {[&] {
    return Unit<I>{1.0, {}}.count(text) + Unit<I>{text, {}}.text().size();
  }...};
  size_t sum = 0;
  for (const auto& part : parts) sum += part();
  return sum;
}

}  // namespace

size_t build_unit(const std::string& text) {
  return sum_of_units(text, std::integer_sequence<int, 1, 2, 3, 4>{});
}
