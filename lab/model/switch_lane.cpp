#include "model/switch_lane.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/format.hpp"
#include "coherence/coherence.hpp"

namespace penstock::model {

namespace {

using coll::Step;
using coll::StepKind;

constexpr double microsecond = 1e-6;

/// The numbers under which chunks are announced: the ranks by their own, and after them these.
struct Names {
  std::uint32_t ranks = 0, leaves = 0;
  std::uint32_t leaf_asks(std::uint32_t leaf) const { return ranks + leaf; }
  std::uint32_t leaf_answers(std::uint32_t leaf) const { return ranks + leaves + leaf; }
  std::uint32_t top_answers() const { return ranks + 2 * leaves; }  ///< the switch, or the spine
};

/// The switch, the spine, or half a leaf: the half that asks the spine, or the half that answers.
class SwitchLane final : public Lane {
 public:
  struct Place {
    std::uint32_t number = 0;             ///< 0, or 1 + leaf
    std::vector<std::uint32_t> asked_by;  ///< the producers that announce each chunk
    std::uint32_t answers_as = 0;
    double gathered = 0, given = 0;  ///< for each byte of a part
    bool reduces = false;
  };
  SwitchLane(PoolCall& call, const coll::SwitchPlan& plan, Place place)
      : call_(call), plan_(plan), place_(std::move(place)) {}

  Action next(Machine& machine) override {
    if (actions_.empty() && is_open_) close(machine);
    if (actions_.empty() && chunk_ == plan_.chunks) return {};
    if (actions_.empty()) open();
    Action action = std::move(actions_.front());
    actions_.pop_front();
    return action;
  }
  std::string name() const override {
    return fmt::format("switch {}, chunk {} of {}", place_.number, chunk_, plan_.chunks);
  }

 private:
  void open() {
    const PoolResources& resources = call_.resources();
    const Platform& platform = resources.platform();
    const auto add = [this](double bytes, std::vector<Use> uses) {
      if (bytes > 0)
        actions_.push_back(
            {.kind = Action::Kind::transfer, .bytes = bytes, .uses = std::move(uses)});
    };
    is_open_ = true;
    std::vector<Need> needs;
    for (const std::uint32_t who : place_.asked_by) needs.push_back({call_.doorbell(who, chunk_)});
    actions_.push_back({.kind = Action::Kind::await, .needs = std::move(needs)});
    const double part = plan_.inlined ? 0 : static_cast<double>(plan_.part(chunk_).bytes);
    // A look at all rings, one for all operands, and two publishes.
    const double looks = part * place_.gathered > 0 ? 2 : 1;
    actions_.push_back(
        {.kind = Action::Kind::pause, .seconds = looks * platform.load_us * microsecond});
    add(part * place_.gathered, resources.gather(place_.number, place_.reduces));
    add(part * place_.given, resources.give(place_.number));
    actions_.push_back({.kind = Action::Kind::pause, .seconds = platform.fence_us * microsecond});
  }
  void close(Machine& machine) {
    is_open_ = false;
    machine.signal(call_.doorbell(place_.answers_as, chunk_++), 1,
                   call_.resources().platform().store_us * microsecond);
  }

  PoolCall& call_;
  const coll::SwitchPlan plan_;
  const Place place_;
  std::deque<Action> actions_;
  std::uint64_t chunk_ = 0;
  bool is_open_ = false;
};

/// Operand bytes from `ranks` ranks, for each byte of a part.
double brought(const coll::SwitchPlan& plan, double ranks) {
  if (plan.operation == offload::Operation::barrier) return 0;
  return (plan.operation == offload::Operation::broadcast ? 1 : ranks) * plan.segments;
}

}  // namespace

void add_switch_lanes(Machine& machine, PoolCall& call, const coll::SwitchPlan& plan,
                      std::uint32_t ranks) {
  const PoolResources& resources = call.resources();
  const Names names{ranks, resources.leaves()};
  const double result = plan.operation == offload::Operation::barrier ? 0 : plan.result_segments;
  const auto add = [&](SwitchLane::Place place) {
    machine.add_lane(std::make_unique<SwitchLane>(call, plan, std::move(place)));
  };
  std::vector<std::vector<std::uint32_t>> served(std::max(names.leaves, 1u));
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    served[resources.leaf_of(rank)].push_back(rank);
  SwitchLane::Place top{.asked_by = served[0],
                        .answers_as = names.top_answers(),
                        .gathered = brought(plan, ranks),
                        .given = result,
                        .reduces = plan.reduces()};
  if (names.leaves == 0) return add(std::move(top));
  const bool partial = plan.reduces() && resources.platform().exact != 0;
  top.asked_by.clear();
  for (std::uint32_t leaf = 0; leaf < names.leaves; ++leaf) {
    if (served[leaf].empty()) continue;
    top.asked_by.push_back(names.leaf_asks(leaf));
    add({.number = 1 + leaf,
         .asked_by = served[leaf],
         .answers_as = names.leaf_asks(leaf),
         .gathered = partial ? brought(plan, static_cast<double>(served[leaf].size())) : 0,
         .given = partial ? plan.segments : 0.0,
         .reduces = partial});
    add({.number = 1 + leaf,
         .asked_by = {names.top_answers()},
         .answers_as = names.leaf_answers(leaf),
         .gathered = result,
         .given = result});
  }
  if (partial) top.gathered = brought(plan, static_cast<double>(top.asked_by.size()));
  add(std::move(top));
}

coll::Schedule modelled_schedule_of(const PoolResources& resources, const coll::Problem& problem,
                                    const coll::SwitchPlan& plan, std::uint32_t window) {
  const coll::Schedule whole = coll::switch_schedule_of(problem, plan, window);
  const Names names{problem.ranks, resources.leaves()};
  const std::uint32_t answered_by =
      names.leaves == 0 ? names.top_answers() : names.leaf_answers(resources.leaf_of(problem.rank));
  coll::Schedule schedule;
  std::vector<std::int64_t> taken(plan.chunks, -1);  // by chunk: the last step
  bool uses_again = false;
  for (Step step : whole.steps) {
    const bool moves = step.kind == StepKind::publish || step.kind == StepKind::copy;
    if (step.kind == StepKind::await_release) uses_again = step.chunk >= window;
    // No wait for a release is needed: the rank's next packet implies it.
    if (step.kind == StepKind::await_release || step.kind == StepKind::release ||
        (plan.inlined && moves))
      continue;
    step.rank = answered_by;
    if (step.lane == coll::Lane::write && std::exchange(uses_again, false))
      step.after = taken[step.chunk - window];
    if (step.lane == coll::Lane::read)
      taken[step.chunk] = static_cast<std::int64_t>(schedule.steps.size());
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace penstock::model
