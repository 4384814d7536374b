// A receiver with many senders: the cost of an empty look at all of them, and the time of a message
// from the sender's call to its delivery. Compares the published way (one ring after another, each
// with its own flush, fence and load) with Penstock's.
#include <array>
#include <cstring>
#include <random>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/cmpi_ring.hpp"
#include "bench/endpoint_path.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::array<std::size_t, 4> sender_counts = {1, 8, 32, 128};
constexpr std::uint64_t cell_bytes = 4096;
constexpr std::size_t message_bytes = 8;
constexpr std::uint64_t longest_delay_ns = 3000;
constexpr int deliveries = 16;  ///< in a round
/// Empty looks after which used channels are certainly at rest.
constexpr int looks_to_rest = 40'000;

enum Row : std::size_t {
  paper_idle,
  ours_idle,
  paper_delivery,
  ours_delivery,
  ours_awake,
  row_count
};

/// Looks once at all senders; returns true when a message was delivered.
using Look = std::function<bool()>;

class Bench {
 public:
  Bench(Side& side, Samples& results) : side_(side), results_(results), random_(side.index()) {}

  Result<void> open(const std::string& spec) {
    hold_ = PENSTOCK_TRY(Attachment::open(spec, side_.index()));
    if (auto made = open_rings(); !made) return made;
    if (!receives()) return {};
    auto receiver = PENSTOCK_TRY(EndpointPath::open(*hold_.arena));
    receiver_ = std::move(receiver);
    return {};
  }

  /// Adds senders until there are sender_counts[index], then measures.
  Result<void> round(std::size_t index) {
    const std::size_t senders = sender_counts[index];
    if (auto joined = join(senders); !joined) return joined;
    const auto look_rings = [&] { return look_at_rings(senders); };
    const auto look_endpoint = [&] {
      return receiver_->poll(reinterpret_cast<std::byte*>(&word_));
    };
    for (std::size_t round = 0; round < results_.rounds(); ++round) {
      const auto record = [&](Row row, double ns) {
        if (receives()) results_.record(index * row_count + row, round, ns);
      };
      record(paper_idle, idle(look_rings, senders));
      record(paper_delivery, deliver(senders, look_rings, by_ring()));
      rest();
      record(ours_idle, idle(look_endpoint, senders));
      record(ours_delivery, deliver(senders, look_endpoint, by_endpoint()));
      for (std::size_t sender = 0; sender < senders; ++sender) wake(sender, look_endpoint);
      record(ours_awake, deliver(senders, look_endpoint, by_endpoint()));
      if (failure_) return unexpected(*failure_);
    }
    return {};
  }

 private:
  using Send = std::function<Result<void>(std::size_t sender, std::uint64_t word)>;

  bool receives() const { return side_.index() == 0; }

  Result<void> open_rings() {
    const std::uint64_t each = CmpiRing::bytes(cell_bytes), all = each * sender_counts.back();
    std::byte* area = nullptr;
    if (receives()) {
      auto made = hold_.arena->create("bench.rings", all, {.lifetime = arena::Lifetime::process});
      side_.exchange(made ? made->offset : 0);
      if (!made) return unexpected(made.error());
      area = made->data;
    } else {
      const std::uint64_t offset = side_.exchange(0);
      area = static_cast<std::byte*>(hold_.pool->at(offset, all));
      if (offset == 0 || area == nullptr)
        return fail(ErrorCode::no_space, "side 0 could not make the measured rings");
    }
    const auto memory = PENSTOCK_TRY(paper_memory(hold_.pool->memory().mode()));
    for (std::size_t i = 0; i < sender_counts.back(); ++i)
      rings_.emplace_back(memory, area + i * each, cell_bytes);
    return {};
  }

  Result<void> join(std::size_t senders) {
    transport::Address receiver = hold_address();
    receiver.slot = static_cast<std::uint32_t>(side_.exchange(receiver.slot));
    receiver.generation = static_cast<std::uint32_t>(side_.exchange(receiver.generation));
    const auto look = [&] { return receiver_->poll(reinterpret_cast<std::byte*>(&word_)); };
    while (joined_ < senders) {
      if (!receives()) {
        auto path = PENSTOCK_TRY(EndpointPath::open(*hold_.arena));
        receiver.pool_id = path->address().pool_id;
        receiver.job = path->address().job;
        if (auto connected = path->connect(receiver); !connected) return connected;
        senders_.push_back(std::move(path));
      }
      wake(joined_++, look);
      if (failure_) return unexpected(*failure_);
    }
    return {};
  }

  transport::Address hold_address() const {
    return receives() ? receiver_->address() : transport::Address{};
  }

  bool look_at_rings(std::size_t senders) {
    bool found = false;
    for (std::size_t i = 0; i < senders; ++i) {
      if (!rings_[i].poll()) continue;
      found = rings_[i].take(reinterpret_cast<std::byte*>(&word_), sizeof word_).has_value();
      if (!found)
        failure_ = Error{ErrorCode::internal, "the published ring delivered a damaged header"};
    }
    return found;
  }

  Send by_ring() {
    return [this](std::size_t sender, std::uint64_t word) -> Result<void> {
      while (!rings_[sender].try_send(reinterpret_cast<const std::byte*>(&word), message_bytes)) {
      }
      return {};
    };
  }

  Send by_endpoint() {
    return [this](std::size_t sender, std::uint64_t word) {
      return senders_[sender]->send(reinterpret_cast<const std::byte*>(&word), message_bytes);
    };
  }

  double idle(const Look& look, std::size_t senders) {
    const int looks = senders >= 128 ? 50 : 400;
    const double ns = side_.burst([&] {
      for (int i = 0; receives() && i < looks; ++i) look();
    });
    side_.meet();
    return ns / looks;
  }

  /// The mean time from the call to the delivery, for random senders at random moments.
  double deliver(std::size_t senders, const Look& look, const Send& send) {
    std::uint64_t sum = 0;
    side_.burst([&] {
      for (int i = 0; i < deliveries; ++i)
        sum += receives() ? take_one(look) : send_one(senders, send);
    });
    return static_cast<double>(sum) / deliveries;
  }

  std::uint64_t take_one(const Look& look) {
    ++number_;
    while (!look() && !failure_) {
    }
    const std::uint64_t now = base::now_ns();
    if (word_ != number_ && !failure_)
      failure_ = Error{ErrorCode::internal,
                       fmt::format("message {} arrived in place of {}", word_, number_)};
    const std::uint64_t sent = side_.signalled();
    side_.signal(number_);
    return now - sent;
  }

  std::uint64_t send_one(std::size_t senders, const Send& send) {
    const std::size_t sender = random_() % senders;
    const std::uint64_t until = base::now_ns() + random_() % longest_delay_ns;
    while (base::now_ns() < until) {
    }
    side_.signal(base::now_ns());
    if (auto sent = send(sender, ++number_); !sent) failure_ = sent.error();
    side_.await_signal(number_);
    return 0;
  }

  /// Delivers one message from `sender` that is not measured.
  void wake(std::size_t sender, const Look& look) {
    ++number_;
    if (receives()) {
      while (!look()) {
      }
    } else if (auto sent = senders_[sender]->send(reinterpret_cast<const std::byte*>(&number_),
                                                  message_bytes);
               !sent) {
      failure_ = sent.error();
    }
    side_.meet();
  }

  void rest() {
    for (int i = 0; receives() && i < looks_to_rest; ++i) receiver_->endpoint().progress();
    side_.meet();
  }

  Side& side_;
  Samples& results_;
  std::mt19937_64 random_;
  Attachment hold_;
  std::vector<CmpiRing> rings_;
  std::unique_ptr<EndpointPath> receiver_;
  std::vector<std::unique_ptr<EndpointPath>> senders_;
  std::size_t joined_ = 0;
  std::uint64_t number_ = 0;  ///< of the message; both sides count alike
  std::uint64_t word_ = 0;    ///< the last payload delivered
  std::optional<Error> failure_;
};

Report report_of(const Samples& results, const Options& options, coherence::Mode mode) {
  Report report("poll");
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  Table idle{"an empty look at all senders in ns, medians",
             {{"senders"}, {"one ring after another"}, {"ours"}, {"published/ours", 2}},
             {}};
  Table delivery{"8 B from the call to the delivery in ns, medians",
                 {{"senders"},
                  {"one ring after another"},
                  {"ours, from rest"},
                  {"ours, all active"},
                  {"published/from rest", 2},
                  {"published/all active", 2}},
                 {}};
  for (std::size_t i = 0; i < sender_counts.size(); ++i) {
    const auto median = [&](Row row) { return results.median(i * row_count + row); };
    const auto senders = static_cast<double>(sender_counts[i]);
    idle.rows.push_back({senders, cell(median(paper_idle)), cell(median(ours_idle)),
                         ratio(median(paper_idle), median(ours_idle))});
    delivery.rows.push_back({senders, cell(median(paper_delivery)), cell(median(ours_delivery)),
                             cell(median(ours_awake)),
                             ratio(median(paper_delivery), median(ours_delivery)),
                             ratio(median(paper_delivery), median(ours_awake))});
  }
  constexpr std::array<const char*, row_count> series = {
      "cMPI ring", "Penstock", "cMPI ring", "Penstock, from rest", "Penstock, all active"};
  for (std::size_t i = 0; i < sender_counts.size(); ++i)
    for (std::size_t row = 0; row < row_count; ++row)
      report.add({.series = series[row],
                  .op = row <= ours_idle ? "an empty look" : "delivery of 8 B",
                  .metric = "latency_us",
                  .group = coherence::mode_name(mode),
                  .procs = static_cast<unsigned>(sender_counts[i])},
                 results.values(i * row_count + row), 1e-3);
  report.add(std::move(idle));
  report.add(std::move(delivery));
  return report;
}

Result<Report> measure(const Options& options, coherence::Mode mode) {
  Samples results(sender_counts.size() * row_count, options.rounds);
  PENSTOCK_TRY(run_two_sides<Bench>(options, mode, sender_counts.size(), results));
  return report_of(results, options, mode);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  options.size = "256M";
  return run_benchmark(
      "A receiver with 1, 8, 32 and 128 senders: the cost of a look and of a delivery", options,
      argc, argv, measure);
}
