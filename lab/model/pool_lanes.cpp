#include "model/pool_lanes.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "coherence/coherence.hpp"
#include "coll/planning.hpp"
#include "schedule/together.hpp"

namespace penstock::model {

namespace {

using coll::Step;
using coll::StepKind;

constexpr double micro = 1e-6, nano = 1e-9;
/// Bytes of a tagged line for each byte of its payload.
constexpr double tagged = double{coherence::line_bytes} / double{coherence::tagged_bytes};

/// Bytes to be read, by the place where they lie.
class Reads {
 public:
  explicit Reads(std::size_t devices_at_most) : devices_(devices_at_most) {}
  void add_device(std::uint32_t device, double bytes) { devices_[device] += bytes, pool_ += bytes; }
  void add_elsewhere(double bytes) { pool_ += bytes; }
  void add_local(double bytes) { local_ += bytes; }
  double pool() const { return pool_; }
  double local() const { return local_; }
  std::vector<PoolResources::DeviceShare> shares() const {
    std::vector<PoolResources::DeviceShare> found;
    for (std::uint32_t device = 0; device < devices_.size(); ++device)
      if (devices_[device] > 0) found.push_back({device, devices_[device] / pool_});
    return found;
  }

 private:
  std::vector<double> devices_;
  double pool_ = 0, local_ = 0;
};

/// A rank's thread, or one of its two streams.
class RankLane final : public Lane {
 public:
  /// `steps`: numbers of the steps that this lane does.
  RankLane(PoolCall& call, std::uint32_t rank, coll::Lane lane, bool alone,
           std::vector<std::size_t> steps)
      : call_(call),
        platform_(call.resources().platform()),
        all_(call.schedule(rank).steps),
        rank_(rank),
        lane_(lane),
        alone_(alone),
        steps_(std::move(steps)),
        awaited_(all_.size()) {
    for (const Step& each : all_)
      if (!alone && each.after >= 0) awaited_[static_cast<std::size_t>(each.after)] = true;
  }

  Action next(Machine& machine) override;
  std::string name() const override {
    const bool over = at_ >= steps_.size();
    return fmt::format("rank {}, step {} of {}", rank_, over ? all_.size() : steps_[at_],
                       all_.size());
  }

 private:
  const Step& step(std::size_t at) const { return all_[steps_[at]]; }
  void open(Machine& machine);
  void close(Machine& machine);
  void open_waits();
  void open_copies();
  void open_combine();
  void open_publish();
  void open_releases();
  void open_all_reads();
  void pause(double seconds) {
    if (seconds > 0) plan_.push_back({.kind = Action::Kind::pause, .seconds = seconds});
  }
  void add_read(Reads& reads, std::uint32_t producer, std::uint64_t chunk, double bytes) const;
  /// Adds the pause before the transfers, and the transfers.
  void fetch(const Reads& reads);
  void fetch_in_turn(const Step& step);
  void reduce(const Step& step);
  /// Moves a packet to or from a switch.
  void move_packet(const std::vector<Use>& uses) {
    plan_.push_back(
        {.kind = Action::Kind::transfer, .bytes = double{coherence::line_bytes}, .uses = uses});
  }
  std::vector<PoolResources::DeviceShare> packet_place() const {
    return call_.devices_of(rank_, 0);
  }
  bool is_seen(const Step& wait) const { return seen_.contains({wait.rank, wait.chunk}); }

  PoolCall& call_;
  const Platform& platform_;
  const std::vector<Step>& all_;
  const std::uint32_t rank_;
  const coll::Lane lane_;
  const bool alone_;  ///< the rank has no other lane
  const std::vector<std::size_t> steps_;
  std::vector<bool> awaited_;     ///< by the other lane, for each step
  std::size_t at_ = 0, end_ = 0;  ///< the steps that are under way
  bool is_open_ = false;
  double begin_ = 0, bytes_ = 0;
  std::deque<Action> plan_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen_;  ///< doorbells already seen
};

Action RankLane::next(Machine& machine) {
  for (;;) {
    if (!plan_.empty()) {
      Action action = std::move(plan_.front());
      plan_.pop_front();
      return action;
    }
    if (is_open_) close(machine);
    if (at_ == steps_.size()) return {};
    open(machine);
  }
}

void RankLane::open(Machine& machine) {
  is_open_ = true;
  begin_ = machine.now();
  bytes_ = 0;
  end_ = at_ + 1;
  const Step& first = step(at_);
  if (!alone_ && first.after >= 0 && all_[static_cast<std::size_t>(first.after)].lane != lane_)
    plan_.push_back({.kind = Action::Kind::await,
                     .needs = {{call_.step(rank_, static_cast<std::uint64_t>(first.after))}}});
  switch (first.kind) {
    case StepKind::wait:
      return call_.eager() ? open_all_reads() : open_waits();
    case StepKind::await_release:
      return open_releases();
    case StepKind::copy:
      return open_copies();
    case StepKind::combine:
      return open_combine();
    case StepKind::publish:
      return open_publish();
    case StepKind::ring:
      pause(call_.eager() ? 0 : platform_.fence_us * micro);
      if (call_.in_switch()) move_packet(call_.resources().write(rank_, packet_place()));
      return;
    case StepKind::move:
      bytes_ = static_cast<double>(first.span.bytes);
      plan_.push_back({.kind = Action::Kind::transfer,
                       .bytes = bytes_,
                       .uses = call_.resources().local(rank_)});
      return;
    case StepKind::release:
      return;
  }
}

/// Takes consecutive waits of one kind; doorbells already seen need no look.
void RankLane::open_waits() {
  std::vector<Need> needs;
  for (end_ = at_; end_ < steps_.size() && step(end_).kind == StepKind::wait; ++end_) {
    if (!alone_ && end_ > at_) break;
    if (!is_seen(step(end_))) needs.push_back({call_.doorbell(step(end_).rank, step(end_).chunk)});
  }
  if (needs.empty()) return;
  const std::size_t looked_for = needs.size();
  plan_.push_back({.kind = Action::Kind::await, .needs = std::move(needs)});
  pause(platform_.load_us * micro);
  for (std::size_t i = 0; call_.in_switch() && i < looked_for; ++i)
    move_packet(call_.resources().read(rank_, packet_place()));
}

void RankLane::open_releases() {
  std::vector<Need> needs;
  for (end_ = at_; end_ < steps_.size() && step(end_).kind == StepKind::await_release; ++end_) {
    if (!alone_ && end_ > at_) break;
    needs.push_back({call_.release(rank_, step(end_).rank), step(end_).chunk + 1});
  }
  plan_.push_back({.kind = Action::Kind::await, .needs = std::move(needs)});
  pause(platform_.load_us * micro);
}

void RankLane::open_publish() {
  const Step& publish = step(at_);
  const auto shares = call_.devices_of(rank_, publish.chunk);
  bytes_ = static_cast<double>(publish.span.bytes) * (call_.eager() ? tagged : 1);
  pause(platform_.launch_us * micro);
  plan_.push_back(
      {.kind = Action::Kind::transfer,
       .bytes = bytes_,
       .uses = call_.resources().write(rank_, shares),
       .turn = shares.size() == 1 ? call_.resources().turn(shares[0].device, true) : -1});
}

void RankLane::add_read(Reads& reads, std::uint32_t producer, std::uint64_t chunk,
                        double bytes) const {
  if (platform_.cached != 0 && !call_.in_switch() && call_.resources().same_node(rank_, producer))
    return reads.add_local(bytes);
  const auto shares = call_.devices_of(producer, chunk);
  for (const auto& each : shares) reads.add_device(each.device, each.share * bytes);
  if (shares.empty()) reads.add_elsewhere(bytes);
}

void RankLane::fetch(const Reads& reads) {
  pause((platform_.launch_us + platform_.load_us) * micro);
  bytes_ += reads.pool() + reads.local();
  const auto shares = reads.shares();
  if (reads.pool() > 0)
    plan_.push_back(
        {.kind = Action::Kind::transfer,
         .bytes = reads.pool(),
         .uses = call_.resources().read(rank_, shares),
         .turn = shares.size() == 1 ? call_.resources().turn(shares[0].device, false) : -1});
  if (reads.local() > 0)
    plan_.push_back({.kind = Action::Kind::transfer,
                     .bytes = reads.local(),
                     .uses = call_.resources().local(rank_)});
}

void RankLane::open_copies() {
  if (alone_)
    end_ = coll::end_of_copies(all_, at_, [this](const Step& wait) { return is_seen(wait); });
  Reads reads(coll::Devices::max_count);
  for (std::size_t i = at_; i < end_; ++i)
    if (step(i).kind == StepKind::copy)
      add_read(reads, step(i).rank, step(i).chunk, static_cast<double>(step(i).span.bytes));
  fetch(reads);
}

/// Operands are fetched piece by piece, so that all their devices are read at once.
void RankLane::open_combine() {
  const Step& combine = step(at_);
  if (platform_.turns != 0) {
    fetch_in_turn(combine);
  } else {
    Reads reads(coll::Devices::max_count);
    for (std::uint32_t i = 0; i < combine.operand_count; ++i) {
      const coll::Operand& operand = call_.schedule(rank_).operands[combine.first_operand + i];
      if (!operand.own)
        add_read(reads, operand.rank, operand.chunk, static_cast<double>(combine.span.bytes));
    }
    if (reads.pool() + reads.local() > 0) fetch(reads);
  }
  reduce(combine);
}

/// Fetches one operand after the other; each rank begins with that of the rank before it.
void RankLane::fetch_in_turn(const Step& combine) {
  for (std::uint32_t i = 0; i < combine.operand_count; ++i) {
    const std::uint32_t k = (rank_ + combine.operand_count - 1 - i) % combine.operand_count;
    const coll::Operand& operand = call_.schedule(rank_).operands[combine.first_operand + k];
    if (operand.own) continue;
    Reads reads(coll::Devices::max_count);
    add_read(reads, operand.rank, operand.chunk, static_cast<double>(combine.span.bytes));
    fetch(reads);
  }
}

void RankLane::reduce(const Step& combine) {
  if (platform_.reduce_GBps == 0 || combine.operand_count < 2) return;
  pause(static_cast<double>(combine.span.bytes) * combine.operand_count /
        (platform_.reduce_GBps * 1e9));
}

/// The eager form: a rank looks at all its reads together, with one access after the last one has
/// arrived.
void RankLane::open_all_reads() {
  std::vector<Need> needs;
  Reads reads(coll::Devices::max_count);
  end_ = steps_.size();
  for (std::size_t i = at_; i < end_; ++i) {
    const Step& each = step(i);
    if (each.kind == StepKind::wait) needs.push_back({call_.doorbell(each.rank, each.chunk)});
    if (each.kind == StepKind::copy)
      add_read(reads, each.rank, each.chunk, static_cast<double>(each.span.bytes) * tagged);
    for (std::uint32_t k = 0; each.kind == StepKind::combine && k < each.operand_count; ++k) {
      const coll::Operand& operand = call_.schedule(rank_).operands[each.first_operand + k];
      if (!operand.own)
        add_read(reads, operand.rank, operand.chunk, static_cast<double>(each.span.bytes) * tagged);
    }
  }
  plan_.push_back({.kind = Action::Kind::await, .needs = std::move(needs)});
  fetch(reads);
  for (std::size_t i = at_; i < end_; ++i)
    if (step(i).kind == StepKind::combine) reduce(step(i));
}

void RankLane::close(Machine& machine) {
  is_open_ = false;
  const Step& first = step(at_);
  const double store = platform_.store_us * micro;
  if (first.kind == StepKind::wait && alone_ && !call_.eager()) {
    for (std::size_t i = at_; i < end_; ++i) seen_.insert({step(i).rank, step(i).chunk});
    coll::for_waits_together(all_, at_, [&](std::size_t i) {
      if (machine.value(call_.doorbell(all_[i].rank, all_[i].chunk)) != 0)
        seen_.insert({all_[i].rank, all_[i].chunk});
    });
  }
  if (first.kind == StepKind::ring) machine.signal(call_.doorbell(rank_, first.chunk), 1, store);
  for (std::size_t i = at_; i < end_; ++i) {
    const Step& each = step(i);
    if (each.kind == StepKind::release)
      machine.signal(call_.release(each.rank, rank_), each.chunk + 1, store);
    if (awaited_[steps_[i]]) machine.signal(call_.step(rank_, steps_[i]), 1, 0);
  }
  const auto time_ns = [](double seconds) {
    return static_cast<std::uint64_t>(seconds / nano + 0.5);
  };
  const bool moves =
      !call_.in_switch() && (first.kind == StepKind::publish || first.kind == StepKind::copy);
  if (machine.now() > begin_ || first.kind == StepKind::ring)
    call_.record(
        {.begin_ns = time_ns(begin_),
         .end_ns = time_ns(machine.now()),
         .bytes = static_cast<std::uint64_t>(bytes_),
         .number = 1,
         .rank = rank_,
         .peer = first.rank,
         .chunk = static_cast<std::uint32_t>(first.chunk),
         .device = moves ? static_cast<std::uint16_t>(call_.device_of(first.rank, first.chunk))
                         : coll::TraceSpan::no_device,
         .kind = first.kind,
         .lane = lane_});
  at_ = end_;
}

}  // namespace

Word PoolCall::word(const Name& name) {
  const auto [place, is_new] = words_.try_emplace(name, 0);
  if (is_new) place->second = machine_.add_word();
  return place->second;
}

void PoolCall::add_lanes() {
  const bool alone = resources_.platform().lanes != 2;
  for (std::uint32_t rank = 0; rank < resources_.ranks(); ++rank) {
    std::vector<std::size_t> all, writes, reads;
    const auto& steps = schedules_[rank].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      all.push_back(i);
      (steps[i].lane == coll::Lane::write ? writes : reads).push_back(i);
    }
    const auto add = [&](coll::Lane lane, std::vector<std::size_t> its) {
      machine_.add_lane(std::make_unique<RankLane>(*this, rank, lane, alone, std::move(its)));
    };
    if (alone) {
      add(coll::Lane::read, std::move(all));
    } else {
      add(coll::Lane::write, std::move(writes));
      add(coll::Lane::read, std::move(reads));
    }
  }
}

}  // namespace penstock::model
