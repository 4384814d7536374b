#include "bench/stream/results.hpp"

#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "bench/stream/team.hpp"

namespace penstock::bench::stream {

namespace {

using Kind = TargetSpec::Kind;

const char* group_text(const std::string& group) {
  if (group == "1a") return "class 1a: a socket and its own persistent memory";
  if (group == "1b") return "class 1b: a socket and persistent memory elsewhere";
  if (group == "1c") return "class 1c: all sockets and each persistent memory";
  if (group == "2a") return "class 2a: a socket and the memory of another NUMA node";
  if (group == "2b") return "class 2b: all sockets and the memory of each NUMA node";
  if (group == "local") return "a socket and its own memory";
  if (group == "pool") return "a pool";
  return "as chosen";
}

std::vector<Column> kernel_columns(int decimals) {
  std::vector<Column> columns;
  for (const Kernel kernel : all_kernels) columns.push_back({kernel_name(kernel), decimals});
  return columns;
}

bool bare(const Series& series) {
  return series.target.promise == Promise::none;
}
bool ordinary(const Series& series) {
  return series.target.kind == Kind::numa || series.target.kind == Kind::memory;
}

/// Both series use ordinary memory, with the same stores.
const char* nodes_ratio(const Series& x, const Series& y) {
  if (!ordinary(x) || !ordinary(y) || x.target.store != y.target.store) return nullptr;
  if (x.group == "2a" && !x.far && y.group == "local") return "remote / local";
  if (x.group == "2a" && x.far && y.group == "local") return "CXL / local";
  if (x.group == "2a" && x.far && y.group == "2a" && !y.far) return "CXL / remote";
  return nullptr;
}

/// The same memory with and without libpmemobj; unknown for chosen targets.
const char* direct_ratio(const Series& x, const Series& y) {
  if (x.target.kind != Kind::pmem || !bare(x) || !ordinary(y) || y.target.store != Store::plain)
    return nullptr;
  const bool same = x.far ? y.far : x.node == y.node;
  return x.group == "chosen" || same ? "App-Direct / Memory-Mode" : nullptr;
}

const char* promise_ratio(const Series& x, const Series& y) {
  const bool comparable = x.target.kind == y.target.kind && x.target.place == y.target.place &&
                          x.target.mode == y.target.mode && x.target.store == y.target.store &&
                          !bare(x) && bare(y) && y.target.hoisted;
  if (!comparable) return nullptr;
  switch (x.target.promise) {
    case Promise::persist:
      return "persisted / plain";
    case Promise::transaction:
      return "transactions / plain";
    case Promise::transaction_no_copy:
      return "transactions without copies / plain";
    case Promise::observe:
      return "observed first / not";
    case Promise::none:
      break;
  }
  return nullptr;
}

const char* pool_ratio(const Series& x, const Series& y) {
  if (x.target.kind != Kind::pool || !bare(x)) return nullptr;
  if (ordinary(y)) {
    const bool here = y.group == "local" || y.group == "chosen";
    return here && x.target.store == y.target.store ? "pool / memory" : nullptr;
  }
  const bool modes = y.target.kind == Kind::pool && bare(y) && x.target.place == y.target.place &&
                     x.target.mode != coherence::Mode::hardware &&
                     y.target.mode == coherence::Mode::hardware && y.target.store == Store::plain;
  return modes ? "by this mode / by hardware" : nullptr;
}

const char* ratio_name(const Series& x, const Series& y) {
  if (x.target.mode == coherence::Mode::simulated)
    return nullptr;  // this measures a model, not
                     // memory
  if (x.affinity != y.affinity || x.cpus != y.cpus) return nullptr;
  for (const auto rule : {nodes_ratio, direct_ratio, promise_ratio, pool_ratio})
    if (const char* const name = rule(x, y)) return name;
  return nullptr;
}

/// Returns the figures of x and y with the most threads that both have.
std::pair<const Figure*, const Figure*> largest_common(const std::vector<Figure>& figures,
                                                       const Series* x, const Series* y) {
  std::pair<const Figure*, const Figure*> found;
  for (const Figure& of_x : figures)
    for (const Figure& of_y : figures)
      if (of_x.series == x && of_y.series == y && of_x.threads == of_y.threads &&
          (found.first == nullptr || of_x.threads > found.first->threads))
        found = {&of_x, &of_y};
  return found;
}

Table group_table(const std::vector<Figure>& figures, const std::string& group) {
  Table table{fmt::format("{}; MB/s, the best run", group_text(group)), {{"threads"}}, {}};
  for (Column& column : kernel_columns(0)) table.columns.push_back(std::move(column));
  table.columns.push_back({"series"});
  for (const Figure& figure : figures) {
    if (figure.series->group != group) continue;
    auto& row = table.rows.emplace_back();
    row.emplace_back(static_cast<double>(figure.threads));
    for (const Kernel kernel : all_kernels) row.push_back(cell(figure.median(kernel)));
    row.emplace_back(figure.series->name);
  }
  return table;
}

void add_notes(Report& report, const Facts& facts) {
  report.note("elements", static_cast<double>(facts.elements));
  report.note("ntimes", static_cast<double>(facts.ntimes));
  report.note("first touch", facts.first_touch ? "by each thread" : "by one thread");
  report.note("last-level caches, bytes",
              facts.cache_bytes ? Cell(static_cast<double>(*facts.cache_bytes)) : Cell("unknown"));
  report.note("OpenMP", has_openmp() ? "yes" : "no");
}

Table single_figures(const std::vector<Figure>& figures, std::uint64_t elements) {
  Table table{"figures",
              {{"class"},
               {"series"},
               {"target"},
               {"mode"},
               {"store"},
               {"affinity"},
               {"threads"},
               {"repeat"},
               {"kernel"},
               {"MBps"},
               {"best_s"},
               {"mean_s"},
               {"worst_s"},
               {"bytes"},
               {"error_a"},
               {"error_b"},
               {"error_c"}},
              {}};
  for (const Figure& figure : figures)
    for (std::size_t i = 0; i < figure.measured.size(); ++i)
      for (const Timing& timing : figure.measured[i].timings) {
        const Series& series = *figure.series;
        const Errors& errors = figure.measured[i].errors;
        const char* const mode =
            series.target.mode ? coherence::mode_name(*series.target.mode) : "";
        table.rows.push_back({series.group, series.name, series.target.name(), mode,
                              store_name(series.target.store), affinity_name(series.affinity),
                              static_cast<double>(figure.threads), static_cast<double>(i),
                              kernel_name(timing.kernel), timing.best_MBps, timing.best_s,
                              timing.mean_s, timing.worst_s,
                              static_cast<double>(counted_bytes(timing.kernel, elements)), errors.a,
                              errors.b, errors.c});
      }
  return table;
}

}  // namespace

std::optional<double> Figure::median(Kernel kernel) const {
  std::vector<double> values;
  for (const Measured& each : measured)
    for (const Timing& timing : each.timings)
      if (timing.kernel == kernel) values.push_back(timing.best_MBps);
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Table ratios_of(const std::vector<Figure>& figures) {
  Table table{"ratios, at the largest number of threads that both have", {{"threads"}}, {}};
  for (Column& column : kernel_columns(2)) table.columns.push_back(std::move(column));
  for (const char* title : {"ratio", "of", "over"}) table.columns.push_back({title});
  const auto all = memory_of(figures);
  for (const auto& [x, of_memory] : all)
    for (const auto& [y, as_well] : all) {
      const char* const name = x == y ? nullptr : ratio_name(*x, *y);
      if (name == nullptr) continue;
      const auto [of_x, of_y] = largest_common(figures, x, y);
      if (of_x == nullptr) continue;
      auto& row = table.rows.emplace_back();
      row.emplace_back(static_cast<double>(of_x->threads));
      for (const Kernel kernel : all_kernels)
        row.push_back(ratio(of_x->median(kernel), of_y->median(kernel)));
      for (const std::string& text : {std::string(name), x->name, y->name}) row.emplace_back(text);
    }
  return table;
}

Report tables_of(const std::vector<Figure>& figures, const Facts& facts) {
  Report report("stream");
  add_notes(report, facts);
  std::vector<std::string> groups(class_names.begin(), class_names.end());
  groups.emplace_back("chosen");
  for (const std::string& group : groups) {
    Table table = group_table(figures, group);
    if (!table.rows.empty()) report.add(std::move(table));
  }
  Table ratios = ratios_of(figures);
  if (!ratios.rows.empty()) report.add(std::move(ratios));
  return report;
}

std::vector<std::pair<const Series*, std::string>> memory_of(const std::vector<Figure>& figures) {
  std::vector<std::pair<const Series*, std::string>> found;
  for (const Figure& figure : figures)
    if (found.empty() || found.back().first != figure.series)
      found.emplace_back(figure.series, figure.measured.front().facts);
  return found;
}

Report all_of(const std::vector<Figure>& figures, const std::vector<Absent>& absent,
              const Facts& facts) {
  Report report = tables_of(figures, facts);
  report.add(single_figures(figures, facts.elements));
  Table memory{"memory", {{"series"}, {"facts"}}, {}};
  for (const auto& [series, facts_of] : memory_of(figures))
    memory.rows.push_back({series->name, facts_of});
  report.add(std::move(memory));
  Table missing{"absent", {{"what"}, {"why"}}, {}};
  for (const Absent& each : absent) missing.rows.push_back({each.what, each.why});
  report.add(std::move(missing));
  return report;
}

std::string csv_of(const std::vector<Figure>& figures, const Facts& facts) {
  std::string text = "threads,Copy,Scale,Add,Triad,class,affinity,elements,series\n";
  for (const Figure& figure : figures) {
    text += std::to_string(figure.threads);
    for (const Kernel kernel : all_kernels) {
      const auto median = figure.median(kernel);
      text += median ? fmt::format(",{:.1f}", *median) : ",";
    }
    text +=
        fmt::format(",{},{},{},\"{}\"\n", figure.series->group,
                    affinity_name(figure.series->affinity), facts.elements, figure.series->name);
  }
  return text;
}

}  // namespace penstock::bench::stream
