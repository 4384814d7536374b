#include "scaling_platform.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/format.hpp"
#include "json.hpp"

namespace penstock::tools {

namespace {

/// The envelope that SMPI adds to messages.
constexpr double envelope_bytes = 16;

/// The piece between two measured sizes: a + b x bytes microseconds.
struct Piece {
  std::uint64_t from = 0;
  double a = 0, b = 0;
};

/// A line through two points that meets the axis below 0 gives no latency: replaces it by several
/// lines through the origin.
void add_steep(std::vector<Piece>& pieces, double from, double to, double a, double b) {
  constexpr int steps = 16;
  const double ratio = std::pow(to / from, 1.0 / steps);
  for (int i = 0; i < steps; ++i) {
    const double begin = from * std::pow(ratio, i), middle = begin * std::sqrt(ratio);
    pieces.push_back({static_cast<std::uint64_t>(begin), 0, (a + b * middle) / middle});
  }
}

/// If a larger message took less time, both get the mean of both, and so on: SimGrid's lines only
/// rise.
std::vector<ScalingNetwork::Point> rising(const std::vector<ScalingNetwork::Point>& points) {
  std::vector<ScalingNetwork::Point> all;
  std::vector<std::size_t> counts;  // lengths of the runs of equal points at the end of `all`
  for (const auto& point : points) {
    double micro = point.micro;
    std::size_t count = 1;
    while (!counts.empty() && all.back().micro > micro) {
      const auto more = counts.back();
      micro = (micro * static_cast<double>(count) + all.back().micro * static_cast<double>(more)) /
              static_cast<double>(count + more);
      count += more;
      counts.pop_back();
      for (std::size_t i = 0; i < more; ++i) all.pop_back();
    }
    for (std::size_t i = 0; i < count; ++i) all.push_back({.micro = micro});
    counts.push_back(count);
  }
  for (std::size_t i = 0; i < points.size(); ++i) all[i].bytes = points[i].bytes;
  return all;
}

std::vector<Piece> pieces_of(const ScalingNetwork& network) {
  const auto points = rising(network.measured);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const auto bytes = [&](std::size_t k) {
      return static_cast<double>(points[k].bytes) + envelope_bytes;
    };
    const double rise = std::max(points[i + 1].micro - points[i].micro, 1e-6);
    const double b = rise / (bytes(i + 1) - bytes(i)), a = points[i].micro - b * bytes(i);
    if (a < 0)
      add_steep(pieces, bytes(i), bytes(i + 1), a, b);
    else
      pieces.push_back({static_cast<std::uint64_t>(bytes(i)), a, b});
  }
  if (!pieces.empty()) pieces[0].from = 0;
  return pieces;
}

/// SMPI's own factors, from messages of a cluster of 2010. Source: SimGrid 3.32's documentation of
/// smpi/bw-factor and smpi/lat-factor.
struct Factor {
  std::uint64_t from;
  double latency, rate;
};
constexpr std::array default_factors{
    Factor{0, 2.01467, 0.812084},    Factor{257, 1.95341, 0.338112},
    Factor{732, 1.9503, 0.341987},   Factor{1426, 1.61075, 0.608902},
    Factor{3484, 1.88101, 0.77493},  Factor{5776, 2.18796, 1.08739},
    Factor{9376, 2.59299, 0.58729},  Factor{15424, 3.48845, 0.697866},
    Factor{65472, 11.6436, 0.940694}};

/// Factors by size of message, which yield a + b x bytes of a measured piece.
std::vector<Factor> factors_of(const ScalingNetwork& network) {
  if (network.default_factors) return {default_factors.begin(), default_factors.end()};
  std::vector<Factor> factors;
  for (const Piece& piece : pieces_of(network))
    factors.push_back(
        {piece.from, piece.a / network.latency_us, 1 / (piece.b * network.GBps * 1e3)});
  if (factors.empty()) factors.push_back({0, 1, 1});
  return factors;
}

/// `gamma`: a message that is alone gets at most gamma / (2 x its latency).
std::string config_of(const std::vector<Factor>& factors, double gamma) {
  std::string latency, rate;
  for (const Factor& factor : factors) {
    const char* const between = latency.empty() ? "" : ";";
    latency += fmt::format("{}{}:{:.9g}", between, factor.from, factor.latency);
    rate += fmt::format("{}{}:{:.9g}", between, factor.from, factor.rate);
  }
  return fmt::format(
      " <config>\n  <prop id=\"smpi/bw-factor\" value=\"{}\"/>\n"
      "  <prop id=\"smpi/lat-factor\" value=\"{}\"/>\n"
      "  <prop id=\"network/TCP-gamma\" value=\"{:.9g}\"/>\n"
      "  <prop id=\"network/crosstraffic\" value=\"0\"/>\n"
      "  <prop id=\"network/weight-S\" value=\"0\"/>\n"
      "  <prop id=\"smpi/allreduce\" value=\"rdb\"/>\n"
      "  <prop id=\"smpi/async-small-thresh\" value=\"65536\"/>\n"
      "  <prop id=\"smpi/send-is-detached-thresh\" value=\"65536\"/>\n </config>\n",
      rate, latency, gamma);
}

/// A cluster's rates and latencies, end to end.
struct Links {
  double GBps = 0, us = 0, local_GBps = 0, local_us = 0;
  double gamma = 1e15;
  std::vector<Factor> factors = {{0, 1, 1}};
};

/// Links wide enough for all messages at once, on which each gets what it would get alone: by the
/// limit that SimGrid derives from latencies, which are a millionth of a microsecond here.
Links without_contention(const ScalingNetwork& network) {
  constexpr double wide = 4096, tiny_us = 1e-6;
  return {.GBps = network.GBps * wide,
          .us = tiny_us,
          .local_GBps = network.local_GBps * wide,
          .local_us = tiny_us * network.GBps / network.local_GBps,
          .gamma = 2 * tiny_us * 1e-6 * network.GBps * 1e9};
}

Links links_of(const ScalingNetwork& network, ScalingVariant variant) {
  if (variant == ScalingVariant::no_network) return {.GBps = 1e9, .local_GBps = 1e9};
  if (variant == ScalingVariant::alone) return without_contention(network);
  const bool late = variant == ScalingVariant::whole;
  return {.GBps = network.GBps,
          .us = late ? network.latency_us : 0,
          .local_GBps = network.local_GBps,
          .local_us = late ? network.local_us : 0,
          .factors = factors_of(network)};
}

ScalingNetwork plain(const char* set, const char* network, double latency_us, double GBps,
                     const char* source, bool is_pool = false) {
  return {.set = set,
          .network = network,
          .source = source,
          .latency_us = latency_us,
          .GBps = GBps,
          .is_pool = is_pool};
}

using Points = std::vector<ScalingNetwork::Point>;

/// Medians by size.
Points points_of(const Json& rows, const std::string& series, const char* op,
                 const char* metric = "latency_us") {
  Points points;
  for (const Json& row : rows)
    if (row.at("series") == series && row.at("metric") == metric && row.at("procs") == 2 &&
        row.at("op") == op && row.at("group").is_null() && !row.at("bytes").is_null() &&
        row.at("median") > 0)
      points.push_back({row.at("bytes"), row.at("median")});
  std::sort(points.begin(), points.end(),
            [](const auto& one, const auto& other) { return one.bytes < other.bytes; });
  return points;
}

double rate_of(const Points& points) {
  return static_cast<double>(points.back().bytes) / points.back().micro / 1e3;
}

/// Interpolates between two points, takes the first time below the first one, and extrapolates the
/// line of the last two above the last one. At least two points.
double time_of(const Points& points, std::uint64_t bytes) {
  if (bytes <= points.front().bytes) return points.front().micro;
  std::size_t next = 1;
  while (next + 1 < points.size() && points[next].bytes < bytes) ++next;
  const auto &from = points[next - 1], &to = points[next];
  const double share =
      static_cast<double>(bytes - from.bytes) / static_cast<double>(to.bytes - from.bytes);
  return from.micro + share * (to.micro - from.micro);
}

/// Adds messages to itself that are not immediate copies, as when two are in flight: by latency and
/// the best rate.
void add_self(ScalingNetwork& network, const Points& points) {
  if (points.size() < 2) return;
  network.local_us = points.front().micro;
  network.local_GBps = 0;
  for (const auto& point : points)
    network.local_GBps = std::max(network.local_GBps, rate_of({point}));
  network.to_self = points;
}

ScalingNetwork measured_network(const Json& rows, const char* series, const std::string& results) {
  const Points points = points_of(rows, series, "latency");
  ScalingNetwork network{.set = "penstock-here",
                         .network = series,
                         .source = "measured: " + results,
                         .latency_us = points.front().micro,
                         .GBps = rate_of(points),
                         .is_pool = std::string_view(series).starts_with("Penstock"),
                         .core_copies = true,
                         .measured = points,
                         .exchanged = points_of(rows, series, "exchange", "time_us")};
  add_self(network, points_of(rows, series, "self", "time_us"));
  return network;
}

}  // namespace

double ScalingNetwork::posting_us(std::uint64_t bytes) const {
  if (exchanged.size() < 2) return 0;
  return std::max(time_of(exchanged, bytes) - time_of(measured, bytes), 0.0);
}

double ScalingNetwork::to_self_us(std::uint64_t bytes) const {
  return to_self.size() < 2 ? 0 : time_of(to_self, bytes);
}

std::vector<ScalingNetwork> scaling_networks() {
  constexpr const char* table1 = "cMPI, Table 1";
  constexpr const char* section42 = "cMPI, section 4.2: two-sided, small messages and most ranks";
  constexpr const char* model =
      "a message is a store and a load, one after the other: 2.2 + 0.79 us; cMPI, Table 1";
  std::vector<ScalingNetwork> all = {plain("table1", "CXL", 2.2, 9.5, table1, true),
                                     plain("table1", "CX-6 Dx", 18, 11.5, table1),
                                     plain("table1", "Ethernet", 16, 0.1178, table1),
                                     plain("section4.2", "CXL", 12, 6.05, section42, true),
                                     plain("section4.2", "CX-6 Dx", 55, 12.5, section42),
                                     plain("section4.2", "Ethernet", 160, 0.12, section42),
                                     plain("real-cxl-model", "CXL", 2.99, 9.5, model, true)};
  for (std::size_t i = 0; i < 3; ++i) {
    ScalingNetwork defaults = all[i];
    defaults.set = "table1-defaults";
    defaults.source =
        "cMPI, Table 1, with the correction factors that SMPI has where none are given";
    defaults.default_factors = true;
    all.push_back(defaults);
  }
  return all;
}

Result<std::vector<ScalingNetwork>> measured_networks(const std::string& results) {
  std::ifstream file(results);
  if (!file)
    return fail(ErrorCode::not_found,
                "{} cannot be read: penstock bench run pt2pt --json {} writes it", results,
                base::shell_quote(results));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<ScalingNetwork> found;
  try {
    const Json rows = Json::parse(text).at("experiments").at("pt2pt").at("rows");
    for (const char* series : {"Penstock software", "Penstock hardware", "TCP"}) {
      if (points_of(rows, series, "latency").size() < 2) continue;
      found.push_back(measured_network(rows, series, results));
    }
  } catch (const Json::exception& wrong) {
    return fail(ErrorCode::wrong_format, "{} is no result of penstock bench run pt2pt: {}", results,
                base::printable(wrong.what()));
  }
  if (!found.empty()) return found;
  return fail(ErrorCode::wrong_format,
              "{} has no latencies of 2 ranks over Penstock or TCP: penstock bench run pt2pt "
              "--procs 2 --json FILE",
              results);
}

std::string platform_xml(const ScalingNetwork& network, const ScalingHosts& hosts,
                         ScalingVariant variant) {
  const Links links = links_of(network, variant);
  const bool limited = network.is_pool && hosts.devices != 0 && variant == ScalingVariant::whole;
  std::string shared;
  if (limited)
    shared += fmt::format(" bb_bw=\"{:.6g}MBps\" bb_lat=\"0us\" bb_sharing_policy=\"SHARED\"",
                          hosts.devices * device_GBps / 2 * 1e3);
  // A message crosses the link of its sender and that of its receiver.
  return fmt::format(
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n{}"
      " <cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-{}\" speed=\"{:.9g}Mf\" core=\"{}\" "
      "bw=\"{:.9g}MBps\" lat=\"{:.9g}us\"{} loopback_bw=\"{:.9g}MBps\" "
      "loopback_lat=\"{:.9g}us\"/>\n</platform>\n",
      config_of(links.factors, links.gamma), hosts.nodes - 1, hosts.gflops * 1e3, hosts.per_node,
      links.GBps * 1e3, links.us / 2, shared, links.local_GBps * 1e3, links.local_us);
}

}  // namespace penstock::tools
