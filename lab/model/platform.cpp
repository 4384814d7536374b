#include "model/platform.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/format.hpp"
#include "offload/region.hpp"

namespace penstock::model {

namespace {

constexpr std::array all_fields{
    PlatformField{"device", "GB/s", "of a device: both directions together, or with duplex each",
                  &Platform::device_GBps},
    PlatformField{"duplex", "0|1", "a device reads and writes at once, each at its full rate",
                  &Platform::duplex},
    PlatformField{"pool", "GB/s", "of the switch, or of what all devices share: both directions",
                  &Platform::pool_GBps},
    PlatformField{"turns", "0|1", "a device serves one transfer at a time", &Platform::turns},
    PlatformField{"link", "GB/s", "of a host to the pool, each direction", &Platform::link_GBps},
    PlatformField{"write", "GB/s", "of a rank that publishes", &Platform::write_GBps},
    PlatformField{"read", "GB/s", "of a rank that reads", &Platform::read_GBps},
    PlatformField{"lanes", "1|2", "2: a rank publishes and reads side by side", &Platform::lanes},
    PlatformField{"memory", "GB/s", "of a host's own memory", &Platform::memory_GBps},
    PlatformField{"cached", "0|1", "ranks of a host read from its caches what its others publish",
                  &Platform::cached},
    PlatformField{"reduce", "GB/s", "of operands, by a rank", &Platform::reduce_GBps},
    PlatformField{"switches", "", "that compute: 0, 1, or a spine and its 1 to 7 leaves",
                  &Platform::switches},
    PlatformField{"accel", "GB/s", "of a switch: what it gathers and gives, together",
                  &Platform::accel_GBps},
    PlatformField{"combine", "GB/s", "of operands, by a switch", &Platform::combine_GBps},
    PlatformField{"inside", "0|1", "its slots lie in memory of its own, not on the devices",
                  &Platform::inside},
    PlatformField{"exact", "0|1", "any order gives the same bits: leaves reduce for the spine",
                  &Platform::exact},
    PlatformField{"load", "µs", "of a device access", &Platform::load_us},
    PlatformField{"store", "µs", "until what was stored is seen", &Platform::store_us},
    PlatformField{"fence", "µs", "between a chunk and its doorbell", &Platform::fence_us},
    PlatformField{"launch", "µs", "of a copy or a kernel", &Platform::launch_us},
};

constexpr std::string_view cz120 =
    "CCCL, 2.3: 20 GB/s from 1 MB on, a device (Gen5 x8) and a copy engine each; two hosts on a "
    "device get half each";
constexpr std::string_view gen5_x16 = "PCIe 5.0 x16: 32 GT/s, 128b/130b, 16 lanes";
constexpr std::string_view titan = "CCCL, 3: XConn's switch, 2 TB/s";
constexpr std::string_view pool_load = "CCCL, Table 1: 658 ns (MLC, a dependent load)";
constexpr std::string_view launch = "assumed: a few microseconds for a copy by a stream";
constexpr std::string_view emulator =
    "assumed as CCCL's emulator does (4.1): devices shared evenly, and nothing else costs time";
constexpr std::string_view hbm =
    "NVIDIA H100's data sheet: 3.35 TB/s; a reduction reads and writes";
constexpr std::string_view niagara_dram =
    "cMPI, 4.1: 4 channels of DDR4-2400, which reads and writes share";
constexpr std::string_view niagara_rate = "cMPI, Table 1: 9.5 GB/s with flush (PCIe 4.0 x8)";
constexpr std::string_view niagara_load = "cMPI, Table 1: 790 ns (MLC, a dependent load)";
constexpr std::string_view niagara_store =
    "cMPI, Table 1: 2.2 us for a store with write-back, less the load in it";
constexpr std::string_view core_read =
    "64 lines under way by the prefetcher, one for each load's time: 64 x 64 B / 0.658 us";
constexpr std::string_view core_write = "assumed: non-temporal stores of a core";
constexpr std::string_view core_reduce = "assumed: AVX2 sums of float32 from the caches";
constexpr std::string_view host_memory =
    "cMPI, Table 1: 132.8 GB/s of main memory, half for a copy";

std::vector<PlatformSet> make_sets() {
  const PlatformSet paper{"cccl",
                          "the fourth paper's pool as its emulator sees it: bandwidth alone",
                          {{"device", 20, cz120},
                           {"write", 20, cz120},
                           {"read", 20, cz120},
                           {"lanes", 2, "CCCL, 4.4: a write stream and a read stream"},
                           {"load", 0, emulator}},
                          6,
                          256 << 10};
  PlatformSet gpu{"gpu",
                  "the same with what operations cost, links and switch: ranks are GPUs",
                  {{"device", 20, cz120},
                   {"write", 20, cz120},
                   {"read", 20, cz120},
                   {"lanes", 2, "CCCL, 4.4: a write stream and a read stream"},
                   {"link", 63, gen5_x16},
                   {"pool", 2000, titan},
                   {"memory", 1675, hbm},
                   {"load", 0.658, pool_load},
                   {"store", 0.658, "taken as a load's"},
                   {"launch", 5, launch}},
                  6,
                  256 << 10};
  const PlatformSet cpu{"cpu",
                        "ranks are cores that load and store, on the fourth paper's pool",
                        {{"device", 20, cz120},
                         {"link", 63, gen5_x16},
                         {"pool", 2000, titan},
                         {"write", 10, core_write},
                         {"read", 6.2, core_read},
                         {"memory", 66.4, host_memory},
                         {"reduce", 20, core_reduce},
                         {"load", 0.658, pool_load},
                         {"store", 1.4, niagara_store},
                         {"fence", 1.4, niagara_store}},
                        6,
                        256 << 10};
  const PlatformSet niagara{"niagara",
                            "the first paper's pool: one FPGA, four ports, ranks are cores",
                            {{"device", 76.8, niagara_dram},
                             {"link", 9.5, niagara_rate},
                             {"write", 9.5, niagara_rate},
                             {"read", 5.2, "64 lines under way: 64 x 64 B / 0.79 us"},
                             {"memory", 66.4, host_memory},
                             {"reduce", 20, core_reduce},
                             {"load", 0.79, niagara_load},
                             {"store", 1.4, niagara_store},
                             {"fence", 1.4, niagara_store}},
                            1,
                            256 << 10};
  return {paper, gpu, cpu, niagara};
}

const PlatformField* field_of(std::string_view name) {
  const auto found = std::find_if(all_fields.begin(), all_fields.end(),
                                  [&](const auto& field) { return field.name == name; });
  return found == all_fields.end() ? nullptr : &*found;
}

std::string names_of_fields() {
  std::string names;
  for (const PlatformField& field : all_fields) names += std::string(field.name) + ", ";
  return names + "devices";
}

/// A choice is 0 or 1, and a rate below the limit is probably a mistake of units.
Result<void> check_value(const PlatformField& field, double number) {
  constexpr double least_GBps = 1e-3;
  const bool rate = field.unit == "GB/s", choice = field.unit.find('|') != std::string_view::npos;
  const double first = field.unit == "1|2" ? 1 : 0;
  if (choice && number != first && number != first + 1)
    return fail(ErrorCode::invalid_argument, "{}={}: {:g} or {:g} is needed ({})", field.name,
                number, first, first + 1, field.meaning);
  if (rate && number > 0 && number < least_GBps)
    return fail(ErrorCode::invalid_argument,
                "{}={}: 0, which is no limit, or at least {:g} GB/s is needed", field.name, number,
                least_GBps);
  return {};
}

Result<void> change_one(PlatformSet& set, std::string_view name, double number) {
  if (name == "devices") {
    if (number < 1 || number > 16 || number != std::floor(number))
      return fail(ErrorCode::invalid_argument, "devices={}: 1 to 16 are modelled", number);
    set.devices = static_cast<std::uint32_t>(number);
    return {};
  }
  constexpr double most = 1 + offload::max_leaves;
  if (name == "switches" && (number > most || number != std::floor(number)))
    return fail(ErrorCode::invalid_argument, "switches={}: 0 to {} are modelled", number, most);
  const PlatformField* const field = field_of(name);
  if (field == nullptr)
    return fail(ErrorCode::invalid_argument, "a platform has no '{}'; it has {}", name,
                names_of_fields());
  PENSTOCK_TRY(check_value(*field, number));
  const auto set_already = std::find_if(set.values.begin(), set.values.end(),
                                        [&](const auto& value) { return value.name == name; });
  const PlatformSet::Value value{field->name, number, "given by --set"};
  if (set_already == set.values.end())
    set.values.push_back(value);
  else
    *set_already = value;
  return {};
}

}  // namespace

std::span<const PlatformField> fields() {
  return all_fields;
}

const std::vector<PlatformSet>& platform_sets() {
  static const std::vector<PlatformSet> sets = make_sets();
  return sets;
}

const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"InfiniBand", 25, 1, 0.6, 60,
       "CCCL, 4.1: 200 Gb/s; latency: cMPI, Table 1 (below 0.6 us, ConnectX-6)"},
      {"TCP", 12.5, 0.92, 18, 60,
       "cMPI, Table 1: ConnectX-6 Dx, 11.5 of 12.5 GB/s by iPerf, 18 us"},
      {"NVLink", 450, 0.8, 1, 450,
       "NVIDIA H100's data sheet: 900 GB/s both directions; fraction and latency assumed"}};
  return all;
}

Result<const PlatformSet*> find_platform(std::string_view name) {
  std::string known;
  for (const PlatformSet& set : platform_sets()) {
    if (set.name == name) return &set;
    known += (known.empty() ? "" : ", ") + std::string(set.name);
  }
  return fail(ErrorCode::invalid_argument, "there is no platform '{}'; there are {}", name, known);
}

Platform PlatformSet::platform() const {
  Platform platform;
  for (const Value& value : values) platform.*(field_of(value.name)->at) = value.value;
  return platform;
}

Result<void> change(PlatformSet& set, std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    const std::string_view digits =
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    double number = -1;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool whole =
        !digits.empty() && read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    if (!whole || !(number >= 0) || number > 1e6)
      return fail(ErrorCode::invalid_argument,
                  "'{}' is no NAME=NUMBER with a number from 0 to 1000000; names are {}", word,
                  names_of_fields());
    PENSTOCK_TRY(change_one(set, word.substr(0, equals), number));
  }
  return {};
}

}  // namespace penstock::model
