#include "model/fluid.hpp"

#include <algorithm>
#include <utility>

namespace penstock::model {

namespace {

/// Fewer bytes than that are rounding errors.
constexpr double least_bytes = 1e-3;
/// Resources this near to each other fill up together.
constexpr double near = 1 + 1e-9;

}  // namespace

Resource Fluid::add_resource(double rate) {
  rates_.push_back(rate);
  carried_.push_back(0);
  left_.push_back(0);
  load_.push_back(0);
  open_uses_.push_back(0);
  return static_cast<Resource>(rates_.size() - 1);
}

Flow Fluid::start(double bytes, std::vector<Use> uses) {
  Flow flow = static_cast<Flow>(transfers_.size());
  if (free_.empty()) {
    transfers_.emplace_back();
  } else {
    flow = free_.back();
    free_.pop_back();
  }
  transfers_[flow] = {.left = bytes, .rate = 0, .uses = std::move(uses)};
  active_.push_back(flow);
  changed_ = true;
  return flow;
}

void Fluid::find_used() {
  for (const Resource resource : used_) open_uses_[resource] = 0;
  used_.clear();
  for (const Flow flow : active_) {
    for (const Use& use : transfers_[flow].uses) {
      if (open_uses_[use.resource]++ == 0) {
        used_.push_back(use.resource);
        left_[use.resource] = rates_[use.resource];
        load_[use.resource] = 0;
      }
      load_[use.resource] += use.share;
    }
  }
}

void Fluid::freeze(Transfer& transfer, double rate) {
  transfer.rate = rate;
  for (const Use& use : transfer.uses) {
    left_[use.resource] -= use.share * rate;
    load_[use.resource] -= use.share;
    --open_uses_[use.resource];
  }
}

/// All rates rise together; a rate stops rising when one of its resources is full.
void Fluid::share_out() {
  changed_ = false;
  find_used();
  open_ = active_;
  while (!open_.empty()) {
    double level = never;
    for (const Resource resource : used_)
      if (open_uses_[resource] != 0) level = std::min(level, left_[resource] / load_[resource]);
    std::vector<Flow> stopped;
    std::erase_if(open_, [&](Flow flow) {
      for (const Use& use : transfers_[flow].uses) {
        if (left_[use.resource] > level * near * load_[use.resource]) continue;
        stopped.push_back(flow);
        return true;
      }
      return false;
    });
    for (const Flow flow : stopped) freeze(transfers_[flow], std::max(level, 0.0));
  }
}

double Fluid::rate_of(Flow flow) {
  if (changed_) share_out();
  return transfers_[flow].rate;
}

double Fluid::until_next() {
  if (changed_) share_out();
  double soonest = never;
  for (const Flow flow : active_)
    soonest = std::min(soonest, transfers_[flow].left / transfers_[flow].rate);
  return soonest;
}

const std::vector<Flow>& Fluid::advance(double seconds) {
  if (changed_) share_out();
  done_.clear();
  std::erase_if(active_, [&](Flow flow) {
    Transfer& transfer = transfers_[flow];
    const double bytes = std::min(transfer.left, transfer.rate * seconds);
    for (const Use& use : transfer.uses) carried_[use.resource] += use.share * bytes;
    transfer.left -= bytes;
    if (transfer.left > least_bytes) return false;
    done_.push_back(flow);
    return true;
  });
  std::sort(done_.begin(), done_.end());
  free_.insert(free_.end(), done_.begin(), done_.end());
  changed_ = changed_ || !done_.empty();
  return done_;
}

}  // namespace penstock::model
